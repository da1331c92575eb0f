// Errors as the dialects word them: one value for every kind of failure, and the shapes that it takes. Not here: which error it is.
#pragma once

#include <string>
#include <string_view>

#include "server/api/channel.hpp"
#include "server/turn/error.hpp"
#include "server/turn/request.hpp"

namespace vigil::api {

// A failure that a client is told of, whichever dialect it speaks.
struct ErrorFacts {
  int status = 500;
  std::string code;           // "engine_stalled"
  std::string type;           // OpenAI's: "invalid_request_error", "server_error"…
  std::string message;
  std::string param;          // the field; may be empty
  double retry_after_s = 0;   // the Retry-After header; 0 = none
  bool never_retry = false;   // x-should-retry: false
};

ErrorFacts error_facts(const turn::RequestError& error);
// What a client is told whose request was ended by DELETE /v1/requests/{id} or because it stopped reading. No code of the contract's table
// fits: the request was fine and so is the engine. Status 499 ("client closed request"), which clients do not retry by themselves.
ErrorFacts error_facts(turn::CancelledBy by);

// Status and headers of a plain error answer around a body that the dialect wrote.
Response error_answer(const ErrorFacts& error, std::string body);

// How a dialect answers a failure before its reply has begun.
using ErrorShape = Response (*)(const ErrorFacts&);
Response openai_error(const ErrorFacts& error);          // {"error":{"message","type","code","param"}}
// The same as one in-stream event with its status inside: "data: {...}\n\n". Chat and completions.
std::string openai_error_event(const ErrorFacts& error);

}  // namespace vigil::api
