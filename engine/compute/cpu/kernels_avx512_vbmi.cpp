// What AVX-512 VBMI and GFNI do better than AVX-512 with VNNI alone: products of the codebook types. The rest is kernels_avx512.cpp. Nothing here
// may run before fast_kernels() has asked the processor.
#define VIGIL_ISA avx512_vbmi

#include <array>
#include <type_traits>

#include "engine/compute/cpu/codebook_planes.hpp"

namespace vigil::compute::cpu {

extern const FastKernels kernels_avx512;

const FastKernels* kernels_avx512_vbmi() {
  static const FastKernels table = [] {
    FastKernels made = kernels_avx512;
    made.name = "avx512 vbmi";
    made.few_from_file = avx512_vbmi::few_from_file;
    made.unpack_from_file = avx512_vbmi::unpack_from_file;
    made.many_from = avx512_vbmi::many_from;
    return made;
  }();
  return &table;
}

}  // namespace vigil::compute::cpu
