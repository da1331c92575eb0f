// See json_read.hpp. The tree is built from the library's events, so that its depth can be limited while it is read.
#include "server/api/json_read.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server/json/json.hpp"
#include "server/text/utf8.hpp"

namespace vigil::api {

namespace {

using json = nlohmann::ordered_json;

// Receives the parser's events; each answers whether to go on.
class TreeBuilder {
 public:
  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(json::number_integer_t value) { return put(value); }
  bool number_unsigned(json::number_unsigned_t value) { return put(value); }
  bool number_float(json::number_float_t value, const std::string&) { return put(value); }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(json::binary_t&) { return false; }
  bool start_object(std::size_t) { return open(json::object()); }
  bool start_array(std::size_t) { return open(json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    json& object = *stack_.back().value;
    auto& members = object.get_ref<json::object_t&>();
    if (const auto known = find(stack_.back(), members, name)) {
      slot_ = &members.begin()[static_cast<std::ptrdiff_t>(*known)].second;
      return true;
    }
    if (stack_.back().places) stack_.back().places->emplace(name, members.size());
    make_room(members);
    members.emplace_back(std::move(name), nullptr);
    slot_ = &members.back().second;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) {
    position_ = position;
    reason_ = error.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 5: syntax error while ..." -> what stands behind the position
    const size_t bracket = reason_.find("] ");
    if (bracket != std::string::npos) reason_.erase(0, bracket + 2);
    const size_t column = reason_.find(": ");
    if (reason_.rfind("parse error", 0) == 0 && column != std::string::npos) reason_.erase(0, column + 2);
    return false;
  }

  bool too_deep() const { return too_deep_; }
  bool too_many() const { return values_ > max_json_values; }
  size_t position() const { return position_; }
  const std::string& reason() const { return reason_; }
  json take() { return std::move(root_); }

 private:
  // Growing by itself the vector would copy every value deeply: its members are pairs with a constant key, which cannot be moved whole.
  static void make_room(json::object_t& members) {
    if (members.size() < members.capacity()) return;
    json::object_t larger;
    constexpr size_t first = 4;
    larger.reserve(std::max(first, 2 * members.size()));
    for (auto& [key, value] : members) larger.emplace_back(key, std::move(value));
    members.swap(larger);
  }

  // An array or object that is not closed yet. Members keep their order, so a search among many needs an index of its own.
  struct Open {
    json* value;
    std::unique_ptr<std::unordered_map<std::string, size_t>> places = nullptr;
  };

  static std::optional<size_t> find(Open& open, const json::object_t& members, const std::string& name) {
    constexpr size_t few = 32;
    if (members.size() < few) {
      for (size_t i = 0; i < members.size(); ++i) {
        if (members.begin()[static_cast<std::ptrdiff_t>(i)].first == name) return i;
      }
      return std::nullopt;
    }
    if (!open.places) {
      open.places = std::make_unique<std::unordered_map<std::string, size_t>>();
      for (const auto& [known, value] : members) open.places->emplace(known, open.places->size());
    }
    const auto found = open.places->find(name);
    if (found == open.places->end()) return std::nullopt;
    return found->second;
  }

  json* place(json value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    json& parent = *stack_.back().value;
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    *slot_ = std::move(value);
    return slot_;
  }
  bool put(json value) {
    if (++values_ > max_json_values) return false;
    place(std::move(value));
    return true;
  }
  bool open(json value) {
    if (++values_ > max_json_values) return false;
    if (stack_.size() == max_json_depth) {
      too_deep_ = true;
      return false;
    }
    stack_.push_back({place(std::move(value))});
    return true;
  }
  bool close() {
    stack_.pop_back();
    return true;
  }

  json root_;
  std::vector<Open> stack_;   // none of them moves while it is open, since only the innermost one grows
  json* slot_ = nullptr;      // of the last key
  bool too_deep_ = false;
  size_t values_ = 0;
  size_t position_ = 0;
  std::string reason_;
};

// Where the nesting passes the limit; only asked for a body that does.
size_t depth_position(std::string_view body) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < body.size(); ++i) {
    const char c = body[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > max_json_depth) return i + 1;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return body.size();
}

turn::RequestError bad_json(size_t position, std::string_view reason) {
  constexpr size_t reason_bytes = 240;
  const std::string valid = text::valid_utf8(reason.substr(0, 2 * reason_bytes));  // it quotes what was read, perhaps all of the body
  return {turn::ErrorCode::invalid_json,
          "The body is not valid JSON at byte " + std::to_string(position) + ": " + std::string(text::clip_utf8(valid, reason_bytes)), "", 1};
}

}  // namespace

std::variant<nlohmann::ordered_json, turn::RequestError> read_json_object(std::string_view body) {
  if (body.empty()) return bad_json(1, "it is empty; send an object");
  // The library takes a NUL byte for the end of the text; JSON knows none.
  const size_t nul = body.find('\0');
  const std::string_view text = body.substr(0, nul);
  TreeBuilder builder;
  const bool parsed = json::sax_parse(text.begin(), text.end(), &builder);
  if (builder.too_deep()) {
    return bad_json(depth_position(body), "it is nested deeper than " + std::to_string(max_json_depth) + " levels (max_json_depth)");
  }
  if (builder.too_many()) {
    return turn::RequestError{turn::ErrorCode::request_too_large,
                              "The body holds more than " + std::to_string(max_json_values) + " JSON values (max_json_values).", "", 1};
  }
  if (nul != std::string_view::npos && (parsed || builder.position() > nul)) return bad_json(nul + 1, "a NUL byte");
  if (!parsed) return bad_json(builder.position(), builder.reason());
  json value = builder.take();
  if (!value.is_object()) {
    return turn::RequestError{turn::ErrorCode::invalid_request, std::string("The body must be a JSON object, not ") + value.type_name() + ".", "", 1};
  }
  return value;
}

}  // namespace vigil::api
