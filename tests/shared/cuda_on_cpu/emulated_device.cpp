// The CUDA backend as it is compiled for the emulation.
#include "tests/shared/cuda_on_cpu/device.hpp"

#include "engine/compute/cuda/backend.hpp"

namespace vigil::testing {

compute::BackendOptions device_backend() {
  compute::BackendOptions options{"cuda"};  // not auto, which would go on without it
  options.gpus = []() -> Result<compute::GpuSource> {
    return compute::GpuSource{cuda_on_cpu::device.count, [](const compute::GpuOptions& gpu) { return compute::cuda::CudaBackend::make(gpu); }};
  };
  return options;
}

std::vector<schedule::RuntimeOptions> split_placements() {
  cuda_on_cpu::device.count = 2;
  schedule::RuntimeOptions with_cpu, two_devices;
  with_cpu.backend = two_devices.backend = device_backend();
  with_cpu.gpu_layers = 1;
  two_devices.layer_split = {1, 1};
  return {with_cpu, two_devices};
}

size_t greedy_tokens() { return 6; }  // the emulation does some hundred million products a second

}  // namespace vigil::testing
