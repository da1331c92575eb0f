// How many threads compute well on this machine.
#pragma once

#include <string>
#include <vector>

namespace vigil::compute::cpu {

// The processors of this process's affinity mask: what a container or taskset leaves.
std::vector<int> usable_processors();
// How many cores they belong to: two threads of one core share its arithmetic, and a second would only wait. `root` stands before /sys, for
// tests. A processor whose core the system does not tell counts as one.
int cores_of(const std::vector<int>& processors, const std::string& root = "");

}  // namespace vigil::compute::cpu
