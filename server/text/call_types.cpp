// See call_types.hpp.
#include "server/text/call_types.hpp"

#include "server/text/call_readers.hpp"
#include "server/text/call_value.hpp"

namespace vigil::text {
namespace {

ArgumentType named_type(std::string_view name) {
  if (name == "string") return ArgumentType::text;
  if (name == "array") return ArgumentType::list;
  if (name == "object") return ArgumentType::object;
  return ArgumentType::other;
}

ArgumentType value_type(const Json& value) {
  if (value.is_string()) return ArgumentType::text;
  return value.is_array() ? ArgumentType::list : value.is_object() ? ArgumentType::object : ArgumentType::other;
}

// What several alternatives have in common.
template <class Values, class TypeOf>
ArgumentType common_type(const Values& values, TypeOf type_of) {
  bool first = true;
  ArgumentType common = ArgumentType::any;
  for (const auto& value : values) {
    const ArgumentType type = type_of(value);
    if (!first && type != common) return ArgumentType::any;
    common = type;
    first = false;
  }
  return common;
}

ArgumentType type_at(const Json& schema, int depth) {
  if (!schema.is_object() || depth > 8) return ArgumentType::any;
  if (const auto type = schema.find("type"); type != schema.end()) {
    if (type->is_string()) return named_type(type->get_ref<const std::string&>());
    if (type->is_array()) {
      return common_type(*type, [](const Json& name) { return name.is_string() ? named_type(name.get_ref<const std::string&>()) : ArgumentType::any; });
    }
  }
  if (const auto values = schema.find("enum"); values != schema.end() && values->is_array()) return common_type(*values, value_type);
  if (const auto value = schema.find("const"); value != schema.end()) return value_type(*value);
  for (const char* either : {"anyOf", "oneOf"}) {
    if (const auto some = schema.find(either); some != schema.end() && some->is_array()) {
      return common_type(*some, [&](const Json& one) { return type_at(one, depth + 1); });
    }
  }
  return ArgumentType::any;
}

}  // namespace

ArgumentType schema_type(const Json& schema) { return type_at(schema, 0); }

const Json* property_schema(const Json& schema, std::string_view key) {
  if (!schema.is_object()) return nullptr;
  if (const auto properties = schema.find("properties"); properties != schema.end() && properties->is_object()) {
    if (const auto found = properties->find(std::string(key)); found != properties->end()) return &*found;
  }
  const auto more = schema.find("additionalProperties");
  return more != schema.end() && more->is_object() ? &*more : nullptr;
}

ArgumentType argument_type(const ToolDefinition& tool, std::string_view key, std::string_view attributes) {
  const auto says = [&](std::string_view text) { return attributes.find(text) != std::string_view::npos; };
  if (says("string=\"true\"") || says("type=\"string\"")) return ArgumentType::text;
  if (says("string=\"false\"")) return ArgumentType::other;
  const Json* schema = property_schema(tool.parameters, key);
  if (schema) return schema_type(*schema);
  return says("type=\"") ? ArgumentType::other : ArgumentType::any;
}

std::string typed_value(ArgumentType type, std::string_view raw) {
  if (type != ArgumentType::text) {
    std::string value = whole_value(ValueReader::Notation::json, raw);
    if (value.empty()) value = whole_value(ValueReader::Notation::python, raw);
    const bool string = value.starts_with('"');
    if (!value.empty() && !(string && type == ArgumentType::any && raw.starts_with('\''))) return value;
  }
  std::string text = "\"";
  append_json_escaped(text, type == ArgumentType::text ? raw : trimmed(raw));
  return text + '"';
}

}  // namespace vigil::text
