// The one symbol that libvigil-cuda.so exports.
#include "engine/compute/cuda/backend.hpp"
#include "engine/compute/cuda_module.hpp"

namespace {

vigil::Result<int> device_count() { return vigil::compute::cuda::usable_devices(); }

vigil::Result<std::unique_ptr<vigil::compute::Backend>> make(const vigil::compute::GpuOptions& options) {
  return vigil::compute::cuda::CudaBackend::make(options);
}

constexpr vigil::compute::cuda::Module module{vigil::compute::cuda::module_interface, VIGIL_VERSION, device_count, make};

}  // namespace

extern "C" __attribute__((visibility("default"))) const vigil::compute::cuda::Module* vigil_cuda_module() { return &module; }
