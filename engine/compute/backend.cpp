// Chooses the backend and how many threads it has.
#include "engine/compute/backend.hpp"

#include <algorithm>
#include <exception>

#include "engine/compute/cpu/cores.hpp"
#include "engine/compute/cpu/fast_backend.hpp"
#include "engine/compute/cpu/reference_backend.hpp"

namespace vigil::compute {
namespace {

constexpr int max_threads = 1024;

}  // namespace

std::string_view name_of(KvType type) {
  switch (type) {
    case KvType::f16: return "f16";
    case KvType::f32: return "f32";
    case KvType::q8_0: return "q8_0";
    case KvType::q4_0: return "q4_0";
  }
  return "";
}

std::optional<KvType> kv_type_named(std::string_view name) {
  for (const KvType type : {KvType::f16, KvType::f32, KvType::q8_0, KvType::q4_0}) {
    if (name_of(type) == name) return type;
  }
  return std::nullopt;
}

Result<std::unique_ptr<Backend>> make_backend(const BackendOptions& options) {
  if (options.backend != "auto" && options.backend != "cpu" && options.backend != "reference") {
    return Error{"--backend " + options.backend + " is not in this build; use auto, cpu or reference"};
  }
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

}  // namespace vigil::compute
