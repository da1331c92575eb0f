// Arrays and objects of a schema. Properties come in the schema's order, each at most once; what is optional may be left out. Two rules for
// each property (nothing was written yet; something was) keep the grammar linear in their number.
#include <algorithm>

#include "server/text/schema_compiler.hpp"

namespace vigil::text {
namespace {

constexpr size_t max_key_patterns = 4;  // of one object; which of them a name fits is told for each combination

std::string times(size_t min, std::optional<size_t> max) {
  return "{" + std::to_string(min) + "," + (max ? std::to_string(*max) : "") + "}";
}
bool is_false(const Json& value) { return value.is_boolean() && !value.get<bool>(); }

}  // namespace

// ---- arrays

// What place `index` must satisfy. `stated` becomes true when the schemas say anything about places from there on.
void SchemaCompiler::element(const SchemaSet& set, size_t index, SchemaSet& out, bool& stated) {
  for (const SchemaItem& item : set.items) {
    const Json& schema = *item.schema;
    const auto items = schema.find("items");
    const bool tuple = items != schema.end() && items->is_array();  // as older drafts had it
    const char* const list = tuple ? "items" : "prefixItems";
    const char* const rest = tuple ? "additionalItems" : "items";
    if (schema.contains(list) && schema[list].is_array() && index < schema[list].size()) {
      add(out, reader_.child(schema, list, index));
      stated = true;
    } else if (schema.contains(rest)) {
      add(out, reader_.child(schema, rest));
      stated = true;
    } else if (schema.contains("unevaluatedItems")) {
      add(out, reader_.child(schema, "unevaluatedItems"));
      stated = true;
    }
  }
}

std::string SchemaCompiler::array_way(const std::string& name, const SchemaSet& set) {
  const Lengths lengths = lengths_of(set, "minItems", "maxItems");
  size_t prefix = 0;
  for (const SchemaItem& item : set.items) {
    for (const char* list : {"prefixItems", "items"}) {
      if (item.schema->contains(list) && item.schema->at(list).is_array()) prefix = std::max(prefix, item.schema->at(list).size());
    }
    const auto unique = item.schema->find("uniqueItems");
    if (unique != item.schema->end() && *unique == true && !(lengths.max && *lengths.max <= 1)) unenforceable(item, "uniqueItems", "");
  }
  if (failure_) return "[]";
  SchemaSet rest;
  bool stated = false;
  element(set, prefix, rest, stated);
  // Places behind a tuple that nothing is said about are left away, unless the least length asks for them.
  std::optional<size_t> max = lengths.max;
  if (prefix > 0 && !stated && lengths.min <= prefix) max = std::min(max.value_or(prefix), prefix);
  const std::string rest_rule = rule_of(std::move(rest));
  if (rest_rule == "[]") max = std::min(max.value_or(prefix), prefix);
  if (max && *max < lengths.min) return "[]";
  if (max && *max == 0) return "\"[\" ws \"]\"";
  if (prefix == 0) {
    const std::string more = "(\",\" ws " + rest_rule + ")" + times(lengths.min == 0 ? 0 : lengths.min - 1, max ? std::optional(*max - 1) : std::nullopt);
    const std::string filled = rest_rule + " " + more + " ws";
    return "\"[\" ws " + (lengths.min == 0 ? "(" + filled + ")?" : filled) + " \"]\"";
  }
  const size_t places = std::min(prefix, max.value_or(prefix));
  for (size_t i = 0; i < places; ++i) {
    SchemaSet one;
    bool ignored = false;
    element(set, i, one, ignored);
    const std::string next = name + "-i" + std::to_string(i + 1);
    std::string body = std::string(i == 0 ? "ws " : "\",\" ws ") + rule_of(std::move(one)) + " " + next;
    if (i >= lengths.min) body += " | ws";
    write(name + "-i" + std::to_string(i), body);
  }
  const std::optional<size_t> most = max ? std::optional(*max - places) : std::nullopt;
  const size_t least = lengths.min > places ? lengths.min - places : 0;
  write(name + "-i" + std::to_string(places), (most && *most == 0 ? "" : "(\",\" ws " + rest_rule + ")" + times(least, most) + " ") + "ws");
  return "\"[\" " + name + "-i0 \"]\"";
}

// ---- objects

void SchemaCompiler::too_many_patterns(const Json* schema) {
  fail(schema, "more than " + std::to_string(max_key_patterns) + " patternProperties; each may meet every other, and all combinations are told apart");
}

bool SchemaCompiler::fits_pattern(const Json* schema, const std::string& pattern, const std::string& key) {
  KeyPattern& known = key_patterns_[pattern];
  if (!known.check) {
    const Regex* regex = pattern_of(schema, pattern, known.kept);
    if (!regex) return false;
    known.limits.matches = {regex};
    known.check = std::make_unique<StringCheck>(known.limits);
  }
  const Result<bool> fits = known.check->keeps(key);
  if (!fits) fail(schema, fits.error());
  return fits && *fits;
}

// Adds what the schemas ask of the value under `key`.
void SchemaCompiler::value_for(const SchemaSet& set, const std::string& key, SchemaSet& out) {
  for (const SchemaItem& item : set.items) {
    const Json& schema = *item.schema;
    bool known = false;
    look_at(1 + (schema.contains("properties") ? schema["properties"].size() : 0));
    if (failure_) return;
    if (schema.contains("properties") && schema["properties"].contains(key)) {
      add(out, reader_.child(schema, "properties", key));
      known = true;
    }
    if (schema.contains("patternProperties")) {
      if (schema["patternProperties"].size() > max_key_patterns) return too_many_patterns(item.schema);
      for (const auto& [pattern, value] : schema["patternProperties"].items()) {
        if (!fits_pattern(item.schema, pattern, key)) continue;
        add(out, reader_.child(schema, "patternProperties", pattern));
        known = true;
      }
    }
    for (const char* keyword : {"additionalProperties", "unevaluatedProperties"}) {
      if (!known && schema.contains(keyword)) {
        add(out, reader_.child(schema, keyword));
        known = true;
      }
    }
    if (failure_) return;
  }
}

std::vector<SchemaCompiler::Property> SchemaCompiler::properties_of(const SchemaSet& set) {
  std::vector<Property> properties;
  std::map<std::string, size_t> places;
  const auto meet = [&](const std::string& key) -> Property& {
    const auto [known, fresh] = places.emplace(key, properties.size());
    if (fresh) properties.push_back({key, false, {}});
    return properties[known->second];
  };
  for (const SchemaItem& item : set.items) {
    for (const char* keyword : {"properties", "patternProperties"}) {
      const auto found = item.schema->find(keyword);
      if (found != item.schema->end() && !found->is_object()) return fail(item.schema, std::string(keyword) + " must be an object"), properties;
    }
    if (const auto found = item.schema->find("properties"); found != item.schema->end()) {
      look_at(found->size());
      if (failure_) return properties;
      for (const auto& [key, value] : found->items()) meet(key);
    }
  }
  for (const SchemaItem& item : set.items) {
    const auto required = item.schema->find("required");
    if (required == item.schema->end() || required->is_boolean()) continue;  // draft 3 wrote true beside a property
    if (!required->is_array()) return fail(item.schema, "required must be a list of names"), properties;
    for (const Json& key : *required) {
      if (!key.is_string()) return fail(item.schema, "required must be a list of names"), properties;
      meet(key.get<std::string>()).required = true;
    }
  }
  if (properties.size() > max_schema_properties) {
    return fail(set.items.front().schema, "more than " + std::to_string(max_schema_properties) + " properties"), properties;
  }
  SchemaSet names;
  for (const SchemaItem& item : set.items) {
    if (item.schema->contains("propertyNames")) add(names, reader_.child(*item.schema, "propertyNames"));
  }
  const Texts texts = texts_of(names);
  StringCheck name_check(texts.limits);
  for (Property& property : properties) {
    if (failure_) return properties;
    value_for(set, property.name, property.value);
    if (failure_ || texts.limits.empty()) continue;
    const Result<bool> fits = name_check.keeps(property.name);
    if (!fits) fail(set.items.front().schema, fits.error());
    else if (!*fits) property.value.impossible = true;
  }
  return properties;
}

// Whether names that no `properties` lists may come. Silence means no where properties are listed: a model that may invent names does.
bool SchemaCompiler::extras_allowed(const SchemaSet& set, bool declares) const {
  bool opened = false;
  for (const SchemaItem& item : set.items) {
    const Json& schema = *item.schema;
    const bool patterns = schema.contains("patternProperties") && !schema["patternProperties"].empty();
    for (const char* keyword : {"additionalProperties", "unevaluatedProperties"}) {
      if (!schema.contains(keyword)) continue;
      if (is_false(schema[keyword]) && !patterns) return false;
      opened = opened || !is_false(schema[keyword]);
    }
    opened = opened || patterns;
  }
  return opened || !declares;
}

// Members with names that are not declared: for each combination of patterns that such a name may fit, its key and value.
std::vector<std::string> SchemaCompiler::extra_members(const std::string& name, const SchemaSet& set, const std::vector<Property>& declared) {
  std::vector<std::pair<std::string, const Regex*>> patterns;
  std::vector<std::shared_ptr<const Regex>> kept;
  bool opened = false;  // for names that fit no pattern
  SchemaSet names;
  for (const SchemaItem& item : set.items) {
    const Json& schema = *item.schema;
    if (schema.contains("propertyNames")) add(names, reader_.child(schema, "propertyNames"));
    opened = opened || schema.contains("additionalProperties") || schema.contains("unevaluatedProperties");
    if (!schema.contains("patternProperties")) continue;
    for (const auto& [pattern, value] : schema["patternProperties"].items()) {
      if (std::any_of(patterns.begin(), patterns.end(), [&, &text = pattern](const auto& known) { return known.first == text; })) continue;
      patterns.emplace_back(pattern, pattern_of(item.schema, pattern, kept));
    }
  }
  for (const SchemaItem& item : names.items) {
    if (item.schema->contains("enum") || item.schema->contains("const") || item.schema->contains("anyOf") || item.schema->contains("oneOf")) {
      unenforceable(item, "propertyNames with enum, const, anyOf or oneOf", " where further names may come");
    }
  }
  if (patterns.size() > max_key_patterns) too_many_patterns(set.items.front().schema);
  if (failure_) return {};
  const Texts texts = texts_of(names);
  std::vector<std::string> members;
  for (size_t fits = 0; fits < size_t{1} << patterns.size(); ++fits) {
    if (fits == 0 && !patterns.empty() && !opened) continue;
    SchemaSet value;
    for (const SchemaItem& item : set.items) {
      const Json& schema = *item.schema;
      bool known = false;
      for (size_t p = 0; p < patterns.size(); ++p) {
        if ((fits >> p & 1) == 0 || !schema.contains("patternProperties") || !schema["patternProperties"].contains(patterns[p].first)) continue;
        add(value, reader_.child(schema, "patternProperties", patterns[p].first));
        known = true;
      }
      for (const char* keyword : {"additionalProperties", "unevaluatedProperties"}) {
        if (known || !schema.contains(keyword)) continue;
        add(value, reader_.child(schema, keyword));
        known = true;
      }
    }
    StringLimits key = texts.limits;
    for (size_t p = 0; p < patterns.size(); ++p) ((fits >> p & 1) != 0 ? key.matches : key.matches_not).push_back(patterns[p].second);
    for (const Property& property : declared) key.excluded.push_back(property.name);
    if (failure_ || value.impossible) continue;
    std::string key_rule = "string";
    if (!key.empty()) {
      const std::string prefix = name + "-k" + std::to_string(fits) + "s";
      const Result<std::string> rules = string_rules(key, prefix);
      if (!rules) return fail(set.items.front().schema, rules.error()), members;
      if (rules->empty()) continue;
      out_ += *rules;
      key_rule = "\"\\\"\" " + prefix + "0 \"\\\"\"";
    }
    members.push_back(key_rule + " \":\" ws " + rule_of(std::move(value)));
  }
  return members;
}

// How many members there may be, as far as it can be kept: exactly where every member is an extra one, else only where it follows anyway.
void SchemaCompiler::check_counts(const SchemaSet& set, const std::vector<Property>& declared, bool open, std::optional<size_t>& most, size_t& least) {
  const Lengths lengths = lengths_of(set, "minProperties", "maxProperties");
  const size_t required = static_cast<size_t>(std::count_if(declared.begin(), declared.end(), [](const Property& p) { return p.required; }));
  for (const SchemaItem& item : set.items) {
    // A name that comes twice counts once, so that a least number above 1 cannot be promised.
    if (item.schema->contains("minProperties") && lengths.min > required) {
      if (!declared.empty() || lengths.min > 1) unenforceable(item, "minProperties", declared.empty() ? " above 1" : " above the number of required properties");
    }
    if (item.schema->contains("maxProperties") && !declared.empty() && lengths.max && (open || *lengths.max < declared.size())) {
      unenforceable(item, "maxProperties", " beside properties");
    }
  }
  if (declared.empty()) {
    most = lengths.max;
    least = std::min<size_t>(lengths.min, 1);
  }
}

std::string SchemaCompiler::object_way(const std::string& name, const SchemaSet& set) {
  const std::vector<Property> properties = properties_of(set);
  if (failure_) return "[]";
  const bool open = extras_allowed(set, !properties.empty());
  const std::vector<std::string> extras = open ? extra_members(name, set, properties) : std::vector<std::string>();
  std::optional<size_t> most;
  size_t least = 0;
  check_counts(set, properties, open, most, least);
  if (failure_) return "[]";
  std::string extra;
  for (const std::string& member : extras) extra += (extra.empty() ? "" : " | ") + member;
  if (!extra.empty()) write(name + "-x", extra);
  const std::string x = name + "-x";
  if (properties.empty()) {
    if (extra.empty() || (most && *most == 0)) return least == 0 ? "\"{\" ws \"}\"" : "[]";
    const std::string more = "(\",\" ws " + x + ")" + times(0, most ? std::optional(*most - 1) : std::nullopt);
    const std::string filled = x + " " + more + " ws";
    return "\"{\" ws " + (least == 0 ? "(" + filled + ")?" : filled) + " \"}\"";
  }
  const auto numbered = [&](const char* kind, size_t i) { return name + kind + std::to_string(i); };
  for (size_t i = 0; i < properties.size(); ++i) {
    const Property& property = properties[i];
    const std::string key = gbnf_literal(Json(property.name).dump(-1, ' ', false, Json::error_handler_t::replace) + ":");
    write(numbered("-p", i), key + " ws " + rule_of(property.value) + " " + numbered("-n", i + 1));
    const std::string skip = property.required ? "" : " | ";
    write(numbered("-f", i), "ws " + numbered("-p", i) + skip + (property.required ? "" : numbered("-f", i + 1)));
    write(numbered("-n", i), "\",\" ws " + numbered("-p", i) + skip + (property.required ? "" : numbered("-n", i + 1)));
  }
  const size_t end = properties.size();
  write(numbered("-f", end), extra.empty() ? "ws" : "ws " + x + " " + numbered("-n", end) + " | ws");
  write(numbered("-n", end), extra.empty() ? "ws" : "\",\" ws " + x + " " + numbered("-n", end) + " | ws");
  return "\"{\" " + numbered("-f", 0) + " \"}\"";
}

}  // namespace vigil::text
