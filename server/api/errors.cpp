// Errors to facts, and the error object of the OpenAI dialects. See api.hpp and errors.hpp.
#include "server/api/errors.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "server/api/api.hpp"
#include "server/api/json_text.hpp"

namespace vigil::api {

namespace {

constexpr int cancelled_status = 499;

enum class StatusField { absent, present };

// {"error":{"message","type","code","param"[,"status"]}}
std::string error_object(const ErrorFacts& error, StatusField field) {
  std::string out = R"({"error":{"message":)";
  append_json_string(out, error.message);
  out += R"(,"type":)";
  append_json_string(out, error.type);
  out += R"(,"code":)";
  append_json_string(out, error.code);
  out += R"(,"param":)";
  if (error.param.empty()) {
    out += "null";
  } else {
    append_json_string(out, error.param);
  }
  if (field == StatusField::present) {
    out += R"(,"status":)";
    append_json_integer(out, error.status);
  }
  out += "}}";
  return out;
}

}  // namespace

ErrorFacts error_facts(const turn::RequestError& error) {
  const turn::ErrorKind& kind = turn::kind_of(error.code);
  ErrorFacts facts;
  facts.status = kind.status;
  facts.code = kind.code;
  facts.type = kind.type;
  facts.message = error.message;
  facts.param = error.param;
  facts.never_retry = kind.never_retry;
  if (kind.retry_after) {
    constexpr double most_s = 86400;
    facts.retry_after_s = std::isfinite(error.retry_after_s) ? std::clamp(std::ceil(error.retry_after_s), 1.0, most_s) : 1.0;
  }
  return facts;
}

ErrorFacts error_facts(turn::CancelledBy by) {
  ErrorFacts facts;
  facts.status = cancelled_status;
  facts.code = facts.type = "request_cancelled";
  facts.message = by == turn::CancelledBy::slow_reader ? "The request was cancelled: its client did not read the stream in time (http.write_s)."
                                                       : "The request was cancelled through DELETE /v1/requests/{id}.";
  facts.never_retry = true;
  return facts;
}

Response error_answer(const ErrorFacts& error, std::string body) {
  Response response;
  response.status = error.status;
  response.body = std::move(body);
  if (error.retry_after_s > 0) response.headers.emplace_back("Retry-After", std::to_string(static_cast<int64_t>(error.retry_after_s)));
  if (error.never_retry) response.headers.emplace_back("x-should-retry", "false");
  return response;
}

Response openai_error(const ErrorFacts& error) { return error_answer(error, error_object(error, StatusField::absent)); }

std::string openai_error_event(const ErrorFacts& error) { return "data: " + error_object(error, StatusField::present) + "\n\n"; }

Response error_response(const turn::RequestError& error) { return openai_error(error_facts(error)); }

}  // namespace vigil::api
