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

double tokens_per_second(const ReplyTotals& totals) {
  // Tokens that came together say nothing of the time between them.
  constexpr double least_measured_s = 1e-3;
  const auto tokens = static_cast<double>(totals.usage.generated);
  const double decode_s = totals.total_s - totals.first_token_s, engine_s = totals.total_s - totals.queued_s;
  if (tokens > 1 && decode_s >= least_measured_s) return (tokens - 1) / decode_s;
  return tokens > 0 && engine_s > 0 ? tokens / engine_s : 0;
}

void append_timings(std::string& out, const ReplyTotals& totals) {
  const auto ms = [](double seconds) { return std::round(seconds * 1e6) / 1e3; };
  out += R"("timings":{"queued_ms":)";
  append_json_number(out, ms(totals.queued_s));
  out += R"(,"first_token_ms":)";
  append_json_number(out, ms(totals.first_token_s));
  out += R"(,"total_ms":)";
  append_json_number(out, ms(totals.total_s));
  out += R"(,"tokens_per_s":)";
  append_json_number(out, std::round(tokens_per_second(totals) * 100) / 100);
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
