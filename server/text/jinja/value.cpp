// See value.hpp.
#include "server/text/jinja/value.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "server/text/jinja/failure.hpp"
#include "server/text/jinja/limits.hpp"

namespace vigil::text::jinja {

namespace {

constexpr size_t few_members = 8;
constexpr size_t max_probes = 2048;  // in a row: keys chosen to meet in one place

size_t hash_of(Work& work, const Value& key) {
  switch (key.type) {
    case Type::string:
      work.charge(key.string->size / 64);
      return hash_text(key.string->view());
    case Type::boolean:
    case Type::integer:
    case Type::real: return std::hash<double>{}(key.number());
    case Type::none: return 1;
    case Type::sequence:
      if (key.sequence->flavor == Sequence::Flavor::tuple) {
        work.charge(key.sequence->size);
        size_t out = key.sequence->size;
        for (size_t i = 0; i < key.sequence->size; ++i) {
          if (key.sequence->items[i].is(Type::sequence)) fail("tuples of tuples cannot be keys here");
          out = out * 1000003 + hash_of(work, key.sequence->items[i]);
        }
        return out;
      }
      break;
    case Type::dict: break;
    default: return static_cast<size_t>(key.type);
  }
  fail("unhashable type: '" + type_name(key) + "'");
}

Dict::Entry* find_entry(Work& work, const Dict& dict, const Value& key, size_t hash) {
  if (!dict.table) {
    for (size_t i = 0; i < dict.size; ++i) {
      if (dict.entries[i].hash == hash && equal(work, dict.entries[i].key, key)) return &dict.entries[i];
    }
    return nullptr;
  }
  size_t probes = 0;
  for (size_t at = hash & (dict.table_size - 1);; at = (at + 1) & (dict.table_size - 1)) {
    if (dict.table[at] == 0) return nullptr;
    Dict::Entry& entry = dict.entries[dict.table[at] - 1];
    if (entry.hash == hash && equal(work, entry.key, key)) return &entry;
    if (++probes % 16 == 0) work.charge(1);
  }
}

void enter(Dict& dict, size_t number) {
  size_t at = dict.entries[number].hash & (dict.table_size - 1), probes = 0;
  while (dict.table[at] != 0) {
    at = (at + 1) & (dict.table_size - 1);
    if (++probes > max_probes) fail("too many keys of a dict fall together");
  }
  dict.table[at] = static_cast<uint32_t>(number + 1);
}

void make_table(Heap& heap, Dict& dict) {
  size_t size = 32;
  while (size < dict.capacity * 2) size *= 2;
  if (size != dict.table_size) dict.table = heap.array<uint32_t>(size);
  dict.table_size = size;
  std::memset(dict.table, 0, size * sizeof(uint32_t));
  for (size_t i = 0; i < dict.size; ++i) enter(dict, i);
}

bool equal_sequences(Work& work, const Sequence& left, const Sequence& right, size_t depth) {
  using Flavor = Sequence::Flavor;
  if (&left == &right) return true;
  if (left.flavor == Flavor::generator || right.flavor == Flavor::generator) return false;
  if (left.size != right.size || (left.flavor == Flavor::tuple) != (right.flavor == Flavor::tuple)) return false;
  for (size_t i = 0; i < left.size; ++i) {
    if (!equal(work, left.items[i], right.items[i], depth + 1)) return false;
  }
  return true;
}

bool equal_dicts(Work& work, const Dict& left, const Dict& right, size_t depth) {
  if (&left == &right) return true;
  if (left.size != right.size) return false;
  for (size_t i = 0; i < left.size; ++i) {
    const Dict::Entry* other = find_entry(work, right, left.entries[i].key, left.entries[i].hash);
    if (!other || !equal(work, left.entries[i].value, other->value, depth + 1)) return false;
  }
  return true;
}

[[noreturn]] void too_deep() { fail("values lie inside each other more than " + std::to_string(max_value_depth) + " deep (max_value_depth)"); }

}  // namespace

Value* find(Work& work, const Dict& dict, const Value& key) {
  Dict::Entry* entry = find_entry(work, dict, key, hash_of(work, key));
  return entry ? &entry->value : nullptr;
}

size_t hash_text(std::string_view key) { return std::hash<std::string_view>{}(key); }

const Value* find(const Dict& dict, std::string_view key, size_t hash) {
  const auto matches = [&](const Dict::Entry& entry) { return entry.hash == hash && entry.key.is(Type::string) && entry.key.string->view() == key; };
  if (!dict.table) {
    for (size_t i = 0; i < dict.size; ++i) {
      if (matches(dict.entries[i])) return &dict.entries[i].value;
    }
    return nullptr;
  }
  for (size_t at = hash & (dict.table_size - 1); dict.table[at] != 0; at = (at + 1) & (dict.table_size - 1)) {
    if (matches(dict.entries[dict.table[at] - 1])) return &dict.entries[dict.table[at] - 1].value;
  }
  return nullptr;
}

void put(Work& work, Heap& heap, Dict& dict, const Value& key, const Value& value) {
  const size_t hash = hash_of(work, key);
  if (Dict::Entry* entry = find_entry(work, dict, key, hash)) {
    entry->value = value;
    return;
  }
  if (dict.size == dict.capacity) {
    const size_t capacity = std::max<size_t>(4, dict.capacity * 2);
    auto* entries = heap.array<Dict::Entry>(capacity);
    if (dict.size > 0) std::copy(dict.entries, dict.entries + dict.size, entries);
    if (dict.entries) heap.give_back(dict.entries, dict.capacity * sizeof(Dict::Entry));
    dict.entries = entries;
    dict.capacity = capacity;
    if (dict.table) make_table(heap, dict);
  }
  new (&dict.entries[dict.size++]) Dict::Entry{key, value, hash};
  if (dict.table) {
    enter(dict, dict.size - 1);
  } else if (dict.size > few_members) {
    make_table(heap, dict);
  }
}

bool remove(Work& work, Dict& dict, const Value& key) {
  Dict::Entry* entry = find_entry(work, dict, key, hash_of(work, key));
  if (!entry) return false;
  std::copy(entry + 1, dict.entries + dict.size, entry);
  --dict.size;
  if (dict.table) {
    std::memset(dict.table, 0, dict.table_size * sizeof(uint32_t));
    for (size_t i = 0; i < dict.size; ++i) enter(dict, i);
  }
  return true;
}

void append(Heap& heap, Sequence& sequence, const Value& value) {
  if (sequence.size == sequence.capacity) {
    const size_t capacity = std::max<size_t>(4, sequence.capacity * 2);
    Value* items = heap.array<Value>(capacity);
    if (sequence.size > 0) std::copy(sequence.items, sequence.items + sequence.size, items);
    // The old items stay: a loop may be walking over them.
    sequence.items = items;
    sequence.capacity = capacity;
  }
  sequence.items[sequence.size++] = value;
}

Sequence* new_sequence(Heap& heap, size_t capacity, Sequence::Flavor flavor) {
  Sequence* out = heap.make<Sequence>();
  out->flavor = flavor;
  out->items = capacity > 0 ? heap.array<Value>(capacity) : nullptr;
  out->capacity = capacity;
  return out;
}

std::string type_name(const Value& value) {
  switch (value.type) {
    case Type::undefined: return "Undefined";
    case Type::none: return "NoneType";
    case Type::boolean: return "bool";
    case Type::integer: return "int";
    case Type::real: return "float";
    case Type::string: return "str";
    case Type::sequence: {
      static constexpr const char* names[] = {"list", "tuple", "range", "dict_keys", "dict_values", "dict_items", "generator"};
      return names[static_cast<size_t>(value.sequence->flavor)];
    }
    case Type::dict: return "dict";
    case Type::space: return "Namespace";
    case Type::function: return "function";
    case Type::method: return "method";
    case Type::macro: return "Macro";
    case Type::loop: return "LoopContext";
    case Type::cycler: return "Cycler";
    case Type::joiner: return "Joiner";
  }
  return "?";
}

bool equal(Work& work, const Value& left, const Value& right, size_t depth) {
  if (depth > max_value_depth) too_deep();
  work.charge(1);
  if (left.is_number() && right.is_number()) {
    if (left.is_integral() && right.is_integral()) return left.integral() == right.integral();
    return left.number() == right.number();
  }
  if (left.type != right.type) return false;
  switch (left.type) {
    case Type::undefined:
    case Type::none: return true;
    case Type::string:
      if (left.string == right.string) return true;
      if (left.string->size != right.string->size) return false;
      work.charge(left.string->size / 64);
      return left.string->view() == right.string->view();
    case Type::sequence: return equal_sequences(work, *left.sequence, *right.sequence, depth);
    case Type::dict: return equal_dicts(work, *left.dict, *right.dict, depth);
    case Type::function: return left.function == right.function;
    default: return left.dict == right.dict;  // the same thing
  }
}

int compare(Work& work, const Value& left, const Value& right, size_t depth) {
  if (depth > max_value_depth) too_deep();
  work.charge(1);
  if (left.is_number() && right.is_number()) {
    if (left.is_integral() && right.is_integral()) return left.integral() < right.integral() ? -1 : left.integral() > right.integral() ? 1 : 0;
    const double a = left.number(), b = right.number();
    return a < b ? -1 : a > b ? 1 : a == b ? 0 : 2;  // 2: not a number is neither
  }
  if (left.is(Type::string) && right.is(Type::string)) {
    work.charge(std::min(left.string->size, right.string->size) / 64);
    const int order = left.string->view().compare(right.string->view());
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  if (left.is(Type::sequence) && right.is(Type::sequence) && left.sequence->flavor == right.sequence->flavor &&
      left.sequence->flavor <= Sequence::Flavor::tuple) {
    const Sequence &a = *left.sequence, &b = *right.sequence;
    for (size_t i = 0; i < a.size && i < b.size; ++i) {
      if (!equal(work, a.items[i], b.items[i], depth + 1)) return compare(work, a.items[i], b.items[i], depth + 1);
    }
    return a.size < b.size ? -1 : a.size > b.size ? 1 : 0;
  }
  if (left.is(Type::undefined) || right.is(Type::undefined)) fail("an undefined value has no order");
  fail("'<' not supported between instances of '" + type_name(left) + "' and '" + type_name(right) + "'");
}

bool truth(const Value& value) {
  switch (value.type) {
    case Type::undefined:
    case Type::none: return false;
    case Type::boolean: return value.boolean;
    case Type::integer: return value.integer != 0;
    case Type::real: return value.real != 0;
    case Type::string: return value.string->size > 0;
    case Type::sequence: return value.sequence->flavor == Sequence::Flavor::generator || value.sequence->size > 0;
    case Type::dict: return value.dict->size > 0;
    default: return true;
  }
}

}  // namespace vigil::text::jinja
