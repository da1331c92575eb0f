// References are JSON pointers into the schema itself (RFC 6901 behind "#"); nothing is ever fetched.
#include "server/text/schema_set.hpp"

#include <algorithm>

#include "server/text/schema_grammar.hpp"

namespace vigil::text {
namespace {

std::string unescape(std::string_view segment) {
  std::string out;
  const auto hex = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; };
  for (size_t i = 0; i < segment.size(); ++i) {
    if (segment[i] == '%' && i + 2 < segment.size() && hex(segment[i + 1]) >= 0 && hex(segment[i + 2]) >= 0) {
      out += static_cast<char>(hex(segment[i + 1]) * 16 + hex(segment[i + 2]));
      i += 2;
    } else {
      out += segment[i];
    }
  }
  for (const auto& [from, to] : {std::pair{"~1", "/"}, {"~0", "~"}}) {
    for (size_t at = out.find(from); at != std::string::npos; at = out.find(from, at + 1)) out.replace(at, 2, to);
  }
  return out;
}

}  // namespace

const Json& SchemaReader::enter(const Json& parent, const Json& child, std::string segment) {
  places_.emplace(&child, Place{&parent, std::move(segment)});
  return child;
}
const Json& SchemaReader::child(const Json& parent, const std::string& key) { return enter(parent, parent.at(key), "." + key); }
const Json& SchemaReader::child(const Json& parent, const std::string& key, size_t index) {
  return enter(parent, parent.at(key).at(index), "." + key + "[" + std::to_string(index) + "]");
}
const Json& SchemaReader::child(const Json& parent, const std::string& key, const std::string& name) {
  return enter(parent, parent.at(key).at(name), "." + key + "." + name.substr(0, 64));
}

std::string SchemaReader::place(const Json* schema) const {
  std::string out;
  for (size_t steps = 0; steps < max_schema_depth; ++steps) {
    const auto known = places_.find(schema);
    if (known == places_.end() || !known->second.parent) break;
    out = known->second.segment + out;
    schema = known->second.parent;
  }
  return out;
}

Result<void> SchemaReader::add(SchemaSet& set, const Json& schema) {
  open_.clear();
  return add(set, schema, 0);
}

Result<void> SchemaReader::add(SchemaSet& set, const Json& schema, size_t depth) {
  if (schema.is_boolean()) {
    if (!schema.get<bool>()) set.impossible = true;
    return {};
  }
  if (!schema.is_object()) return wrong(&schema, "a schema is an object, true or false");
  if (depth > max_schema_depth) return wrong(&schema, "$ref and allOf inside each other deeper than " + std::to_string(max_schema_depth));
  if (std::find(open_.begin(), open_.end(), &schema) != open_.end()) return wrong(&schema, "this schema refers to itself without anything in between");
  if (std::any_of(set.items.begin(), set.items.end(), [&](const SchemaItem& item) { return item.schema == &schema; })) return {};
  if (set.items.size() == max_schema_set) return wrong(&schema, "more than " + std::to_string(max_schema_set) + " subschemas for one value");
  set.items.push_back({&schema});
  open_.push_back(&schema);
  if (const auto reference = schema.find("$ref"); reference != schema.end()) {
    if (!reference->is_string()) return wrong(&schema, "$ref must be text");
    Result<const Json*> target = resolve(schema, reference->get<std::string>());
    if (!target) return Error{target.error()};
    if (Result<void> added = add(set, **target, depth + 1); !added) return added;
  }
  if (const auto all = schema.find("allOf"); all != schema.end()) {
    if (!all->is_array()) return wrong(&schema, "allOf must be a list of schemas");
    for (size_t i = 0; i < all->size(); ++i) {
      if (Result<void> added = add(set, child(schema, "allOf", i), depth + 1); !added) return added;
    }
  }
  open_.pop_back();
  return {};
}

Result<const Json*> SchemaReader::resolve(const Json& schema, const std::string& reference) {
  const auto lost = [&](const std::string& why) { return wrong(&schema, "$ref '" + reference.substr(0, 100) + "' " + why); };
  if (reference.empty() || reference[0] != '#') return lost("leads out of this schema; only references inside it (#/...) are followed");
  const Json* at = &root_;
  std::string path;
  for (size_t from = 1; from < reference.size();) {
    if (reference[from] != '/') return lost("is no JSON pointer; write it as #/$defs/name");
    const size_t end = std::min(reference.find('/', from + 1), reference.size());
    const std::string segment = unescape(std::string_view(reference).substr(from + 1, end - from - 1));
    path += "." + segment.substr(0, 64);
    if (at->is_object() && at->contains(segment)) {
      at = &at->at(segment);
    } else if (at->is_array() && !segment.empty() && segment.size() < 6 && segment.find_first_not_of("0123456789") == std::string::npos &&
               std::stoul(segment) < at->size()) {
      at = &at->at(std::stoul(segment));
    } else {
      return lost("leads nowhere");
    }
    from = end;
  }
  places_.emplace(at, Place{&root_, path});
  return at;
}

}  // namespace vigil::text
