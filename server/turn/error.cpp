// The contract's table of error codes.
#include "server/turn/error.hpp"

#include <array>

namespace vigil::turn {

namespace {

constexpr std::string_view bad_request = "invalid_request_error";
constexpr std::string_view server = "server_error";

// In the order of ErrorCode.
constexpr std::array<ErrorKind, 27> kinds{{
    {"engine_not_ready", 503, server, true, true},
    {"engine_start_failed", 503, server, true, false},
    {"engine_stalled", 503, server, true, false},
    {"engine_silent", 503, server, true, true},
    {"engine_crashed", 503, server, true, false},
    {"engine_error", 503, server, true, false},
    {"engine_crash_loop", 503, server, true, false},
    {"engine_unloaded", 503, server, true, false},
    {"shutting_down", 503, server, true, false},
    {"vision_unavailable", 503, server, true, false},
    {"queue_full", 429, "rate_limit_error", true, false},
    {"queue_timeout", 503, server, true, false},
    {"context_length_exceeded", 400, bad_request, false, false},
    {"image_invalid", 400, bad_request, false, false},
    {"invalid_json", 400, bad_request, false, false},
    {"invalid_request", 400, bad_request, false, false},
    {"template_error", 400, bad_request, false, false},
    {"invalid_api_key", 401, "authentication_error", false, false},
    {"host_not_allowed", 403, "permission_error", false, false},
    {"model_not_found", 404, bad_request, false, false},
    {"not_found", 404, bad_request, false, false},
    {"method_not_allowed", 405, bad_request, false, false},
    {"request_timeout", 408, bad_request, false, false},
    {"request_too_large", 413, bad_request, false, false},
    {"headers_too_large", 431, bad_request, false, false},
    {"request_crashes_engine", 422, bad_request, false, false},
    {"internal_error", 500, server, false, false},
}};
static_assert(kinds.size() == static_cast<size_t>(ErrorCode::internal_error) + 1);

}  // namespace

const ErrorKind& kind_of(ErrorCode code) { return kinds[static_cast<size_t>(code)]; }

}  // namespace vigil::turn
