// Attributes, elements and loops. See operations.hpp; operators are in arithmetic.cpp.
#include "server/text/jinja/operations.hpp"

#include <algorithm>
#include <charconv>

#include "server/text/jinja/print.hpp"

namespace vigil::text::jinja {

namespace {

Value loop_attribute(Interpreter& in, const Loop& loop, std::string_view name) {
  const auto number = [](size_t value) { return Value::of(static_cast<int64_t>(value)); };
  if (name == "index0") return number(loop.index);
  if (name == "index") return number(loop.index + 1);
  if (name == "first") return Value::of(loop.index == 0);
  if (name == "last") return Value::of(loop.index + 1 == loop.size);
  if (name == "length") return number(loop.size);
  if (name == "revindex") return number(loop.size - loop.index);
  if (name == "revindex0") return number(loop.size - loop.index - 1);
  if (name == "depth") return Value::of(loop.depth + 1);
  if (name == "depth0") return Value::of(loop.depth);
  if (name == "previtem") return loop.index > 0 ? loop.items[loop.index - 1] : Value::undefined(view_string(in.heap, "previtem", Source::fixed));
  if (name == "nextitem") return loop.index + 1 < loop.size ? loop.items[loop.index + 1] : Value::undefined(view_string(in.heap, "nextitem", Source::fixed));
  return Value::undefined(copy_string(in.heap, name, Source::fixed));
}

Value bind_method(Interpreter& in, const Value& self, int method) {
  Value out = Value::with(Type::method);
  out.method = in.heap.make<BoundMethod>(self, method);
  return out;
}

bool subscriptable(const Sequence& sequence) { return sequence.flavor <= Sequence::Flavor::range; }

// The place of an index, which may count from the end; false when there is none.
bool place_of(int64_t index, size_t size, size_t& place) {
  if (index < 0) index += static_cast<int64_t>(size);
  if (index < 0 || index >= static_cast<int64_t>(size)) return false;
  place = static_cast<size_t>(index);
  return true;
}

struct Bounds {
  int64_t begin, end, step;
};

int64_t bound(const Value& value, int64_t absent) {
  if (value.is(Type::none)) return absent;
  if (value.is(Type::undefined)) fail_undefined(value);
  if (!value.is_integral()) fail("slice indices must be integers or None");
  return value.integral();
}

// As Python's slice.indices: begin and end lie in the sequence, or just outside it.
Bounds bounds_of(const Value& begin, const Value& end, const Value& step, size_t size) {
  const int64_t length = static_cast<int64_t>(size);
  const int64_t width = std::clamp(bound(step, 1), -length - 1, length + 1);
  if (width == 0) fail("slice step cannot be zero");
  const auto adjust = [&](int64_t at) {
    if (at < 0) at += length;
    if (at < 0) return width < 0 ? int64_t{-1} : int64_t{0};
    return at >= length ? (width < 0 ? length - 1 : length) : at;
  };
  Bounds out{width < 0 ? length - 1 : 0, width < 0 ? -1 : length, width};
  if (!begin.is(Type::none)) out.begin = adjust(bound(begin, 0));
  if (!end.is(Type::none)) out.end = adjust(bound(end, 0));
  return out;
}

Value slice_string(Interpreter& in, const String& text, const Value& begin, const Value& end, const Value& step) {
  in.work.charge_bytes(text.size);
  const Bounds bounds = bounds_of(begin, end, step, characters(text));
  if (bounds.step == 1) {
    if (bounds.end <= bounds.begin) return Value::of(slice(in.heap, text, 0, 0));
    return Value::of(slice(in.heap, text, byte_of(text, static_cast<size_t>(bounds.begin)), byte_of(text, static_cast<size_t>(bounds.end))));
  }
  std::vector<size_t> places;  // of every character, for steps
  for (size_t at = 0; at < text.size; at += character_bytes(text.view(), at)) places.push_back(at);
  in.work.charge(places.size());
  places.push_back(text.size);
  Builder out(in.heap);
  for (int64_t i = bounds.begin; bounds.step > 0 ? i < bounds.end : i > bounds.end; i += bounds.step) {
    out.append(text, places[static_cast<size_t>(i)], places[static_cast<size_t>(i) + 1]);
  }
  return Value::of(with_markup(in.heap, *out.finish(), text.markup));
}

}  // namespace

void fail_undefined(const Value& value) {
  if (!value.string) fail("a value is undefined");
  fail("'" + std::string(value.string->view()) + "' is undefined");
}

Value attribute(Interpreter& in, const Value& of, const String& name, size_t hash, int method) {
  in.work.charge(name.size / 64);
  switch (of.type) {
    case Type::undefined: fail_undefined(of);
    case Type::dict:
      if (method >= 0 && method_of(of, method)) return bind_method(in, of, method);
      if (const Value* found = find(*of.dict, name.view(), hash)) return *found;
      break;
    case Type::space:
      if (const Value* found = find(*of.dict, name.view(), hash)) return *found;
      break;
    case Type::loop:
      if (method >= 0 && method_of(of, method)) return bind_method(in, of, method);
      return loop_attribute(in, *of.loop, name.view());
    case Type::cycler:
      if (name.view() == "current") return of.cycler->items->items[of.cycler->at % of.cycler->items->size];
      [[fallthrough]];
    default:
      if (method >= 0 && method_of(of, method)) return bind_method(in, of, method);
      if (of.is(Type::macro) && name.view() == "name") return Value::of(of.macro->routine->name);
  }
  return Value::undefined(&name);
}

Value attribute(Interpreter& in, const Value& of, const String& name) {
  in.work.charge(name.size / 64);
  return attribute(in, of, name, hash_text(name.view()), method_number(name.view()));
}

Value item(Interpreter& in, const Value& of, const Value& key) {
  if (of.is(Type::undefined)) fail_undefined(of);
  size_t place = 0;
  if (of.is(Type::dict)) {
    const bool possible = !key.is(Type::dict) && (!key.is(Type::sequence) || key.sequence->flavor == Sequence::Flavor::tuple);
    if (possible) {
      if (const Value* found = find(in.work, *of.dict, key)) return *found;
    }
  } else if (key.is_integral()) {
    if (of.is(Type::sequence) && subscriptable(*of.sequence)) {
      if (place_of(key.integral(), of.sequence->size, place)) return of.sequence->items[place];
    } else if (of.is(Type::string)) {
      in.work.charge_bytes(of.string->size);
      if (place_of(key.integral(), characters(*of.string), place)) {
        const size_t begin = byte_of(*of.string, place);
        return Value::of(slice(in.heap, *of.string, begin, begin + character_bytes(of.string->view(), begin)));
      }
    }
  }
  if (!key.is(Type::string)) return Value::undefined(to_text(in, key));
  if (of.is(Type::dict)) {
    const int method = method_number(key.string->view());
    return method >= 0 && method_of(of, method) ? bind_method(in, of, method) : Value::undefined(key.string);
  }
  return attribute(in, of, *key.string);
}

Value slice_value(Interpreter& in, const Value& of, const Value& begin, const Value& end, const Value& step) {
  if (of.is(Type::undefined)) fail_undefined(of);
  if (of.is(Type::string)) return slice_string(in, *of.string, begin, end, step);
  if (!of.is(Type::sequence) || !subscriptable(*of.sequence)) return Value::undefined();
  const Sequence& all = *of.sequence;
  const Bounds bounds = bounds_of(begin, end, step, all.size);
  const int64_t distance = bounds.step > 0 ? bounds.end - bounds.begin : bounds.begin - bounds.end;
  const int64_t width = bounds.step > 0 ? bounds.step : -bounds.step;
  const size_t size = distance > 0 ? static_cast<size_t>((distance + width - 1) / width) : 0;
  const auto flavor = all.flavor == Sequence::Flavor::range ? Sequence::Flavor::list : all.flavor;
  if (bounds.step == 1) {  // a view: elements that a list once had stay where they are
    Sequence* out = new_sequence(in.heap, 0, flavor);
    if (size > 0) out->items = all.items + bounds.begin;
    out->size = out->capacity = size;
    out->typed = all.typed;
    return Value::of(out);
  }
  in.work.charge(size / 8);
  Sequence* out = new_sequence(in.heap, size, flavor);
  for (size_t i = 0; i < size; ++i) append(in.heap, *out, all.items[bounds.begin + static_cast<int64_t>(i) * bounds.step]);
  out->typed = all.typed;
  return Value::of(out);
}

Value attribute_path(Interpreter& in, const Value& of, const Value& path) {
  if (!path.is(Type::string)) return item(in, of, path);
  Value out = of;
  const String& text = *path.string;
  in.work.charge(text.size / 64);
  for (size_t begin = 0; begin <= text.size;) {
    const size_t end = std::min(text.view().find('.', begin), text.size);
    const String* part = slice(in.heap, text, begin, end);
    int64_t number = 0;
    const char* last = part->data + part->size;
    const bool digits = part->size > 0 && std::from_chars(part->data, last, number).ptr == last && *part->data != '-';
    out = digits ? item(in, out, Value::of(number)) : item(in, out, Value::of(part));
    begin = end + 1;
  }
  return out;
}

Items iterate(Interpreter& in, const Value& over) {
  switch (over.type) {
    case Type::undefined: return {};
    case Type::sequence: {
      const Items out{over.sequence->items, over.sequence->size};
      if (over.sequence->flavor == Sequence::Flavor::generator) over.sequence->size = 0;  // can be walked over once
      return out;
    }
    case Type::dict: {
      Value* keys = in.heap.array<Value>(over.dict->size);
      for (size_t i = 0; i < over.dict->size; ++i) new (&keys[i]) Value(over.dict->entries[i].key);
      in.work.charge(over.dict->size / 8);
      return {keys, over.dict->size};
    }
    case Type::string: {
      const String& text = *over.string;
      const size_t size = characters(text);
      in.work.charge(size + 1);
      Value* out = in.heap.array<Value>(size);
      for (size_t i = 0, at = 0; at < text.size && i < size; ++i) {
        const size_t bytes = character_bytes(text.view(), at);
        new (&out[i]) Value(Value::of(slice(in.heap, text, at, at + bytes)));
        at += bytes;
      }
      return {out, size};
    }
    case Type::loop: return {over.loop->items + over.loop->index, over.loop->size - over.loop->index};
    default: fail("'" + type_name(over) + "' object is not iterable");
  }
}

int64_t length(const Value& of) {
  switch (of.type) {
    case Type::undefined: return 0;
    case Type::string: return static_cast<int64_t>(characters(*of.string));
    case Type::dict: return static_cast<int64_t>(of.dict->size);
    case Type::loop: return static_cast<int64_t>(of.loop->size);
    case Type::sequence:
      if (of.sequence->flavor != Sequence::Flavor::generator) return static_cast<int64_t>(of.sequence->size);
      [[fallthrough]];
    default: fail("object of type '" + type_name(of) + "' has no len()");
  }
}

bool equal(Interpreter& in, const Value& left, const Value& right) { return equal(in.work, left, right); }

bool contains(Interpreter& in, const Value& container, const Value& value) {
  switch (container.type) {
    case Type::string:
      if (!value.is(Type::string)) {
        if (value.is(Type::undefined)) fail_undefined(value);
        fail("'in <string>' requires string as left operand, not " + type_name(value));
      }
      in.work.charge_bytes(container.string->size);
      return find_first(in.work, container.string->view(), value.string->view()) != std::string_view::npos;
    case Type::dict: return find(in.work, *container.dict, value) != nullptr;
    case Type::none:
    case Type::boolean:
    case Type::integer:
    case Type::real: fail("argument of type '" + type_name(container) + "' is not iterable");
    default: break;
  }
  const Items items = iterate(in, container);
  for (const Value& one : items) {
    if (equal(in, one, value)) return true;
  }
  return false;
}

Value list_of(Interpreter& in, const Items& items, Sequence::Flavor flavor, bool typed) {
  Sequence* out = new_sequence(in.heap, items.size, flavor);
  std::copy(items.begin(), items.end(), out->items);
  out->size = items.size;
  out->typed = typed;
  in.work.charge(items.size / 8);
  return Value::of(out);
}

Value pair(Interpreter& in, const Value& first, const Value& second, bool typed) {
  const Value both[] = {first, second};
  return list_of(in, {both, 2}, Sequence::Flavor::tuple, typed);
}

}  // namespace vigil::text::jinja
