// The CUDA backend is a module of its own, libvigil-cuda.so, opened while the engine runs: the engine needs no part of CUDA and runs everywhere.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/compute/backend.hpp"
#include "protocol/result.hpp"

namespace vigil::compute::cuda {

inline constexpr char module_file[] = "libvigil-cuda.so";
inline constexpr char module_symbol[] = "vigil_cuda_module";  // extern "C" const Module* vigil_cuda_module(), the only one it exports

// What engine and module share: C++ types of one build. A change of Backend, Ops or of what they hold is a new number; the first two fields never change.
inline constexpr uint32_t module_interface = 5;
struct Module {
  uint32_t interface_number = module_interface;
  const char* version = "";  // of the project
  Result<int> (*device_count)() = nullptr;  // of devices that can be used; none is an error
  Result<std::unique_ptr<Backend>> (*make)(const GpuOptions& options) = nullptr;
};

// Where an installed or built engine has it: the program's own folder, and ../libexec/vigil and ../lib/vigil beside that.
std::vector<std::string> module_folders();
// The devices of the module in the first folder that has one. An error says what is missing (the module, a module of this build, a device) and
// what to do. A module stays open for as long as the process lives.
Result<GpuSource> open_module(const std::vector<std::string>& folders);

}  // namespace vigil::compute::cuda
