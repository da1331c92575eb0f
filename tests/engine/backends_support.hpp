// The backends that a test program holds to the cases of compute_ops_test and compute_backend_test: the CPU's in test_engine, the CUDA backend on the
// emulated device in test_cuda_on_cpu. Which they are is decided by what is linked.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/compute/backend.hpp"

namespace vigil::testing {

struct BackendUnderTest {
  std::string name;
  bool has_threads;  // the result must not depend on how many
  std::function<std::unique_ptr<compute::Backend>(int threads)> make;
};
std::vector<BackendUnderTest> backends_under_test();

}  // namespace vigil::testing
