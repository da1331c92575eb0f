// CUDA modules that give no backend, each for its own reason: VIGIL_FAKE_INTERFACE and VIGIL_FAKE_VERSION are what it claims to be.
#include "engine/compute/cuda_module.hpp"

#ifndef VIGIL_FAKE_WITHOUT_SYMBOL
namespace {

constexpr vigil::compute::cuda::Module module{VIGIL_FAKE_INTERFACE, VIGIL_FAKE_VERSION,
                                                   []() -> vigil::Result<int> { return vigil::Error{"no usable device: none today"}; }};

}  // namespace

extern "C" const vigil::compute::cuda::Module* vigil_cuda_module() { return &module; }
#endif
