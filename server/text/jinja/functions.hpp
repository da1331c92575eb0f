// The names of what templates can call: filters, tests, methods and global functions, and how their arguments reach them.
// Not here: what they do (filters_*.cpp, tests.cpp, methods_*.cpp, globals.cpp).
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>

#include "server/text/jinja/value.hpp"

namespace vigil::text::jinja {

class Interpreter;

struct Named {
  const String* name;
  Value value;
};

// Values given to a call, and the one place that checks them against names and numbers.
class Arguments {
 public:
  Arguments(std::string_view function, const Value* positional, size_t count, const Named* named, size_t named_count)
      : function_(function), positional_(positional), count_(count), named_(named), named_count_(named_count) {}

  // Names in the order of their positions; `required` of them must be there. Others fail. `open`: any further positional ones may come.
  void expect(std::initializer_list<std::string_view> names, size_t required = 0, bool open = false) const;
  // The argument at a position or of a name; null when it was not given.
  const Value* find(size_t position, std::string_view name) const;
  size_t count() const { return count_; }
  size_t named_count() const { return named_count_; }
  const Value& at(size_t position) const { return positional_[position]; }
  const Named& named(size_t i) const { return named_[i]; }
  std::string_view function() const { return function_; }
  // The same without the first `n` positional ones.
  Arguments behind(size_t n) const { return {function_, positional_ + n, count_ - n, named_, named_count_}; }
  Arguments as(std::string_view function) const { return {function, positional_, count_, named_, named_count_}; }

  bool truth_or(size_t position, std::string_view name, bool otherwise) const;
  int64_t integer_or(size_t position, std::string_view name, int64_t otherwise) const;  // fails for other kinds
  // Null when absent or none; fails for other kinds.
  const String* string_or_null(size_t position, std::string_view name) const;

 private:
  std::string_view function_;
  const Value* positional_;
  size_t count_;
  const Named* named_;
  size_t named_count_;
};

using Filter = Value (*)(Interpreter&, const Value& input, const Arguments&);
using Test = bool (*)(Interpreter&, const Value& input, const Arguments&);
using Method = Value (*)(Interpreter&, const Value& self, const Arguments&);
using Global = Value (*)(Interpreter&, const Arguments&);

template <typename Function>
struct Entry {
  std::string_view name;
  Function function;
};

// -1 when there is none of this name.
int filter_number(std::string_view name);
int test_number(std::string_view name);
int global_number(std::string_view name);
int method_number(std::string_view name);  // of any type
const Entry<Filter>& filter_at(int number);
const Entry<Test>& test_at(int number);
const Entry<Global>& global_at(int number);
std::string_view method_name(int number);
// Null when values of this type have no such method.
Method method_of(const Value& self, int number);

}  // namespace vigil::text::jinja
