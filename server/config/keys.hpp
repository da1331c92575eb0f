// The table of every key that can be set: path, where it lives in Config, range, unit, what 0 means, when a change takes effect. Parsing,
// environment names, suggestions, the JSON dump and docs/configuration.md all walk this table. Private to the room.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/config/config.hpp"

namespace vigil::config {

using TextList = std::vector<std::string>;
using TextMap = std::map<std::string, std::string>;

template <typename T>
using Accessor = T* (*)(Config&);
using Field = std::variant<Accessor<std::string>, Accessor<bool>, Accessor<int64_t>, Accessor<double>, Accessor<TextList>, Accessor<TextMap>>;

enum class Zero { plain, off };           // off: 0 is allowed below `min` and switches the limit off
enum class Takes { new_requests, next_start, restart };  // when a change by SIGHUP holds
enum class Meaning { value, path, program, secret };     // of a text or list

struct Key {
  std::string_view path;
  Field field;
  double min = 0, max = 0;                // numbers only, both included
  std::string_view unit = {};             // "s", "ms", "bytes", "MiB", "tokens", ...
  Zero zero = Zero::plain;
  Takes takes = Takes::new_requests;
  Meaning meaning = Meaning::value;
  std::string_view choices = {};          // "eager|lazy": the only values of a text
  std::string_view explanation = {};      // for the documents; one sentence
};

std::span<const Key> keys();
const Key* find_key(std::string_view path);
bool is_section(std::string_view path);   // "engine", "vision", "queue", "http"
std::string environment_name(std::string_view path);  // "VIGIL_ENGINE_READY_S"
// The known key path nearest to an unknown one, by edit distance; a right last word in the wrong section counts as near.
std::string nearest_key(std::string_view unknown);
std::string nearest_environment_name(std::string_view unknown);
std::string takes_text(Takes takes);

}  // namespace vigil::config
