// The vision child's side of the line protocol (docs/line-protocol.md): loads, says READY, then takes ENC after ENC. One thread reads commands and
// computes, since there is one ENC at a time; who wants it to stop kills it.
#pragma once

#include "vision/options.hpp"

namespace vigil::vision {

// Returns the exit status: 0 at QUIT, at the end of input and when nobody reads any more, 1 when it could not load (after an ERR line).
int serve(const Options& options, int input_fd, int output_fd);

}  // namespace vigil::vision
