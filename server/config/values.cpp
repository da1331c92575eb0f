// Values of keys: types, ranges, choices. Where a value comes from and which one wins is load.cpp's business.
#include "server/config/values.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "protocol/lines.hpp"
#include "server/json/json.hpp"

namespace vigil::config {
namespace {

using nlohmann::json;

std::string quoted(const Key& key, std::string_view text) {
  if (key.meaning == Meaning::secret) return "the value";
  return "'" + protocol::printable(text, 60) + "'";
}

std::string shown(const Key& key, const json& value) {
  if (key.meaning == Meaning::secret) return "the value";
  return protocol::printable(value.dump(-1, ' ', false, json::error_handler_t::replace), 60);
}

bool has_control_bytes(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

std::string range_text(const Key& key, std::string_view kind) {
  std::string text = std::string(kind) + " from " + number_text(key.min) + " to " + number_text(key.max);
  if (!key.unit.empty()) text += " " + std::string(key.unit);
  if (key.zero == Zero::off) text += ", or 0 (off)";
  return text;
}

bool in_range(const Key& key, double value) {
  if (value == 0 && key.zero == Zero::off) return true;
  return value >= key.min && value <= key.max;
}

Result<void> set_text(std::string& field, const Key& key, std::string_view text) {
  if (has_control_bytes(text)) return Error{"holds a control byte"};
  if (!key.choices.empty()) {
    std::string_view rest = key.choices;
    bool known = false;
    while (!known && !rest.empty()) {
      const size_t bar = std::min(rest.find('|'), rest.size());
      known = rest.substr(0, bar) == text;
      rest.remove_prefix(std::min(bar + 1, rest.size()));
    }
    if (!known) return Error{quoted(key, text) + " is none of " + std::string(key.choices)};
  }
  field = text;
  return {};
}

Result<void> set_whole(int64_t& field, const Key& key, std::optional<int64_t> value, const std::string& got) {
  if (!value || !in_range(key, static_cast<double>(*value))) return Error{got + " is not " + range_text(key, "a whole number")};
  field = *value;
  return {};
}

Result<void> set_number(double& field, const Key& key, std::optional<double> value, const std::string& got) {
  if (!value || !std::isfinite(*value) || !in_range(key, *value)) return Error{got + " is not " + range_text(key, "a number")};
  field = *value == 0 ? 0 : *value;  // no -0
  return {};
}

// Whole numbers may be written 1e6 or 64.0.
std::optional<int64_t> whole_of(const json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  if (!(std::fabs(number) <= 9007199254740992.0) || number != std::floor(number)) return std::nullopt;
  return static_cast<int64_t>(number);
}

Result<void> set_list(TextList& field, const Key& key, const json& value) {
  if (!value.is_array()) return Error{shown(key, value) + " is not a list of texts, such as [\"a\", \"b\"]"};
  TextList list;
  for (const json& element : value) {
    if (!element.is_string()) return Error{"element " + std::to_string(list.size() + 1) + " of the list is not a text"};
    const auto& text = element.get_ref<const std::string&>();
    if (has_control_bytes(text)) return Error{"element " + std::to_string(list.size() + 1) + " of the list holds a control byte"};
    list.push_back(text);
  }
  field = std::move(list);
  return {};
}

Result<void> set_map(TextMap& field, const Key& key, const json& value) {
  if (!value.is_object()) return Error{shown(key, value) + " is not an object of texts, such as {\"NAME\": \"value\"}"};
  TextMap map;
  for (const auto& [name, element] : value.items()) {
    if (!element.is_string()) return Error{"the value of '" + protocol::printable(name, 60) + "' is not a text"};
    map[name] = element.get<std::string>();
  }
  field = std::move(map);
  return {};
}

template <typename T>
std::optional<T> number_of(std::string_view text) {
  T value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<bool> truth_of(std::string_view text) {
  if (text == "true" || text == "1") return true;
  if (text == "false" || text == "0") return false;
  return std::nullopt;
}

// "parse error at line 3, column 5: ..., last read: '...'; expected ..." without the library's own name and without the text of the file,
// which may be a key.
std::string parse_message(std::string message) {
  if (const size_t bracket = message.find("] "); message.starts_with('[') && bracket != std::string::npos) message.erase(0, bracket + 2);
  if (const size_t begin = message.find("; last read: '"); begin != std::string::npos) {
    const size_t end = message.rfind("'; expected");
    message.erase(begin, end != std::string::npos && end > begin ? end + 1 - begin : std::string::npos);
  }
  return protocol::printable(message, 300);
}

}  // namespace

std::string number_text(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::general).ptr;
  std::string text(buffer, end);
  if (text.find('e') == std::string::npos || std::fabs(value) >= 9e15 || value != std::floor(value)) return text;
  return std::to_string(static_cast<int64_t>(value));
}

Result<void> set_from_json(Config& config, const Key& key, const json& value) {
  return std::visit(
      [&](auto accessor) -> Result<void> {
        auto& field = *accessor(config);
        using T = std::decay_t<decltype(field)>;
        if constexpr (std::is_same_v<T, std::string>) {
          if (!value.is_string()) return Error{shown(key, value) + " is not a text"};
          return set_text(field, key, value.get_ref<const std::string&>());
        } else if constexpr (std::is_same_v<T, bool>) {
          if (!value.is_boolean()) return Error{shown(key, value) + " is not true or false"};
          field = value.get<bool>();
          return {};
        } else if constexpr (std::is_same_v<T, int64_t>) {
          return set_whole(field, key, whole_of(value), shown(key, value));
        } else if constexpr (std::is_same_v<T, double>) {
          return set_number(field, key, value.is_number() ? std::optional(value.get<double>()) : std::nullopt, shown(key, value));
        } else if constexpr (std::is_same_v<T, TextList>) {
          return set_list(field, key, value);
        } else {
          return set_map(field, key, value);
        }
      },
      key.field);
}

Result<void> set_from_text(Config& config, const Key& key, std::string_view text) {
  return std::visit(
      [&](auto accessor) -> Result<void> {
        auto& field = *accessor(config);
        using T = std::decay_t<decltype(field)>;
        if constexpr (std::is_same_v<T, std::string>) {
          return set_text(field, key, text);
        } else if constexpr (std::is_same_v<T, bool>) {
          const auto truth = truth_of(text);
          if (!truth) return Error{quoted(key, text) + " is not true or false"};
          field = *truth;
          return {};
        } else if constexpr (std::is_same_v<T, int64_t>) {
          return set_whole(field, key, number_of<int64_t>(text), quoted(key, text));
        } else if constexpr (std::is_same_v<T, double>) {
          return set_number(field, key, number_of<double>(text), quoted(key, text));
        } else {
          const char* wanted = std::is_same_v<T, TextList> ? "a JSON list, such as [\"a\", \"b\"]" : "a JSON object, such as {\"NAME\": \"value\"}";
          auto value = parse_json(text);
          if (!value) return Error{quoted(key, text) + " is not " + wanted + ": " + value.error()};
          return set_from_json(config, key, *value);
        }
      },
      key.field);
}

Result<json> parse_json(std::string_view text) {
  std::vector<std::set<std::string>> open;  // the names seen in each object that is open
  std::string duplicate;
  const auto watch = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) open.emplace_back();
    if (event == json::parse_event_t::object_end) open.pop_back();
    if (event == json::parse_event_t::key && duplicate.empty()) {
      const auto& name = parsed.get_ref<const std::string&>();
      if (!open.back().insert(name).second) duplicate = name;
    }
    return true;
  };
  try {
    json value = json::parse(text.begin(), text.end(), watch, true, true);
    if (!duplicate.empty()) return Error{"the key '" + protocol::printable(duplicate, 60) + "' stands twice in one object"};
    return value;
  } catch (const json::exception& problem) {
    return Error{parse_message(problem.what())};
  }
}

}  // namespace vigil::config
