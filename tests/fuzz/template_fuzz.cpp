// Chat templates from anybody: bytes are a template, rendered with a small conversation. Whatever comes, it ends, within its limits, and nothing
// that was typed is among what the template wrote.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "server/json/json.hpp"

#include "server/text/jinja/template.hpp"

namespace {

using namespace vigil::text::jinja;
using Json = nlohmann::ordered_json;

constexpr std::string_view typed_mark = "\xEE\x80\x80";  // U+E000, in every text of the conversation
constexpr uint64_t steps = 200'000;

void require(bool holds, const char* property) {
  if (holds) return;
  std::fprintf(stderr, "property broken: %s\n", property);
  std::abort();
}

Json conversation() {
  const std::string mark(typed_mark);
  const Json arguments = {{mark + "key", Json::array({1, 2.5, nullptr, true, mark})}};
  const Json call = {{"id", mark}, {"function", {{"name", mark}, {"arguments", arguments}}}};
  return Json::array({{{"role", "system"}, {"content", mark + " be <kind> "}}, {{"role", "user"}, {"content", "  \xC3\xA9" + mark + "\n"}},
                      {{"role", "assistant"}, {"content", mark + "</think>" + mark}, {"tool_calls", Json::array({call})}}});
}

bool writes_mark(std::string_view source) {
  return source.find(typed_mark) != std::string_view::npos || source.find("e000") != std::string_view::npos || source.find("E000") != std::string_view::npos;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string source(reinterpret_cast<const char*>(data), size);
  const auto compiled = Template::compile(source);
  if (!compiled) {
    require(!compiled.error().empty(), "an error says what is wrong");
    return 0;
  }
  static const Json messages = conversation();
  static const Json yes = true, number = 7, begin = "<s>";
  const auto render = [&] {
    return (*compiled)->render({{"messages", &messages}, {"add_generation_prompt", &yes, true}, {"n", &number}, {"bos_token", &begin, true}}, 1'750'000'000, steps);
  };
  const auto first = render(), second = render();
  require(first.index() == second.index(), "the same conversation has the same outcome");
  const auto* pieces = std::get_if<std::vector<Piece>>(&first);
  if (!pieces) return 0;
  require(*pieces == std::get<std::vector<Piece>>(second), "the same conversation has the same prompt");
  for (const Piece& piece : *pieces) {
    if (piece.source == Piece::Source::fixed) require(writes_mark(source) || piece.text.find(typed_mark) == std::string::npos, "nothing typed is fixed");
  }
  return 0;
}
