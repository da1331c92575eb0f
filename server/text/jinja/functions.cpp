// The tables of what templates can call, and arguments. See functions.hpp.
#include "server/text/jinja/functions.hpp"

#include <algorithm>
#include <vector>

#include "server/text/jinja/failure.hpp"
#include "server/text/jinja/function_tables.hpp"

namespace vigil::text::jinja {

namespace {

template <typename Function>
std::vector<Entry<Function>> sorted(std::initializer_list<Table<Function>> tables) {
  std::vector<Entry<Function>> out;
  for (const Table<Function>& table : tables) out.insert(out.end(), table.begin(), table.end());
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return out;
}

const std::vector<Entry<Filter>>& filters() {
  static const auto all = sorted<Filter>({text_filters(), value_filters(), sequence_filters(), order_filters()});
  return all;
}
const std::vector<Entry<Test>>& tests() {
  static const auto all = sorted<Test>({value_tests()});
  return all;
}
const std::vector<Entry<Global>>& globals() {
  static const auto all = sorted<Global>({global_functions()});
  return all;
}

// Methods by name; one name may belong to several types.
struct MethodRow {
  std::string_view name;
  Method string = nullptr, list = nullptr, tuple = nullptr, dict = nullptr, number = nullptr, loop = nullptr, cycler = nullptr;
};

std::vector<MethodRow> method_rows() {
  std::vector<MethodRow> out;
  const auto add = [&out](const Table<Method>& table, Method MethodRow::*type) {
    for (const Entry<Method>& entry : table) {
      auto row = std::find_if(out.begin(), out.end(), [&](const MethodRow& one) { return one.name == entry.name; });
      if (row == out.end()) row = out.insert(out.end(), MethodRow{entry.name});
      (*row).*type = entry.function;
    }
  };
  add(string_methods(), &MethodRow::string);
  add(string_look_methods(), &MethodRow::string);
  add(list_methods(), &MethodRow::list);
  add(tuple_methods(), &MethodRow::tuple);
  add(dict_methods(), &MethodRow::dict);
  add(number_methods(), &MethodRow::number);
  add(loop_methods(), &MethodRow::loop);
  add(cycler_methods(), &MethodRow::cycler);
  std::sort(out.begin(), out.end(), [](const MethodRow& a, const MethodRow& b) { return a.name < b.name; });
  return out;
}

const std::vector<MethodRow>& methods() {
  static const std::vector<MethodRow> all = method_rows();
  return all;
}

template <typename Rows>
int number_of(const Rows& rows, std::string_view name) {
  const auto found = std::lower_bound(rows.begin(), rows.end(), name, [](const auto& row, std::string_view wanted) { return row.name < wanted; });
  return found != rows.end() && found->name == name ? static_cast<int>(found - rows.begin()) : -1;
}

}  // namespace

int filter_number(std::string_view name) { return number_of(filters(), name); }
int test_number(std::string_view name) { return number_of(tests(), name); }
int global_number(std::string_view name) { return number_of(globals(), name); }
int method_number(std::string_view name) { return number_of(methods(), name); }
const Entry<Filter>& filter_at(int number) { return filters()[static_cast<size_t>(number)]; }
const Entry<Test>& test_at(int number) { return tests()[static_cast<size_t>(number)]; }
const Entry<Global>& global_at(int number) { return globals()[static_cast<size_t>(number)]; }
std::string_view method_name(int number) { return methods()[static_cast<size_t>(number)].name; }

Method method_of(const Value& self, int number) {
  const MethodRow& row = methods()[static_cast<size_t>(number)];
  switch (self.type) {
    case Type::string: return row.string;
    case Type::sequence:
      if (self.sequence->flavor == Sequence::Flavor::list) return row.list;
      return self.sequence->flavor == Sequence::Flavor::tuple ? row.tuple : nullptr;
    case Type::dict: return row.dict;
    case Type::integer:
    case Type::boolean:
    case Type::real: return row.number;
    case Type::loop: return row.loop;
    case Type::cycler: return row.cycler;
    default: return nullptr;
  }
}

void Arguments::expect(std::initializer_list<std::string_view> names, size_t required, bool open) const {
  const std::string who = std::string(function_) + "()";
  if (count_ > names.size() && !open) fail(who + " takes at most " + std::to_string(names.size()) + " arguments, got " + std::to_string(count_));
  for (size_t i = 0; i < named_count_; ++i) {
    const std::string_view name = named_[i].name->view();
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) fail(who + " has no argument '" + std::string(name) + "'");
    if (static_cast<size_t>(found - names.begin()) < count_) fail(who + " got '" + std::string(name) + "' twice");
  }
  for (size_t i = count_; i < required; ++i) {
    if (!find(i, names.begin()[i])) fail(who + " misses its argument '" + std::string(names.begin()[i]) + "'");
  }
}

const Value* Arguments::find(size_t position, std::string_view name) const {
  if (position < count_) return &positional_[position];
  for (size_t i = 0; i < named_count_; ++i) {
    if (named_[i].name->view() == name) return &named_[i].value;
  }
  return nullptr;
}

bool Arguments::truth_or(size_t position, std::string_view name, bool otherwise) const {
  const Value* found = find(position, name);
  return found ? truth(*found) : otherwise;
}

int64_t Arguments::integer_or(size_t position, std::string_view name, int64_t otherwise) const {
  const Value* found = find(position, name);
  if (!found) return otherwise;
  if (!found->is_integral()) fail(std::string(function_) + "(): '" + std::string(name) + "' must be an integer, not " + type_name(*found));
  return found->integral();
}

const String* Arguments::string_or_null(size_t position, std::string_view name) const {
  const Value* found = find(position, name);
  if (!found || found->is(Type::none)) return nullptr;
  if (!found->is(Type::string)) fail(std::string(function_) + "(): '" + std::string(name) + "' must be a string, not " + type_name(*found));
  return found->string;
}

}  // namespace vigil::text::jinja
