// Error objects beside the public ones of api.hpp. Not here: which error it is.
#pragma once

#include <string>

#include "server/api/channel.hpp"
#include "server/turn/error.hpp"
#include "server/turn/request.hpp"

namespace vigil::api {

// What a client is told whose request was ended by DELETE /v1/requests/{id} or because it stopped reading. No code of the contract's table
// fits: the request was fine and so is the engine. Status 499 ("client closed request"), which clients do not retry by themselves.
Response cancelled_response(turn::CancelledBy by);
std::string cancelled_event(turn::CancelledBy by);

}  // namespace vigil::api
