// Source: the kernel's admin-guide/cputopology (thread_siblings_list: the processors of a core, "0,4" or "0-1").
#include "engine/compute/cpu/cores.hpp"

#include <sched.h>

#include <fstream>
#include <set>

namespace vigil::compute::cpu {

std::vector<int> usable_processors() {
  cpu_set_t set;
  std::vector<int> processors;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) processors.push_back(i);
  }
  return processors;
}

int cores_of(const std::vector<int>& processors, const std::string& root) {
  std::set<std::string> cores;
  for (const int processor : processors) {
    std::ifstream file(root + "/sys/devices/system/cpu/cpu" + std::to_string(processor) + "/topology/thread_siblings_list");
    std::string siblings;
    if (!std::getline(file, siblings)) siblings = "processor " + std::to_string(processor);
    cores.insert(siblings);
  }
  return static_cast<int>(cores.size());
}

}  // namespace vigil::compute::cpu
