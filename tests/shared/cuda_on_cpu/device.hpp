// The device that golden models run on: the emulated one, or a real one through the engine's module. Which it is is decided by what is linked.
#pragma once

#include <cstddef>

#include "engine/compute/backend.hpp"

namespace vigil::testing {

compute::BackendOptions device_backend();
size_t greedy_tokens();  // as many as are compared of each answer

}  // namespace vigil::testing
