// Renders small templates with variables that the language tests share.
#pragma once

#include <string>
#include <utility>

#include "server/json/json.hpp"

#include "server/text/jinja/template.hpp"

namespace vigil::text::test {

inline const nlohmann::ordered_json& variables() {
  static const auto all = nlohmann::ordered_json::parse(R"({
    "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Hé <b>&'\"\n x "},
                 {"role": "assistant", "content": "<think>\nplan\n</think>\n\nA1",
                  "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": {"a": 1, "b": [1.5, null, true]}}}]}],
    "p": {"type": "object", "b": 2, "A": 1, "items": {"x": 1}}, "n": null, "l": [3, 1, 2], "s": "abc déf", "f": 1e20, "i": 7, "t": true, "e": [],
    "nested": [[1, "a"], [2, "b"]], "users": [{"n": "Bob", "a": 3}, {"n": "al", "a": 1}, {"n": "Bob", "a": 2}]})");
  return all;
}

// The prompt, or "syntax: …", "refused: …", "failed: …".
inline std::string rendered(const std::string& source) {
  const auto compiled = jinja::Template::compile(source);
  if (!compiled) return "syntax: " + compiled.error();
  std::vector<jinja::Input> inputs;
  for (const auto& [name, value] : variables().items()) inputs.push_back({name, &value});
  const auto result = (*compiled)->render(inputs, 1'767'312'000);  // 2026-01-02 00:00:00
  if (const auto* failure = std::get_if<jinja::RenderFailure>(&result)) {
    return (failure->kind == jinja::RenderFailure::Kind::refusal ? "refused: " : "failed: ") + failure->message;
  }
  std::string out;
  for (const jinja::Piece& piece : std::get<std::vector<jinja::Piece>>(result)) out += piece.text;
  return out;
}

inline bool fails(const std::string& source) {
  const std::string out = rendered(source);
  return out.starts_with("syntax: ") || out.starts_with("refused: ") || out.starts_with("failed: ");
}

}  // namespace vigil::text::test
