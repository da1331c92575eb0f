// The daemon: makes the parts, joins them, and takes them apart in order. Decides nothing about requests or children.
#pragma once

#include "protocol/result.hpp"
#include "server/config/load.hpp"

namespace vigil {

// Serves until it is told to stop; returns the process's exit status. What prevents a start is one line on stderr and status 1.
int serve(const config::Loaded& loaded, const config::Sources& sources);

}  // namespace vigil
