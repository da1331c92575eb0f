// The CUDA backend as it is compiled for the emulation.
#include "tests/shared/cuda_on_cpu/device.hpp"

#include "engine/compute/cuda/backend.hpp"

namespace vigil::testing {

compute::BackendOptions device_backend() {
  compute::BackendOptions options{"cuda"};  // not auto, which would go on without it
  options.make = [] { return compute::cuda::CudaBackend::make(); };
  return options;
}

size_t greedy_tokens() { return 6; }  // the emulation does some hundred million products a second

}  // namespace vigil::testing
