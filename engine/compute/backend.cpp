// Chooses the backend and how many threads it has.
#include "engine/compute/backend.hpp"

#include <algorithm>
#include <exception>

#include "engine/compute/cpu/cores.hpp"
#include "engine/compute/cpu/fast_backend.hpp"
#include "engine/compute/cpu/reference_backend.hpp"
#include "engine/compute/cuda_module.hpp"

namespace vigil::compute {
namespace {

constexpr int max_threads = 1024;

Result<std::unique_ptr<Backend>> make_cpu_backend(const BackendOptions& options) {
  if (options.threads < 0 || options.threads > max_threads) {
    return Error{"--threads " + std::to_string(options.threads) + " is not between 0 and " + std::to_string(max_threads)};
  }
  try {
    const int threads = options.threads == 0 ? std::max(1, cpu::cores_of(cpu::usable_processors())) : options.threads;
    const cpu::FastKernels* kernels = options.backend == "reference" ? nullptr : cpu::fast_kernels();
    if (kernels != nullptr) return std::unique_ptr<Backend>(new cpu::FastBackend(threads, *kernels));
    return std::unique_ptr<Backend>(new cpu::ReferenceBackend(threads));
  } catch (const std::exception& failure) {  // the system may refuse to start threads
    return Error{std::string("the CPU backend could not start its threads: ") + failure.what()};
  }
}

}  // namespace

Result<GpuSource> open_gpus(const BackendOptions& options) { return options.gpus ? options.gpus() : cuda::open_module(options.module_folders); }

Result<std::unique_ptr<Backend>> make_backend(const BackendOptions& options) {
  if (options.make) return options.make();
  if (options.backend == "cpu" || options.backend == "reference") return make_cpu_backend(options);
  if (options.backend != "auto" && options.backend != "cuda") {
    return Error{"--backend " + options.backend + " is unknown; use auto, cpu, cuda or reference"};
  }
  const Result<GpuSource> gpus = open_gpus(options);
  Result<std::unique_ptr<Backend>> on_device = gpus ? gpus->make(options.gpu) : Result<std::unique_ptr<Backend>>(Error{gpus.error()});
  if (on_device) return on_device;
  if (options.backend == "cuda") return Error{"--backend cuda: " + on_device.error() + "; --backend auto or cpu computes on the CPU"};
  Result<std::unique_ptr<Backend>> on_cpu = make_cpu_backend(options);
  if (on_cpu && (options.gpus || !options.module_folders.empty())) (*on_cpu)->add_note("computing on the CPU: " + on_device.error());
  return on_cpu;
}

}  // namespace vigil::compute
