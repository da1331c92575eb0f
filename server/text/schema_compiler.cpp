// The work list, choices, types and enumerations. Strings and numbers: schema_scalars; arrays and objects: schema_structures.
#include "server/text/schema_compiler.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "server/text/json_rules.hpp"

namespace vigil::text {
namespace {

constexpr size_t max_value_depth = 64;

struct Family {
  unsigned types;
  std::vector<std::string_view> keywords;
};
// Which type a keyword speaks of; for schemas that do not say their type.
const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {4, {"properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties", "maxProperties", "unevaluatedProperties"}},
      {8, {"items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains", "unevaluatedItems"}},
      {16, {"pattern", "minLength", "maxLength", "format"}},
      {64, {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}},
  };
  return all;
}

size_t count_values(const Json& value, size_t most) {
  std::vector<const Json*> work = {&value};
  size_t count = 0;
  while (!work.empty() && count <= most) {
    const Json* one = work.back();
    work.pop_back();
    ++count;
    if (one->is_structured()) {
      for (const Json& inner : *one) work.push_back(&inner);
    }
  }
  return count;
}

void append_value(const Json& value, std::string& out, size_t depth) {
  const auto literal = [&](const std::string& text) { out += gbnf_literal(text) + " "; };
  if (!value.is_structured() || value.empty() || depth > max_value_depth) return literal(value.dump(-1, ' ', false, Json::error_handler_t::replace));
  literal(value.is_array() ? "[" : "{");
  bool first = true;
  for (auto it = value.begin(); it != value.end(); ++it) {
    if (!first) literal(",");
    out += "ws ";
    if (value.is_object()) {
      literal(Json(it.key()).dump(-1, ' ', false, Json::error_handler_t::replace) + ":");
      out += "ws ";
    }
    append_value(*it, out, depth + 1);
    first = false;
  }
  out += "ws ";
  literal(value.is_array() ? "]" : "}");
}

}  // namespace

std::string value_expression(const Json& value) {
  std::string out;
  append_value(value, out, 0);
  return out;
}

Result<std::string> SchemaCompiler::run(const Json& start) {
  if (count_values(root_, max_schema_values) > max_schema_values) return Error{": the schema has more than " + std::to_string(max_schema_values) + " values"};
  SchemaSet set;
  add(set, start);
  if (failure_) return std::move(*failure_);
  if (const std::string first = rule_of(std::move(set)); first != prefix_ + "0") write(prefix_ + "0", first);
  while (!work_.empty() && !failure_) {
    const auto [name, next] = std::move(work_.front());
    work_.pop_front();
    compile(name, next);
    if (names_.size() > max_schema_rules) return Error{": the schema leads to more than " + std::to_string(max_schema_rules) + " different combinations of subschemas"};
    if (out_.size() > max_grammar_bytes) return Error{": the schema's grammar would be larger than " + std::to_string(max_grammar_bytes) + " bytes; split or simplify the schema"};
  }
  if (failure_) return std::move(*failure_);
  return std::move(out_);
}

void SchemaCompiler::add(SchemaSet& set, const Json& schema) {
  if (failure_) return;
  if (Result<void> added = reader_.add(set, schema); !added) failure_ = Error{added.error()};
}

std::string SchemaCompiler::rule_of(SchemaSet set) {
  if (set.impossible) return "[]";
  if (std::all_of(set.items.begin(), set.items.end(), [](const SchemaItem& item) { return item.schema->empty(); })) return "value";
  Key key;
  for (const SchemaItem& item : set.items) key.emplace_back(item.schema, (item.any_chosen ? 1 : 0) + (item.one_chosen ? 2 : 0));
  std::sort(key.begin(), key.end());
  const auto [known, fresh] = names_.emplace(std::move(key), prefix_ + std::to_string(names_.size()));
  if (fresh) work_.emplace_back(known->second, std::move(set));
  return known->second;
}

void SchemaCompiler::write(const std::string& name, const std::string& body) { out_ += name + " ::= " + body + "\n"; }

void SchemaCompiler::unenforceable(const SchemaItem& item, const std::string& keyword, const std::string& why) {
  if (unenforceable_ == Unenforceable::refuse) fail(item.schema, keyword + " cannot be enforced" + why + "; leave it out, or ask for a schema that is not strict");
}

void SchemaCompiler::check_keywords(const SchemaItem& item) {
  static constexpr std::array<const char*, 12> beyond = {"not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies", "contains",
                                                         "minContains", "$dynamicRef", "$recursiveRef", "discriminatorMapping"};
  for (const char* keyword : beyond) {
    if (item.schema->contains(keyword)) unenforceable(item, keyword, "");
  }
}

bool SchemaCompiler::choose(const std::string& name, const SchemaSet& set) {
  for (size_t i = 0; i < set.items.size(); ++i) {
    for (const bool any : {true, false}) {
      const SchemaItem& item = set.items[i];
      const std::string keyword = any ? "anyOf" : "oneOf";
      if ((any ? item.any_chosen : item.one_chosen) || !item.schema->contains(keyword)) continue;
      const Json& options = item.schema->at(keyword);
      if (!options.is_array() || options.empty()) return fail(item.schema, keyword + " must be a list of at least one schema"), true;
      alternatives_ += options.size();
      if (alternatives_ > max_schema_alternatives) {
        return fail(item.schema, "more than " + std::to_string(max_schema_alternatives) + " ways through anyOf and oneOf together"), true;
      }
      std::string body;
      for (size_t option = 0; option < options.size(); ++option) {
        SchemaSet chosen = set;
        (any ? chosen.items[i].any_chosen : chosen.items[i].one_chosen) = true;
        const size_t before = chosen.items.size();
        const Json& schema = reader_.child(*item.schema, keyword, option);
        // An option that leads back here without anything in between adds no text of its own.
        if (&schema == item.schema) continue;
        add(chosen, schema);
        if (failure_) return true;
        if (chosen.items.size() == before && schema.is_object()) continue;
        const std::string rule = rule_of(std::move(chosen));
        if (rule != "[]") body += (body.empty() ? "" : " | ") + rule;
      }
      write(name, body.empty() ? "[]" : body);
      return true;
    }
  }
  return false;
}

SchemaCompiler::Types SchemaCompiler::types_named(const SchemaItem& item) {
  static const std::map<std::string, Types> names = {{"null", null}, {"boolean", boolean}, {"object", object}, {"array", array},
                                                     {"string", string}, {"integer", integer}, {"number", number | integer}};
  const auto type = item.schema->find("type");
  if (type == item.schema->end()) return all_types;
  Types out = 0;
  const auto take = [&](const Json& one) {
    const auto known = one.is_string() ? names.find(one.get<std::string>()) : names.end();
    if (known == names.end()) return fail(item.schema, "type must be null, boolean, object, array, string, number or integer, or a list of these");
    out |= known->second;
  };
  if (type->is_array()) {
    for (const Json& one : *type) take(one);
  } else {
    take(*type);
  }
  const auto nullable = item.schema->find("nullable");
  if (nullable != item.schema->end() && nullable->is_boolean() && nullable->get<bool>()) out |= null;
  return out;
}

SchemaCompiler::Types SchemaCompiler::types_of(const SchemaSet& set) {
  Types types = all_types, inferred = 0;
  bool named = false;
  for (const SchemaItem& item : set.items) {
    types &= types_named(item);
    named = named || item.schema->contains("type") || item.schema->contains("enum") || item.schema->contains("const");
    for (const Family& family : families()) {
      for (const std::string_view keyword : family.keywords) {
        if (item.schema->contains(std::string(keyword))) inferred |= family.types == number ? (number | integer) : family.types;
      }
    }
  }
  return named || inferred == 0 ? types : inferred;
}

void SchemaCompiler::compile(const std::string& name, const SchemaSet& set) {
  if (choose(name, set) || failure_) return;
  for (const SchemaItem& item : set.items) check_keywords(item);
  const Types types = types_of(set);
  const auto values = enum_values(set);
  if (failure_) return;
  if (values) return compile_enum(name, set, *values);
  std::vector<std::string> ways;
  if ((types & object) != 0) ways.push_back(object_way(name, set));
  if ((types & array) != 0) ways.push_back(array_way(name, set));
  if ((types & string) != 0) ways.push_back(string_way(name, set));
  if ((types & (number | integer)) != 0) ways.push_back(number_way(name, set, (types & number) == 0));
  if ((types & boolean) != 0) ways.emplace_back("boolean");
  if ((types & null) != 0) ways.emplace_back("\"null\"");
  std::string body;
  for (const std::string& way : ways) body += (body.empty() ? "" : " | ") + way;
  write(name, body.empty() ? "[]" : body);
}

// The values of enum and const that all items have; nothing when no item has either.
std::optional<std::vector<const Json*>> SchemaCompiler::enum_values(const SchemaSet& set) {
  std::optional<std::vector<const Json*>> found;
  for (const SchemaItem& item : set.items) {
    for (const char* keyword : {"enum", "const"}) {
      const auto at = item.schema->find(keyword);
      if (at == item.schema->end()) continue;
      const bool list = keyword[0] == 'e';
      if (list && !at->is_array()) return fail(item.schema, "enum must be a list"), found;
      std::vector<const Json*> values;
      look_at(at->size());
      if (failure_) return found;
      if (list) {
        for (const Json& value : *at) values.push_back(&value);
      } else {
        values.push_back(&*at);
      }
      if (!found) {
        found = std::move(values);
      } else {
        // By text, so that large lists meet in n log n.
        std::set<std::string> texts;
        for (const Json* value : values) texts.insert(value->dump(-1, ' ', false, Json::error_handler_t::replace));
        std::erase_if(*found, [&](const Json* value) { return texts.count(value->dump(-1, ' ', false, Json::error_handler_t::replace)) == 0; });
      }
    }
  }
  return found;
}

void SchemaCompiler::compile_enum(const std::string& name, const SchemaSet& set, const std::vector<const Json*>& values) {
  Types types = all_types;
  for (const SchemaItem& item : set.items) types &= types_named(item);
  const Texts texts = texts_of(set);
  StringCheck check(texts.limits);
  std::string body;
  for (const Json* value : values) {
    if (failure_) return;
    if (admits(set, types, *value, texts.limits.empty() ? nullptr : &check)) body += (body.empty() ? "" : " | ") + value_expression(*value);
    if (body.size() > max_grammar_bytes) break;  // run() says so
  }
  write(name, body.empty() ? "[]" : body);
}

// Whether the other keywords beside enum and const let the value pass.
bool SchemaCompiler::admits(const SchemaSet& set, Types types, const Json& value, StringCheck* texts) {
  if (value.is_structured()) {
    const bool is_object = value.is_object();
    for (const SchemaItem& item : set.items) {
      for (const std::string_view keyword : families()[is_object ? 0 : 1].keywords) {
        if (item.schema->contains(std::string(keyword))) unenforceable(item, std::string(keyword), " beside an enum or const of objects or lists");
      }
    }
    return (types & (is_object ? object : array)) != 0;
  }
  if (value.is_null()) return (types & null) != 0;
  if (value.is_boolean()) return (types & boolean) != 0;
  if (value.is_string()) {
    if ((types & string) == 0) return false;
    if (!texts) return true;
    const Result<bool> kept = texts->keeps(value.get<std::string>());
    if (!kept) fail(set.items.front().schema, kept.error());
    return kept && *kept;
  }
  const std::optional<Decimal> decimal = to_decimal(value.dump());
  if (!decimal) return (types & number) != 0;
  if ((types & (decimal->fraction.empty() ? number | integer : number)) == 0) return false;
  const Bounds bounds = bounds_of(set);
  const auto outside = [&](const std::optional<Bound>& bound, int sign) {
    if (!bound) return false;
    const int order = compare(*decimal, bound->value) * sign;
    return order < 0 || (order == 0 && bound->strict);
  };
  if (outside(bounds.low, 1) || outside(bounds.high, -1)) return false;
  for (const Json* factor : bounds.multiples) {
    const double quotient = value.get<double>() / factor->get<double>();
    if (quotient != static_cast<double>(static_cast<int64_t>(quotient))) return false;
  }
  return true;
}

}  // namespace vigil::text
