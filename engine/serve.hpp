// The life of an engine child: load, READY, commands in on one descriptor, tokens out on another, until QUIT or end of input.
// Not here: how a request is computed (schedule/), the command line (options.hpp).
#pragma once

#include "engine/options.hpp"

namespace vigil::engine {

// What QUIT, end of input and a broken output do. A process ends at once, wherever its threads are; a test wants its threads back.
enum class AtEnd { exit_process, return_to_caller };

// Returns the exit status: 0 after QUIT or end of input, 1 when the model could not be loaded (FATAL was said on `output_fd` and stderr).
int serve(const Options& options, int input_fd, int output_fd, AtEnd at_end);

}  // namespace vigil::engine
