// What the desk holds: open requests and leases. Private to desk.cpp, desk_pictures.cpp and leases.cpp.
#pragma once

#include <memory>
#include <string>

#include "server/turn/desk.hpp"

namespace vigil::turn {

std::string context_message(const std::string& prompt, int64_t context);  // for a prompt of so many tokens that does not fit

struct Desk::Open {
  RequestKey key = 0;
  Request request;
  std::unique_ptr<ReplySink> sink;
  Phase phase = Phase::queued;
  LeaseId lease = 0;
  int64_t max_new = 0;
  int64_t prefilled = 0;
  Usage usage;
  TimePoint admitted{}, waiting_since{}, started{}, first_token{}, last_token{};
  Duration waited{};
  bool warned = false;

  // An open request cannot vanish: whoever drops it without an ending ends it as our own fault.
  ~Open() {
    if (!sink) return;
    Ending ending;
    ending.how = Failed{{ErrorCode::internal_error, "the request was dropped inside the server", "", 1}};
    ending.usage = usage;
    sink->on_end(ending);
  }
};

struct Desk::Lease {
  LeaseId id = 0;
  Generation generation = 0;
  RequestKey key = 0;          // 0 once its request has ended; the engine is then only waited for
  bool tagged = false;
  bool stop_sent = false;
  std::shared_ptr<const Embeddings> embeddings;  // the engine may read the file until the lease is over
  int64_t tokens = 0;          // T lines seen
  std::string error;           // of an ERR that is not settled yet
  bool error_pending = false;
  // What the status shows after the request itself is gone.
  std::string request_id;
  uint64_t fingerprint = 0;
  bool stream = false;
  int64_t prompt_tokens = 0, prefilled = 0;
  TimePoint admitted{};
};

}  // namespace vigil::turn
