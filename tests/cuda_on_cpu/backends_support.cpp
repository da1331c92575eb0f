// The CUDA backend on the emulated device.
#include "tests/engine/backends_support.hpp"

#include <catch2/catch.hpp>

#include "engine/compute/cuda/backend.hpp"

namespace vigil::testing {

std::vector<BackendUnderTest> backends_under_test() {
  return {{"cuda", false, [](int) {
    auto backend = compute::cuda::CudaBackend::make();
    REQUIRE(backend);
    return std::move(*backend);
  }}};
}

}  // namespace vigil::testing
