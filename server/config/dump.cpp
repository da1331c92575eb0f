// The configuration as text: the effective JSON, and what a reload changes. Secrets stay hidden unless asked for.
#include <cmath>

#include "server/config/keys.hpp"
#include "server/config/load.hpp"
#include "server/json/json.hpp"

namespace vigil::config {
namespace {

using nlohmann::json;

std::string value_text(Config& config, const Key& key) {
  json value;
  std::visit([&](auto accessor) { value = *accessor(config); }, key.field);
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Names of variables that carry credentials, such as HF_TOKEN.
bool looks_secret(std::string_view name) {
  std::string upper;
  for (const char c : name) upper += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  for (const char* part : {"KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL"}) {
    if (upper.find(part) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

std::string to_json(const Config& config, Secrets secrets) {
  Config copy = config;
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const Key& key : keys()) {
    nlohmann::ordered_json value;
    std::visit([&](auto accessor) { value = *accessor(copy); }, key.field);
    if (value.is_number_float() && value.get<double>() == std::floor(value.get<double>()) && std::fabs(value.get<double>()) < 9e15) {
      value = static_cast<int64_t>(value.get<double>());
    }
    if (secrets == Secrets::hidden && key.meaning == Meaning::secret) {
      for (auto& element : value) element = "***";
    }
    if (secrets == Secrets::hidden && value.is_object()) {
      for (auto& [name, element] : value.items()) {
        if (looks_secret(name)) element = "***";
      }
    }
    const size_t dot = key.path.find('.');
    if (dot == std::string_view::npos) {
      out[std::string(key.path)] = value;
    } else {
      out[std::string(key.path.substr(0, dot))][std::string(key.path.substr(dot + 1))] = value;
    }
  }
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::vector<std::string> describe_changes(const Config& before, const Config& after) {
  Config old_copy = before;
  Config new_copy = after;
  std::vector<std::string> lines;
  for (const Key& key : keys()) {
    const std::string was = value_text(old_copy, key);
    const std::string is = value_text(new_copy, key);
    if (was == is) continue;
    std::string line = std::string(key.path) + ": ";
    const bool hidden = key.meaning == Meaning::secret || std::holds_alternative<Accessor<TextMap>>(key.field);
    line += hidden ? "changed" : was + " -> " + is;
    lines.push_back(line + ", " + takes_text(key.takes));
  }
  return lines;
}

}  // namespace vigil::config
