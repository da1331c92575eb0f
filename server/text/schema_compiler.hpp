// JSON Schema to GBNF: one rule for each set of subschemas that some value must satisfy together, made from a list of work, so that recursive
// schemas end and deep ones need no stack. Not here: digits (schema_numbers), characters (string_automaton), references (schema_set).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/text/regex.hpp"
#include "server/text/schema_grammar.hpp"
#include "server/text/schema_numbers.hpp"
#include "server/text/schema_set.hpp"
#include "server/text/string_automaton.hpp"

namespace vigil::text {

class SchemaCompiler {
 public:
  // Names of rules begin with `prefix`, so that several schemas can share a grammar.
  SchemaCompiler(const Json& schema, Unenforceable unenforceable, std::string prefix = "r")
      : root_(schema), unenforceable_(unenforceable), prefix_(std::move(prefix)), reader_(schema) {}
  // Rules; the value's own is named prefix and 0.
  Result<std::string> run() { return run(root_); }
  // The same for one subschema of the schema, a child of its `properties`.
  Result<std::string> run_property(const std::string& name) { return run(reader_.child(root_, "properties", name)); }

 private:
  using Types = unsigned;
  enum Type : unsigned { null = 1, boolean = 2, object = 4, array = 8, string = 16, integer = 32, number = 64 };  // number: integers as well
  static constexpr Types all_types = 127;

  Result<std::string> run(const Json& start);
  // The name of the rule for a set; its rule is written later. Sets with the same items share one.
  std::string rule_of(SchemaSet set);
  void compile(const std::string& name, const SchemaSet& set);
  bool choose(const std::string& name, const SchemaSet& set);  // anyOf, oneOf: whether there was one

  Types types_of(const SchemaSet& set);
  Types types_named(const SchemaItem& item);
  void check_keywords(const SchemaItem& item);

  void compile_enum(const std::string& name, const SchemaSet& set, const std::vector<const Json*>& values);
  bool admits(const SchemaSet& set, Types types, const Json& value, StringCheck* texts);
  std::optional<std::vector<const Json*>> enum_values(const SchemaSet& set);

  std::string number_way(const std::string& name, const SchemaSet& set, bool whole);
  struct Bounds {
    std::optional<Bound> low, high;
    std::vector<const Json*> multiples;
  };
  Bounds bounds_of(const SchemaSet& set);
  std::string string_way(const std::string& name, const SchemaSet& set);
  struct Texts {  // what is asked of a string, with the patterns' trees
    StringLimits limits;
    std::vector<std::shared_ptr<const Regex>> kept;
  };
  Texts texts_of(const SchemaSet& set);
  const Regex* pattern_of(const Json* schema, const std::string& pattern, std::vector<std::shared_ptr<const Regex>>& kept);

  std::string array_way(const std::string& name, const SchemaSet& set);
  struct Lengths {
    size_t min = 0;
    std::optional<size_t> max;
  };
  Lengths lengths_of(const SchemaSet& set, const char* min, const char* max);
  void element(const SchemaSet& set, size_t index, SchemaSet& out, bool& stated);

  std::string object_way(const std::string& name, const SchemaSet& set);
  struct Property {
    std::string name;
    bool required = false;
    SchemaSet value;
  };
  std::vector<Property> properties_of(const SchemaSet& set);
  void too_many_patterns(const Json* schema);
  bool fits_pattern(const Json* schema, const std::string& pattern, const std::string& key);
  void value_for(const SchemaSet& set, const std::string& key, SchemaSet& out);
  std::vector<std::string> extra_members(const std::string& name, const SchemaSet& set, const std::vector<Property>& declared);
  bool extras_allowed(const SchemaSet& set, bool declares) const;
  void check_counts(const SchemaSet& set, const std::vector<Property>& declared, bool open, std::optional<size_t>& most, size_t& least);

  void write(const std::string& name, const std::string& body);
  void add(SchemaSet& set, const Json& schema);
  void look_at(size_t values) {  // counts what is done again for each combination
    looked_at_ += values;
    if (looked_at_ > max_schema_work) fail(&root_, "this schema's combinations take too much work (" + std::to_string(max_schema_work) + " steps); simplify it");
  }
  void fail(const Json* schema, const std::string& what) {
    if (!failure_) failure_ = reader_.wrong(schema, what);
  }
  // A keyword that no grammar can keep: refused or forgotten, as was asked.
  void unenforceable(const SchemaItem& item, const std::string& keyword, const std::string& why);

  const Json& root_;
  const Unenforceable unenforceable_;
  const std::string prefix_;
  SchemaReader reader_;
  std::string out_;
  std::optional<Error> failure_;
  using Key = std::vector<std::pair<const Json*, int>>;
  std::map<Key, std::string> names_;
  std::deque<std::pair<std::string, SchemaSet>> work_;
  size_t alternatives_ = 0, looked_at_ = 0;
  struct KeyPattern {  // of patternProperties
    std::vector<std::shared_ptr<const Regex>> kept;
    StringLimits limits;
    std::unique_ptr<StringCheck> check;
  };
  std::map<std::string, KeyPattern> key_patterns_;
};

// A JSON value as GBNF: its text, with blank space where JSON allows it and the grammar does.
std::string value_expression(const Json& value);

}  // namespace vigil::text
