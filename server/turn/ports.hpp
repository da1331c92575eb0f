// What the turn needs from an engine, declared here and implemented by process/driver; and what the driver tells it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "protocol/lines.hpp"
#include "server/turn/request.hpp"

namespace vigil::turn {

enum class LeaseEnd : uint8_t { answered, not_answered };  // answered: DONE with stop or length; resets the count of failed starts

// Orders to an engine. Calls return at once; they never call back into the desk before they return.
class TurnPort {
 public:
  virtual ~TurnPort() = default;
  virtual void need_engine() = 0;                                   // requests wait and none is ready or on its way
  virtual void start(LeaseId lease, const Request& request, int64_t max_new) = 0;  // send GEN to the ready engine
  virtual void cancel(LeaseId lease) = 0;                           // STOP, when the engine knows it; at most once a lease
  // The lease is over by the desk's judgement: its DONE or ERR was accepted. Not called for leases that engine_lost() ends.
  virtual void release(LeaseId lease, LeaseEnd end) = 0;
  virtual void pause_output(bool paused) = 0;                       // a slow reader: do not read the engine's pipe meanwhile
};

enum class EnginePhase : uint8_t { unloaded, starting, ready, stopping, backoff, failed };

// The engine as the desk needs to know it; sent whenever any of it changes.
struct EngineView {
  EnginePhase phase = EnginePhase::unloaded;
  Generation generation = 0;
  int64_t context = 0;       // tokens, of the last READY; 0 = not known yet
  int slots = 1;
  bool tagged = false;       // READY carried `ids`
  bool can_stop = false;     // READY carried `stop`
  bool can_logprobs = false;
  std::string reason;        // of the last failure
  double retry_in_s = 0;     // in backoff
};

// Why leases ended without their own DONE or ERR.
struct EngineLoss {
  RequestError error;                                              // for every request the engine had, but for:
  std::vector<std::pair<LeaseId, RequestError>> particular;        // those with a reason of their own
};

}  // namespace vigil::turn
