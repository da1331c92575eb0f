// Backends and engines on the emulated device.
#include "tests/cuda_on_cpu/device_support.hpp"

#include <catch2/catch.hpp>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <thread>

#include "engine/serve.hpp"

namespace vigil::testing {

std::unique_ptr<compute::Backend> on_device(compute::cuda::Clock clock, const compute::GpuOptions& options) {
  auto backend = compute::cuda::CudaBackend::make(options, std::move(clock));
  REQUIRE(backend);
  return std::move(*backend);
}

std::function<Result<compute::GpuSource>()> emulated_gpus() {
  return []() -> Result<compute::GpuSource> {
    const Result<int> count = compute::cuda::usable_devices();
    if (!count) return Error{count.error()};
    return compute::GpuSource{*count, [](const compute::GpuOptions& options) { return compute::cuda::CudaBackend::make(options); }};
  };
}

schedule::RuntimeOptions device_options() {
  schedule::RuntimeOptions options;
  options.backend.backend = "cuda";
  options.backend.gpus = emulated_gpus();
  options.step_rows = 16;
  options.context = 128;
  return options;
}

std::vector<float> some_floats(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50) / 50;
  return values;
}

schedule::RuntimeOptions on_gpus(int count) {
  cuda_on_cpu::device.count = count;
  schedule::RuntimeOptions options = device_options();
  options.kv_type = compute::KvType::f32;
  return options;
}

std::vector<std::vector<float>> scores_of(schedule::Runtime& runtime, const std::vector<int32_t>& ids) {
  cache::Sequence sequence(runtime.pool());
  std::vector<std::vector<float>> all;
  for (size_t done = 0; done < ids.size();) {
    const size_t count = done < 24 ? 12 : 1;
    REQUIRE(sequence.reserve(static_cast<int64_t>(count)));
    REQUIRE(runtime.step(sequence, std::span(ids).subspan(done, count), 1) == compute::RunOutcome::finished);
    done += count;
    all.emplace_back(static_cast<size_t>(runtime.model().vocabulary()));
    runtime.read_scores(0, all.back());
  }
  return all;
}

double worst_share(const std::vector<std::vector<float>>& ours, const std::vector<std::vector<float>>& theirs) {
  double worst = ours.size() == theirs.size() ? 0 : 1e9;
  for (size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    double size = 0, apart = 0;
    for (size_t k = 0; k < ours[i].size(); ++k) {
      size = std::max(size, std::abs(static_cast<double>(theirs[i][k])));
      const double difference = std::abs(static_cast<double>(ours[i][k]) - static_cast<double>(theirs[i][k]));
      apart = std::max(apart, difference < 1e9 ? difference : 1e9);
    }
    worst = std::max(worst, apart / size);
  }
  return worst;
}

std::string note_of(schedule::Runtime& runtime) {
  std::string text;
  for (const std::string& note : runtime.backend().notes()) text += note + "\n";
  return text;
}

int run_engine(const std::vector<std::byte>& bytes, const schedule::RuntimeOptions& runtime, const std::function<std::string(std::string_view line)>& on_line) {
  const std::string path = "/tmp/vigil_cuda_engine_" + std::to_string(::getpid());
  FILE* const file = std::fopen(path.c_str(), "wb");
  REQUIRE(file != nullptr);
  REQUIRE(std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size());
  std::fclose(file);
  int to_engine[2], from_engine[2];
  REQUIRE((::pipe(to_engine) == 0 && ::pipe(from_engine) == 0));
  engine::Options options;
  options.model = path;
  options.runtime = runtime;
  int status = -1;
  std::thread engine([&] {
    status = engine::serve(options, to_engine[0], from_engine[1], engine::AtEnd::return_to_caller);
    ::close(from_engine[1]);
  });
  FILE* const lines = ::fdopen(from_engine[0], "r");
  char line[4096];
  while (std::fgets(line, sizeof line, lines) != nullptr) {
    const std::string command = on_line(line);
    if (!command.empty()) REQUIRE(::write(to_engine[1], command.data(), command.size()) == static_cast<ssize_t>(command.size()));
  }
  engine.join();
  ::close(to_engine[0]);
  ::close(to_engine[1]);
  std::fclose(lines);
  ::unlink(path.c_str());
  return status;
}

}  // namespace vigil::testing
