// What the turn needs from an engine and from an encoder of pictures, declared here and implemented in process/; and what those tell it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "protocol/lines.hpp"
#include "server/turn/request.hpp"

namespace vigil::turn {

// Orders to an engine. Calls return at once; they never call back into the desk before they return.
class TurnPort {
 public:
  virtual ~TurnPort() = default;
  virtual void need_engine() = 0;                                   // requests wait and none is ready or on its way
  virtual void start(LeaseId lease, const Request& request, int64_t max_new) = 0;  // send GEN to the ready engine
  virtual void cancel(LeaseId lease) = 0;                           // STOP, when the engine knows it; at most once a lease
  // The request of the lease has its answer, which proves the engine; the lease itself may go on until DONE. At most once a lease.
  virtual void answered(LeaseId lease) = 0;
  // The lease is over by the desk's judgement: its DONE or ERR was accepted. Not called for leases that engine_lost() ends.
  virtual void release(LeaseId lease) = 0;
  virtual void pause_output(bool paused) = 0;                       // a slow reader: do not read the engine's pipe meanwhile
};

// Orders to the vision child. Answered later, once each, by Desk::encoded or Desk::encode_failed; never before encode() returns.
class EncoderPort {
 public:
  virtual ~EncoderPort() = default;
  virtual void encode(RequestKey key, const std::vector<Picture>& pictures) = 0;
  virtual void abandon(RequestKey key) = 0;                         // its request has ended; a late answer is inert
};

enum class EnginePhase : uint8_t { unloaded, starting, ready, stopping, backoff, failed };

// The engine as the desk needs to know it; sent whenever any of it changes.
struct EngineView {
  EnginePhase phase = EnginePhase::unloaded;
  Generation generation = 0;
  uint64_t vocabulary = 0;   // of the model that it runs or will run next
  int64_t context = 0;       // tokens, of the last READY; 0 = not known yet
  int slots = 1;
  bool tagged = false;       // READY carried `ids`
  bool can_stop = false;     // READY carried `stop`
  bool can_logprobs = false;
  std::string reason;        // of the last failure
  double retry_in_s = 0;     // in backoff
  bool can_grammar = false;  // READY carried `grammar`
  bool can_embed = false;    // READY carried `embeddings`
};

// Why leases ended without their own DONE or ERR.
struct EngineLoss {
  RequestError error;                                              // for every request the engine had, but for:
  std::vector<std::pair<LeaseId, RequestError>> particular;        // those with a reason of their own
};

}  // namespace vigil::turn
