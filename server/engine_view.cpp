// See engine_view.hpp.
#include "server/engine_view.hpp"

namespace vigil {

using supervise::Trouble;

observe::Metrics::Kill kill_reason(Trouble why) {
  switch (why) {
    case Trouble::stalled: return observe::Metrics::Kill::stall;
    case Trouble::silent: return observe::Metrics::Kill::silence;
    case Trouble::cancel_unanswered: return observe::Metrics::Kill::cancel;
    case Trouble::not_ready:
    case Trouble::start_failed: return observe::Metrics::Kill::ready;
    case Trouble::crashed:
    case Trouble::unloaded:
    case Trouble::shutting_down:
    case Trouble::crash_loop: return observe::Metrics::Kill::stop;
  }
  return observe::Metrics::Kill::stop;
}

api::EngineStatus engine_status(const supervise::Child& child, TimePoint started, TimePoint now, bool lazy) {
  api::EngineStatus status;
  status.state = supervise::to_string(child.state());
  status.generation = child.generation();
  status.pid = child.pid();
  status.in_state_s = seconds(now - (child.state_since() == TimePoint{} ? started : child.state_since()));
  status.load = child.load();
  if (const auto& ready = child.ready()) {
    status.context = ready->context;
    status.slots = ready->ids ? ready->slots : 1;
    status.can_logprobs = ready->logprobs;
    status.can_grammar = ready->grammar;
  }
  status.reason = child.reason();
  status.retry_in_s = seconds(child.retry_in(now));
  status.lazy = lazy;
  return status;
}

}  // namespace vigil
