// What stands around the event loop: whether it turns at all, and when signals may reach it. Not here: what runs in it.
#pragma once

#include <cstdint>

#include <boost/asio/io_context.hpp>

#include "protocol/result.hpp"

namespace vigil {

// Asio does not say when the kernel refused it a timer, a wake-up or its signals (epoll_ctl: memory, or fs.epoll.max_user_watches); a daemon without
// them would hang instead of failing. To be asked once, before anything is promised. Takes about a millisecond and runs whatever else is
// ready in `io`.
Result<void> check_loop(boost::asio::io_context& io);

// TERM, INT and HUP. Outside the loop they wait: before it nobody could act on them, and after it, when the signal set is gone, the default action
// of one more TERM would turn a clean stop into a death by signal. Threads inherit this and never take them.
enum class Signals : uint8_t { kept_waiting, taken };
void mask_signals(Signals what);

}  // namespace vigil
