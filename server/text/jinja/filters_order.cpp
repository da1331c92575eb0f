// Filters that order and group elements.
#include <algorithm>
#include <vector>

#include "server/text/jinja/function_tables.hpp"
#include "server/text/jinja/operations.hpp"
#include "server/text/jinja/print.hpp"
#include "server/text/jinja/text_tools.hpp"

namespace vigil::text::jinja {

namespace {

struct Keyed {
  Value key, value;
};

// What an element is ordered by: itself or its attributes, capitals aside unless they count.
Value key_of(Interpreter& in, const Value& value, const Value* path, bool exact) {
  const auto folded = [&](const Value& key) { return !exact && key.is(Type::string) ? Value::of(change_case(in, *key.string, Case::lower)) : key; };
  if (!path || path->is(Type::none)) return folded(value);
  if (path->is(Type::string)) in.work.charge(path->string->size / 64);
  if (!path->is(Type::string) || path->string->view().find(',') == std::string_view::npos) return folded(attribute_path(in, value, *path));
  const String* comma = view_string(in.heap, ",", Source::fixed);
  const Value parts = split(in, *path->string, comma, -1, Side::left);
  Sequence* keys = new_sequence(in.heap, parts.sequence->size);
  for (size_t i = 0; i < parts.sequence->size; ++i) append(in.heap, *keys, folded(attribute_path(in, value, parts.sequence->items[i])));
  return Value::of(keys);
}

std::vector<Keyed> keyed(Interpreter& in, const Items& items, const Value* path, bool exact) {
  std::vector<Keyed> out;
  out.reserve(items.size);
  in.work.charge(items.size);
  for (const Value& one : items) out.push_back({key_of(in, one, path, exact), one});
  return out;
}

void order(Interpreter& in, std::vector<Keyed>& all, bool reverse) {
  std::stable_sort(all.begin(), all.end(), [&](const Keyed& a, const Keyed& b) {
    return compare(in.work, reverse ? b.key : a.key, reverse ? a.key : b.key) == -1;
  });
}

Value list_from(Interpreter& in, const std::vector<Keyed>& all, Sequence::Flavor flavor = Sequence::Flavor::list) {
  Sequence* out = new_sequence(in.heap, all.size(), flavor);
  for (const Keyed& one : all) append(in.heap, *out, one.value);
  return Value::of(out);
}

Value sorted(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({"reverse", "case_sensitive", "attribute"});
  std::vector<Keyed> all = keyed(in, iterate(in, input), given.find(2, "attribute"), given.truth_or(1, "case_sensitive", false));
  order(in, all, given.truth_or(0, "reverse", false));
  return list_from(in, all);
}

Value dict_sorted(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({"case_sensitive", "by", "reverse"});
  if (input.is(Type::undefined)) fail_undefined(input);
  if (!input.is(Type::dict)) fail("'" + type_name(input) + "' has no items to sort");
  const String* by = given.string_or_null(1, "by");
  const bool value = by && by->view() == "value";
  if (by && !value && by->view() != "key") fail("You can only sort by either \"key\" or \"value\"");
  const bool exact = given.truth_or(0, "case_sensitive", false);
  std::vector<Keyed> all;
  for (size_t i = 0; i < input.dict->size; ++i) {
    const Dict::Entry& entry = input.dict->entries[i];
    all.push_back({key_of(in, value ? entry.value : entry.key, nullptr, exact), pair(in, entry.key, entry.value, input.dict->typed)});
  }
  order(in, all, given.truth_or(2, "reverse", false));
  return list_from(in, all);
}

template <bool least>
Value extreme(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({"case_sensitive", "attribute"});
  const std::vector<Keyed> all = keyed(in, iterate(in, input), given.find(1, "attribute"), given.truth_or(0, "case_sensitive", false));
  if (all.empty()) return Value::undefined(view_string(in.heap, "No aggregated item, sequence was empty.", Source::fixed));
  const Keyed* best = &all[0];
  for (const Keyed& one : all) {
    if (compare(in.work, one.key, best->key) == (least ? -1 : 1)) best = &one;
  }
  return best->value;
}

Value unique(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({"case_sensitive", "attribute"});
  const std::vector<Keyed> all = keyed(in, iterate(in, input), given.find(1, "attribute"), given.truth_or(0, "case_sensitive", false));
  Dict* seen = in.heap.make<Dict>();
  Sequence* out = new_sequence(in.heap, 0, Sequence::Flavor::generator);
  for (const Keyed& one : all) {
    if (find(in.work, *seen, one.key)) continue;
    put(in.work, in.heap, *seen, one.key, Value::none());
    append(in.heap, *out, one.value);
  }
  return Value::of(out);
}

// Pairs of a key and the elements that have it, by the order of the keys.
Value grouped(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({"attribute", "default", "case_sensitive"}, 1);
  const Value* path = given.find(0, "attribute");
  const Value* otherwise = given.find(1, "default");
  const bool exact = given.truth_or(2, "case_sensitive", false);
  std::vector<Keyed> all = keyed(in, iterate(in, input), path, exact);
  for (Keyed& one : all) {
    if (one.key.is(Type::undefined) && otherwise) one.key = *otherwise;
  }
  order(in, all, false);
  Sequence* out = new_sequence(in.heap, 0);
  for (size_t begin = 0; begin < all.size();) {
    size_t end = begin;
    Sequence* members = new_sequence(in.heap, 0);
    while (end < all.size() && equal(in, all[end].key, all[begin].key)) append(in.heap, *members, all[end++].value);
    Value shown = attribute_path(in, all[begin].value, *path);
    if (shown.is(Type::undefined) && otherwise) shown = *otherwise;
    append(in.heap, *out, pair(in, shown, Value::of(members), false));
    begin = end;
  }
  return Value::of(out);
}

}  // namespace

Table<Filter> order_filters() {
  return {{"sort", sorted}, {"dictsort", dict_sorted}, {"min", extreme<true>}, {"max", extreme<false>}, {"unique", unique}, {"groupby", grouped}};
}

}  // namespace vigil::text::jinja
