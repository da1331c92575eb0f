// What the service manager is told and what it hands over: sd_notify(3), sd_listen_fds(3), sd_watchdog_enabled(3). Without a service
// manager every function does nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "protocol/result.hpp"
#include "protocol/time.hpp"

namespace vigil::observe {

void notify_ready(const std::string& status);
void notify_status(const std::string& status);
void notify_reloading();  // then notify_ready() when done
void notify_stopping(const std::string& status);
void notify_watchdog();

// How often the service manager wants to hear WATCHDOG=1: half of its limit; nothing when it does not watch.
std::optional<Duration> watchdog_interval();

// Listening stream sockets passed by LISTEN_FDS; empty without socket activation. Call once: LISTEN_* are taken from the environment.
Result<std::vector<int>> take_listening_sockets();

}  // namespace vigil::observe
