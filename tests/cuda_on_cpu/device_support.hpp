// What tests of the host's side share: a device set up for one test, backends on it, and engines that use it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "emulation_support.hpp"
#include "engine/compute/cuda/backend.hpp"
#include "engine/schedule/runtime.hpp"

namespace vigil::testing {

// The emulated device as a test wants it, and as it was afterwards.
struct DeviceSetting {
  const cuda_on_cpu::Device before = cuda_on_cpu::device;
  ~DeviceSetting() { cuda_on_cpu::device = before; }
};

std::unique_ptr<compute::Backend> on_device(compute::cuda::Clock clock = std::chrono::steady_clock::now, const compute::GpuOptions& options = {});
// The emulated devices as the engine finds them.
std::function<Result<compute::GpuSource>()> emulated_gpus();
// Steps of at most 16 rows, a context of 128.
schedule::RuntimeOptions device_options();
std::vector<float> some_floats(size_t count);
// The same on so many emulated devices, with a KV cache of f32.
schedule::RuntimeOptions on_gpus(int count);

// A prompt in two chunks, then one token at a time: the scores after every step.
std::vector<std::vector<float>> scores_of(schedule::Runtime& runtime, const std::vector<int32_t>& ids);
// The largest difference of a step's scores as a share of their largest magnitude.
double worst_share(const std::vector<std::vector<float>>& ours, const std::vector<std::vector<float>>& theirs);
std::string note_of(schedule::Runtime& runtime);  // the backend's notes, a line each

// An engine that serves the model of `bytes`: `on_line` sees each of its lines and may answer with a command. Returns its exit status.
int run_engine(const std::vector<std::byte>& bytes, const schedule::RuntimeOptions& options, const std::function<std::string(std::string_view line)>& on_line);

}  // namespace vigil::testing
