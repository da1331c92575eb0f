// The error object of the OpenAI dialects. See api.hpp and errors.hpp.
#include "server/api/errors.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "server/api/api.hpp"
#include "server/api/json_text.hpp"

namespace vigil::api {

namespace {

constexpr int cancelled_status = 499;

enum class StatusField { absent, present };

// {"error":{"message","type","code","param"[,"status"]}}
std::string error_object(int status, std::string_view code, std::string_view type, std::string_view message, std::string_view param,
                         StatusField field) {
  std::string out = R"({"error":{"message":)";
  append_json_string(out, message);
  out += R"(,"type":)";
  append_json_string(out, type);
  out += R"(,"code":)";
  append_json_string(out, code);
  out += R"(,"param":)";
  if (param.empty()) {
    out += "null";
  } else {
    append_json_string(out, param);
  }
  if (field == StatusField::present) {
    out += R"(,"status":)";
    append_json_integer(out, status);
  }
  out += "}}";
  return out;
}

std::string as_event(const std::string& object) { return "data: " + object + "\n\n"; }

std::string_view cancelled_message(turn::CancelledBy by) {
  return by == turn::CancelledBy::slow_reader ? "The request was cancelled: its client did not read the stream in time (http.write_s)."
                                              : "The request was cancelled through DELETE /v1/requests/{id}.";
}

}  // namespace

Response error_response(const turn::RequestError& error) {
  const turn::ErrorKind& kind = turn::kind_of(error.code);
  Response response;
  response.status = kind.status;
  response.body = error_object(kind.status, kind.code, kind.type, error.message, error.param, StatusField::absent);
  if (kind.retry_after) {
    constexpr double most_s = 86400;
    const double wait_s = std::isfinite(error.retry_after_s) ? std::clamp(std::ceil(error.retry_after_s), 1.0, most_s) : 1.0;
    response.headers.emplace_back("Retry-After", std::to_string(static_cast<int64_t>(wait_s)));
  }
  if (kind.never_retry) response.headers.emplace_back("x-should-retry", "false");
  return response;
}

std::string error_event(const turn::RequestError& error) {
  const turn::ErrorKind& kind = turn::kind_of(error.code);
  return as_event(error_object(kind.status, kind.code, kind.type, error.message, error.param, StatusField::present));
}

Response cancelled_response(turn::CancelledBy by) {
  Response response;
  response.status = cancelled_status;
  response.body = error_object(cancelled_status, "request_cancelled", "request_cancelled", cancelled_message(by), "", StatusField::absent);
  response.headers.emplace_back("x-should-retry", "false");
  return response;
}

std::string cancelled_event(turn::CancelledBy by) {
  return as_event(error_object(cancelled_status, "request_cancelled", "request_cancelled", cancelled_message(by), "", StatusField::present));
}

}  // namespace vigil::api
