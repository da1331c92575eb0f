// The door of this room: a Jinja template compiled once, rendered many times. Bounded in time and memory (limits.hpp) whatever the template.
// Not here: what a chat needs of a template (server/text/chat_template.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "protocol/result.hpp"
#include "server/text/jinja/limits.hpp"

namespace vigil::text::jinja {

struct Options {
  bool mutable_values = true;  // list.append and its kin, which the hub's sandbox refuses
  bool from_json = true;       // a filter that some templates need and the hub lacks
};

// A piece of a prompt of one source.
struct Piece {
  enum class Source : uint8_t { fixed, typed, picture };  // written by the template; come from an input; a picture's place, without text
  Source source = Source::fixed;
  std::string text;
  bool operator==(const Piece&) const = default;
};

// A variable for the template. Its texts are typed, but for names of roles (values of "role"); `trusted` ones count as the template's own (bos_token).
// A value of nlohmann's binary kind is a text with picture_mark for each picture.
struct Input {
  std::string_view name;
  const nlohmann::ordered_json* value = nullptr;
  bool trusted = false;
};
inline constexpr uint8_t picture_mark = 0xFF;  // no byte of UTF-8

struct RenderFailure {
  enum class Kind { refusal, failure };
  Kind kind = Kind::failure;
  std::string message;         // refusal: the words of raise_exception; failure: with the line
};

class Template {
 public:
  // The error: "line L, column C: what was not understood".
  static Result<std::shared_ptr<const Template>> compile(std::string_view source, Options options = {});
  ~Template();
  Template(const Template&) = delete;

  // From several threads at once if need be.
  std::variant<std::vector<Piece>, RenderFailure> render(const std::vector<Input>& inputs, int64_t unix_seconds, uint64_t steps = max_steps) const;
  // Whether the template names this variable.
  bool names(std::string_view variable) const;

 private:
  struct Compiled;
  explicit Template(std::unique_ptr<const Compiled> compiled);
  std::unique_ptr<const Compiled> compiled_;
};

}  // namespace vigil::text::jinja
