// Asks the processor once.
#include "engine/compute/cpu/fast_kernels.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace vigil::compute::cpu {

#if defined(__x86_64__)
extern const FastKernels kernels_avx2, kernels_avx512;  // kernels_avx2.cpp, kernels_avx512.cpp
const FastKernels* kernels_avx512_vbmi();                // kernels_avx512_vbmi.cpp

namespace {

// Not among the names that every compiler's __builtin_cpu_supports knows.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

}  // namespace

const FastKernels* fast_kernels(InstructionSet most) {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c()) return nullptr;
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
  if (!wide || most == InstructionSet::avx2) return &kernels_avx2;
  const bool bytes = __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("gfni") && __builtin_cpu_supports("bmi2");
  return bytes && most == InstructionSet::avx512_vbmi ? kernels_avx512_vbmi() : &kernels_avx512;
}
#else
const FastKernels* fast_kernels(InstructionSet) { return nullptr; }
#endif

}  // namespace vigil::compute::cpu
