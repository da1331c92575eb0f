// What the replies of the OpenAI dialects have in common.
#include "server/api/reply_format.hpp"

#include <cmath>

#include "server/api/json_text.hpp"

namespace vigil::api {

std::string_view finish_word(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop: return "stop";
    case FinishReason::length: return "length";
    case FinishReason::tool_calls: return "tool_calls";
  }
  return "stop";
}

void append_usage(std::string& out, const ReplyTotals& totals) {
  const turn::Usage& usage = totals.usage;
  out += R"("usage":{"prompt_tokens":)";
  append_json_integer(out, usage.prompt);
  out += R"(,"completion_tokens":)";
  append_json_integer(out, usage.generated);
  out += R"(,"total_tokens":)";
  append_json_integer(out, usage.prompt + usage.generated);
  out += R"(,"prompt_tokens_details":{"cached_tokens":)";
  append_json_integer(out, usage.cached);
  out += R"(},"completion_tokens_details":{"reasoning_tokens":)";
  append_json_integer(out, totals.reasoning);
  out += "}}";
}

void append_timings(std::string& out, const ReplyTotals& totals) {
  const auto ms = [](double seconds) { return std::round(seconds * 1e6) / 1e3; };
  out += R"("timings":{"queued_ms":)";
  append_json_number(out, ms(totals.queued_s));
  out += R"(,"first_token_ms":)";
  append_json_number(out, ms(totals.first_token_s));
  out += R"(,"total_ms":)";
  append_json_number(out, ms(totals.total_s));
  const double decode_s = totals.total_s - totals.first_token_s;
  out += R"(,"tokens_per_s":)";
  const bool measured = totals.usage.generated > 1 && decode_s > 0;
  append_json_number(out, measured ? std::round(static_cast<double>(totals.usage.generated - 1) / decode_s * 100) / 100 : 0);
  out += '}';
}

void append_prompt_ids(std::string& out, const PromptFacts& prompt) {
  out += R"("prompt_token_ids":)";
  if (prompt.ids.size() == 1) return append_json_ids(out, prompt.ids.front());
  out += '[';
  for (size_t i = 0; i < prompt.ids.size(); ++i) {
    if (i > 0) out += ',';
    append_json_ids(out, prompt.ids[i]);
  }
  out += ']';
}

}  // namespace vigil::api
