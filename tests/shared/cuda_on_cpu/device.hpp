// The device that golden models run on: the emulated one, or a real one through the engine's module. Which it is is decided by what is linked.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/schedule/runtime.hpp"

namespace vigil::testing {

compute::BackendOptions device_backend();
// Models split as the devices allow: some layers on the CPU, and between devices where there are several.
std::vector<schedule::RuntimeOptions> split_placements();
size_t greedy_tokens();  // as many as are compared of each answer

}  // namespace vigil::testing
