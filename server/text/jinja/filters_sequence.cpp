// Filters over elements: choosing, mapping, joining.
#include <algorithm>

#include "server/text/jinja/function_tables.hpp"
#include "server/text/jinja/operations.hpp"
#include "server/text/jinja/print.hpp"
#include "server/text/jinja/text_tools.hpp"

namespace vigil::text::jinja {

namespace {

Value length_of(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({});
  if (input.is(Type::string)) in.work.charge_bytes(input.string->size);
  return Value::of(length(input));
}

Value first(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({});
  const Items items = iterate(in, input);
  return items.size > 0 ? items.data[0] : Value::undefined();
}

Value last(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({});
  const Items items = iterate(in, input);
  return items.size > 0 ? items.data[items.size - 1] : Value::undefined();
}

Value listed(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({});
  const bool typed = source_of(input) == Source::typed;
  return list_of(in, iterate(in, input), Sequence::Flavor::list, typed);
}

Value item_pairs(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({});
  Sequence* out = new_sequence(in.heap, 0, Sequence::Flavor::generator);
  if (input.is(Type::undefined)) return Value::of(out);
  if (!input.is(Type::dict)) fail("Can only get item pairs from a mapping.");
  in.work.charge(input.dict->size / 4);
  for (size_t i = 0; i < input.dict->size; ++i) append(in.heap, *out, pair(in, input.dict->entries[i].key, input.dict->entries[i].value, input.dict->typed));
  return Value::of(out);
}

Value reversed(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({});
  if (input.is(Type::string)) {
    const Value minus = Value::of(int64_t{-1});
    return slice_value(in, input, Value::none(), Value::none(), minus);
  }
  const Items items = iterate(in, input);
  const Value out = list_of(in, items, Sequence::Flavor::generator);
  std::reverse(out.sequence->items, out.sequence->items + out.sequence->size);
  return out;
}

Value joined(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({"d", "attribute"});
  const Value* separator = given.find(0, "d");
  const Value* path = given.find(1, "attribute");
  Items items = iterate(in, input);
  if (path && !path->is(Type::none)) {
    Sequence* parts = new_sequence(in.heap, items.size);
    for (const Value& one : items) append(in.heap, *parts, attribute_path(in, one, *path));
    items = {parts->items, parts->size};
  }
  const String* between = separator ? to_text(in, *separator) : view_string(in.heap, "", Source::fixed);
  return Value::of(join(in, *between, items.data, items.size));
}

Value attribute_of(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({"name"}, 1);
  const String* name = to_text(in, *given.find(0, "name"));
  if (input.is(Type::dict)) {  // attributes only: of a dict, its methods
    const int method = method_number(name->view());
    if (method < 0 || !method_of(input, method)) return Value::undefined(name);
  }
  return attribute(in, input, *name);
}

// map(attribute=…, default=…) or map('filter', …)
Value mapped(Interpreter& in, const Value& input, const Arguments& given) {
  const Items items = truth(input) ? iterate(in, input) : Items{};  // as in Jinja2 anything false has no elements here
  Sequence* out = new_sequence(in.heap, items.size, Sequence::Flavor::generator);
  if (given.count() == 0) {
    given.expect({"attribute", "default"}, 1);
    const Value& path = *given.find(0, "attribute");
    const Value* otherwise = given.find(1, "default");
    for (const Value& one : items) {
      const Value value = attribute_path(in, one, path);
      append(in.heap, *out, value.is(Type::undefined) && otherwise ? *otherwise : value);
    }
    return Value::of(out);
  }
  if (!given.at(0).is(Type::string)) fail("map() takes the name of a filter");
  const std::string_view name = given.at(0).string->view();
  const int number = filter_number(name);
  const Arguments rest = given.behind(1).as(name);
  for (const Value& one : items) append(in.heap, *out, in.filter(number, name, one, rest));
  return Value::of(out);
}

// select, reject: by a test of the element; selectattr, rejectattr: of one of its attributes.
template <bool wanted, bool by_attribute>
Value chosen(Interpreter& in, const Value& input, const Arguments& given) {
  const size_t names = by_attribute ? 1 : 0;
  if (by_attribute && given.count() == 0) fail("selectattr() needs the name of an attribute");
  std::string_view name;
  int number = -1;
  if (given.count() > names) {
    if (!given.at(names).is(Type::string)) fail("the name of a test must be a string");
    name = given.at(names).string->view();
    number = test_number(name);
  }
  const Arguments rest = given.behind(std::min(given.count(), names + 1)).as(name);
  const Items items = truth(input) ? iterate(in, input) : Items{};
  Sequence* out = new_sequence(in.heap, 0, Sequence::Flavor::generator);
  for (const Value& one : items) {
    in.work.charge(1);
    const Value value = by_attribute ? attribute_path(in, one, given.at(0)) : one;
    const bool passes = name.data() ? in.test(number, name, value, rest) : truth(value);
    if (passes == wanted) append(in.heap, *out, one);
  }
  return Value::of(out);
}

Value batched(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({"linecount", "fill_with"}, 1);
  const int64_t size = given.integer_or(0, "linecount", 1);
  if (size < 1) fail("batch: the count must be positive");
  const Value* fill = given.find(1, "fill_with");
  const Items items = iterate(in, input);
  Sequence* out = new_sequence(in.heap, 0, Sequence::Flavor::generator);
  for (size_t at = 0; at < items.size; at += std::min(items.size - at, static_cast<size_t>(size))) {
    const Value part = list_of(in, {items.data + at, std::min(items.size - at, static_cast<size_t>(size))});
    if (fill && !fill->is(Type::none)) {
      for (in.work.charge(static_cast<uint64_t>(size)); part.sequence->size < static_cast<size_t>(size);) append(in.heap, *part.sequence, *fill);
    }
    append(in.heap, *out, part);
  }
  return Value::of(out);
}

Value sliced(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({"slices", "fill_with"}, 1);
  const int64_t slices = given.integer_or(0, "slices", 1);
  if (slices < 1 || slices > max_range) fail("slice: the number of slices must be 1 to " + std::to_string(max_range));
  const Value* fill = given.find(1, "fill_with");
  const Items items = iterate(in, input);
  const size_t count = static_cast<size_t>(slices), each = items.size / count, more = items.size % count;
  Sequence* out = new_sequence(in.heap, count, Sequence::Flavor::generator);
  in.work.charge(count);
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t size = each + (i < more ? 1 : 0);
    const Value part = list_of(in, {items.data + at, size});
    at += size;
    if (fill && !fill->is(Type::none) && i >= more && more > 0) append(in.heap, *part.sequence, *fill);
    append(in.heap, *out, part);
  }
  return Value::of(out);
}

Value summed(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({"attribute", "start"});
  const Value* path = given.find(0, "attribute");
  const Value* start = given.find(1, "start");
  Value out = start ? *start : Value::of(int64_t{0});
  for (const Value& one : iterate(in, input)) {
    in.work.charge(1);
    out = operate(in, Operator::add, out, path && !path->is(Type::none) ? attribute_path(in, one, *path) : one);
  }
  return out;
}

}  // namespace

Table<Filter> sequence_filters() {
  return {{"length", length_of}, {"count", length_of}, {"first", first}, {"last", last}, {"list", listed}, {"items", item_pairs}, {"reverse", reversed},
          {"join", joined}, {"attr", attribute_of}, {"map", mapped}, {"select", chosen<true, false>}, {"reject", chosen<false, false>},
          {"selectattr", chosen<true, true>}, {"rejectattr", chosen<false, true>}, {"batch", batched}, {"slice", sliced}, {"sum", summed}};
}

}  // namespace vigil::text::jinja
