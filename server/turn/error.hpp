// The ways a request can fail, with what the contract fixes for each: code, HTTP status, error type, retry advice. Not here: JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace vigil::turn {

enum class ErrorCode : uint8_t {
  engine_not_ready, engine_start_failed, engine_stalled, engine_silent, engine_crashed, engine_error, engine_crash_loop, engine_unloaded,
  shutting_down, vision_unavailable, queue_full, queue_timeout, context_length_exceeded, image_invalid, invalid_json, invalid_request,
  template_error, invalid_api_key, host_not_allowed, model_not_found, not_found, method_not_allowed, request_timeout, request_too_large,
  headers_too_large, request_crashes_engine, internal_error
};

struct ErrorKind {
  std::string_view code;    // "engine_stalled"
  int status;               // 503
  std::string_view type;    // "server_error", as OpenAI's clients know it
  bool retry_after;         // the answer carries Retry-After (every 503 and 429)
  bool never_retry;         // x-should-retry: false, a client's automatic retry would cost another whole load
};
const ErrorKind& kind_of(ErrorCode code);

struct RequestError {
  ErrorCode code = ErrorCode::internal_error;
  std::string message;      // names the limit and its key
  std::string param;        // the field, for bad requests; may be empty
  double retry_after_s = 1; // used when kind_of(code).retry_after
};

}  // namespace vigil::turn
