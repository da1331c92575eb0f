// What the replies of the OpenAI dialects have in common.
#include "server/api/reply_format.hpp"

#include <cmath>

#include "server/api/json_text.hpp"

namespace vigil::api {

std::string_view finish_reason(turn::Finish finish) { return finish == turn::Finish::stop ? "stop" : "length"; }

void append_usage(std::string& out, const turn::Usage& usage) {
  out += R"("usage":{"prompt_tokens":)";
  append_json_integer(out, usage.prompt);
  out += R"(,"completion_tokens":)";
  append_json_integer(out, usage.generated);
  out += R"(,"total_tokens":)";
  append_json_integer(out, usage.prompt + usage.generated);
  out += R"(,"prompt_tokens_details":{"cached_tokens":)";
  append_json_integer(out, usage.cached);
  out += "}}";
}

void append_timings(std::string& out, const turn::Ending& ending) {
  const auto ms = [](double seconds) { return std::round(seconds * 1e6) / 1e3; };
  out += R"("timings":{"queued_ms":)";
  append_json_number(out, ms(ending.queued_s));
  out += R"(,"first_token_ms":)";
  append_json_number(out, ms(ending.first_token_s));
  out += R"(,"total_ms":)";
  append_json_number(out, ms(ending.total_s));
  const double decode_s = ending.total_s - ending.first_token_s;
  out += R"(,"tokens_per_s":)";
  const bool measured = ending.usage.generated > 1 && decode_s > 0;
  append_json_number(out, measured ? std::round(static_cast<double>(ending.usage.generated - 1) / decode_s * 100) / 100 : 0);
  out += '}';
}

}  // namespace vigil::api
