// Methods of lists, tuples, dicts and numbers. Elements are never overwritten where they lie, since slices and loops may look at them.
#include <algorithm>
#include <cmath>

#include "server/text/jinja/function_tables.hpp"
#include "server/text/jinja/operations.hpp"
#include "server/text/jinja/print.hpp"

namespace vigil::text::jinja {

namespace {

void need_mutable(Interpreter& in, const Arguments& given, const Value& self) {
  if (!in.options.mutable_values) fail("access to attribute '" + std::string(given.function()) + "' of '" + type_name(self) + "' is unsafe");
}

// A copy of the elements that the list alone looks at.
void own_items(Interpreter& in, Sequence& list, size_t room) {
  in.work.charge(list.size / 8 + 1);
  Value* items = in.heap.array<Value>(list.size + room);
  std::copy(list.items, list.items + list.size, items);
  list.items = items;
  list.capacity = list.size + room;
}

size_t insert_place(int64_t at, size_t size) {
  if (at < 0) at += static_cast<int64_t>(size);
  return static_cast<size_t>(std::clamp<int64_t>(at, 0, static_cast<int64_t>(size)));
}

Value list_append(Interpreter& in, const Value& self, const Arguments& given) {
  need_mutable(in, given, self);
  given.expect({"object"}, 1);
  append(in.heap, *self.sequence, *given.find(0, "object"));
  return Value::none();
}

Value list_extend(Interpreter& in, const Value& self, const Arguments& given) {
  need_mutable(in, given, self);
  given.expect({"iterable"}, 1);
  const Items items = iterate(in, *given.find(0, "iterable"));
  in.work.charge(items.size / 8);
  for (size_t i = 0; i < items.size; ++i) append(in.heap, *self.sequence, items.data[i]);
  return Value::none();
}

Value list_insert(Interpreter& in, const Value& self, const Arguments& given) {
  need_mutable(in, given, self);
  given.expect({"index", "object"}, 2);
  Sequence& list = *self.sequence;
  const size_t place = insert_place(given.integer_or(0, "index", 0), list.size);
  own_items(in, list, 1);
  std::copy_backward(list.items + place, list.items + list.size, list.items + list.size + 1);
  list.items[place] = *given.find(1, "object");
  ++list.size;
  return Value::none();
}

Value list_pop(Interpreter& in, const Value& self, const Arguments& given) {
  need_mutable(in, given, self);
  given.expect({"index"});
  Sequence& list = *self.sequence;
  int64_t at = given.integer_or(0, "index", -1);
  if (at < 0) at += static_cast<int64_t>(list.size);
  if (at < 0 || at >= static_cast<int64_t>(list.size)) fail(list.size == 0 ? "pop from empty list" : "pop index out of range");
  const Value out = list.items[at];
  if (static_cast<size_t>(at) + 1 < list.size) {
    own_items(in, list, 0);
    std::copy(list.items + at + 1, list.items + list.size, list.items + at);
  }
  list.capacity = --list.size;
  return out;
}

Value list_remove(Interpreter& in, const Value& self, const Arguments& given) {
  need_mutable(in, given, self);
  given.expect({"value"}, 1);
  Sequence& list = *self.sequence;
  for (size_t i = 0; i < list.size; ++i) {
    if (!equal(in, list.items[i], *given.find(0, "value"))) continue;
    own_items(in, list, 0);
    std::copy(list.items + i + 1, list.items + list.size, list.items + i);
    list.capacity = --list.size;
    return Value::none();
  }
  fail("list.remove(x): x not in list");
}

Value list_clear(Interpreter& in, const Value& self, const Arguments& given) {
  need_mutable(in, given, self);
  given.expect({});
  self.sequence->size = self.sequence->capacity = 0;
  return Value::none();
}

Value list_reverse(Interpreter& in, const Value& self, const Arguments& given) {
  need_mutable(in, given, self);
  given.expect({});
  own_items(in, *self.sequence, 0);
  std::reverse(self.sequence->items, self.sequence->items + self.sequence->size);
  return Value::none();
}

Value list_sort(Interpreter& in, const Value& self, const Arguments& given) {
  need_mutable(in, given, self);
  given.expect({});
  own_items(in, *self.sequence, 0);
  std::stable_sort(self.sequence->items, self.sequence->items + self.sequence->size,
                   [&in](const Value& a, const Value& b) { return compare(in.work, a, b) == -1; });
  return Value::none();
}

Value sequence_copy(Interpreter& in, const Value& self, const Arguments& given) {
  given.expect({});
  return list_of(in, {self.sequence->items, self.sequence->size}, self.sequence->flavor, self.sequence->typed);
}

Value sequence_count(Interpreter& in, const Value& self, const Arguments& given) {
  given.expect({"value"}, 1);
  int64_t count = 0;
  for (size_t i = 0; i < self.sequence->size; ++i) count += equal(in, self.sequence->items[i], *given.find(0, "value"));
  return Value::of(count);
}

Value sequence_index(Interpreter& in, const Value& self, const Arguments& given) {
  given.expect({"value"}, 1);
  for (size_t i = 0; i < self.sequence->size; ++i) {
    if (equal(in, self.sequence->items[i], *given.find(0, "value"))) return Value::of(static_cast<int64_t>(i));
  }
  fail("the value is not in the list");
}

template <Sequence::Flavor flavor>
Value dict_view(Interpreter& in, const Value& self, const Arguments& given) {
  given.expect({});
  const Dict& dict = *self.dict;
  in.work.charge(dict.size / 4);
  Sequence* out = new_sequence(in.heap, dict.size, flavor);
  for (size_t i = 0; i < dict.size; ++i) {
    const Dict::Entry& entry = dict.entries[i];
    append(in.heap, *out, flavor == Sequence::Flavor::keys ? entry.key : flavor == Sequence::Flavor::values ? entry.value : pair(in, entry.key, entry.value, dict.typed));
  }
  out->typed = dict.typed;
  return Value::of(out);
}

Value dict_get(Interpreter& in, const Value& self, const Arguments& given) {
  given.expect({"key", "default"}, 1);
  if (const Value* found = find(in.work, *self.dict, *given.find(0, "key"))) return *found;
  const Value* otherwise = given.find(1, "default");
  return otherwise ? *otherwise : Value::none();
}

Value dict_pop(Interpreter& in, const Value& self, const Arguments& given) {
  need_mutable(in, given, self);
  given.expect({"key", "default"}, 1);
  const Value& key = *given.find(0, "key");
  in.work.charge(self.dict->size / 4 + 1);
  if (const Value* found = find(in.work, *self.dict, key)) {
    const Value out = *found;
    remove(in.work, *self.dict, key);
    return out;
  }
  const Value* otherwise = given.find(1, "default");
  if (!otherwise) fail("pop(): the dict has no such key");
  return *otherwise;
}

Value dict_update(Interpreter& in, const Value& self, const Arguments& given) {
  need_mutable(in, given, self);
  if (given.count() > 1) fail("update() takes at most one positional argument");
  if (given.count() == 1) {
    const Value& more = given.at(0);
    if (!more.is(Type::dict)) fail("update() takes a mapping here, not " + type_name(more));
    in.work.charge(more.dict->size);
    for (size_t i = 0, size = more.dict->size; i < size; ++i) put(in.work, in.heap, *self.dict, more.dict->entries[i].key, more.dict->entries[i].value);
  }
  for (size_t i = 0; i < given.named_count(); ++i) put(in.work, in.heap, *self.dict, Value::of(given.named(i).name), given.named(i).value);
  return Value::none();
}

Value dict_setdefault(Interpreter& in, const Value& self, const Arguments& given) {
  need_mutable(in, given, self);
  given.expect({"key", "default"}, 1);
  const Value& key = *given.find(0, "key");
  if (const Value* found = find(in.work, *self.dict, key)) return *found;
  const Value* otherwise = given.find(1, "default");
  const Value value = otherwise ? *otherwise : Value::none();
  put(in.work, in.heap, *self.dict, key, value);
  return value;
}

Value dict_copy(Interpreter& in, const Value& self, const Arguments& given) {
  given.expect({});
  in.work.charge(self.dict->size);
  Dict* out = in.heap.make<Dict>();
  for (size_t i = 0; i < self.dict->size; ++i) put(in.work, in.heap, *out, self.dict->entries[i].key, self.dict->entries[i].value);
  out->typed = self.dict->typed;
  return Value::of(out);
}

Value dict_clear(Interpreter& in, const Value& self, const Arguments& given) {
  need_mutable(in, given, self);
  given.expect({});
  const bool typed = self.dict->typed;
  *self.dict = {};
  self.dict->typed = typed;
  return Value::none();
}

Value is_whole(Interpreter&, const Value& self, const Arguments& given) {
  given.expect({});
  return Value::of(!self.is(Type::real) || self.real == std::floor(self.real));
}

}  // namespace

Table<Method> list_methods() {
  return {{"append", list_append}, {"extend", list_extend}, {"insert", list_insert}, {"pop", list_pop}, {"remove", list_remove}, {"clear", list_clear},
          {"reverse", list_reverse}, {"sort", list_sort}, {"copy", sequence_copy}, {"count", sequence_count}, {"index", sequence_index}};
}

Table<Method> tuple_methods() { return {{"count", sequence_count}, {"index", sequence_index}}; }

Table<Method> dict_methods() {
  return {{"keys", dict_view<Sequence::Flavor::keys>}, {"values", dict_view<Sequence::Flavor::values>}, {"items", dict_view<Sequence::Flavor::items>},
          {"get", dict_get}, {"pop", dict_pop}, {"update", dict_update}, {"setdefault", dict_setdefault}, {"copy", dict_copy}, {"clear", dict_clear}};
}

Table<Method> number_methods() { return {{"is_integer", is_whole}}; }

}  // namespace vigil::text::jinja
