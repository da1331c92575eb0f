// A real device, through the module that lies beside the engine: for tools/device_check, on a machine that has one.
#include <catch2/catch.hpp>

#include "tests/engine/backends_support.hpp"
#include "tests/shared/cuda_on_cpu/device.hpp"

namespace vigil::testing {

compute::BackendOptions device_backend() { return {"cuda", 0, {VIGIL_BIN_DIR}}; }

std::vector<schedule::RuntimeOptions> split_placements() {
  schedule::RuntimeOptions with_cpu;
  with_cpu.backend = device_backend();
  with_cpu.gpu_layers = 1;
  return {with_cpu};
}

size_t greedy_tokens() { return 48; }

std::vector<BackendUnderTest> backends_under_test() {
  return {{"cuda", false, [](int) {
    auto backend = compute::make_backend(device_backend());
    if (!backend) FAIL(backend.error());
    return std::move(*backend);
  }}};
}

}  // namespace vigil::testing
