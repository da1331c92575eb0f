// The engine's child as status and metrics show it. Not here: its states (supervise/child.hpp).
#pragma once

#include "protocol/time.hpp"
#include "server/api/api.hpp"
#include "server/observe/metrics.hpp"
#include "server/supervise/child.hpp"

namespace vigil {

observe::Metrics::Kill kill_reason(supervise::Trouble why);
// `started`: when the daemon did, which is when a child that never ran came into its state.
api::EngineStatus engine_status(const supervise::Child& child, TimePoint started, TimePoint now, bool lazy);

}  // namespace vigil
