// Subschemas that one value must all satisfy: $ref and allOf are opened, so that what is left are plain keywords side by side. The schema is
// never copied; its places are told by pointers. Not here: grammars.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "protocol/result.hpp"
#include "server/text/conversation.hpp"

namespace vigil::text {

inline constexpr size_t max_schema_depth = 200;  // $ref and allOf inside each other

struct SchemaItem {
  const Json* schema = nullptr;  // an object
  bool any_chosen = false, one_chosen = false;  // its anyOf, its oneOf have been decided: the choice is an item of its own
  bool operator==(const SchemaItem&) const = default;
};
struct SchemaSet {
  std::vector<SchemaItem> items;  // in the order in which they were met
  bool impossible = false;        // `false` is among them
};

class SchemaReader {
 public:
  explicit SchemaReader(const Json& root) : root_(root) { places_[&root] = {nullptr, ""}; }

  // Adds a subschema with everything that it refers to. An error names the place.
  Result<void> add(SchemaSet& set, const Json& schema);
  // Where a subschema stands (".properties.x"), once it was entered from its parent.
  std::string place(const Json* schema) const;
  // A child of `parent` under `key` (and `index` or name).
  const Json& child(const Json& parent, const std::string& key);
  const Json& child(const Json& parent, const std::string& key, size_t index);
  const Json& child(const Json& parent, const std::string& key, const std::string& name);
  Error wrong(const Json* schema, const std::string& what) const { return Error{place(schema) + ": " + what}; }

 private:
  Result<void> add(SchemaSet& set, const Json& schema, size_t depth);
  Result<const Json*> resolve(const Json& schema, const std::string& reference);
  const Json& enter(const Json& parent, const Json& child, std::string segment);

  struct Place {
    const Json* parent;
    std::string segment;
  };
  const Json& root_;
  std::unordered_map<const Json*, Place> places_;
  std::vector<const Json*> open_;
};

}  // namespace vigil::text
