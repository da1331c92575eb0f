// The fast kernels for AVX2, FMA and F16C. Nothing here may run before fast_kernels() has asked the processor.
#define VIGIL_ISA avx2

#include <type_traits>

#include "engine/compute/cpu/attention_kernels.hpp"
#include "engine/compute/cpu/codebook_kernels.hpp"
#include "engine/compute/cpu/product_kernels.hpp"
#include "engine/compute/cpu/row_kernels.hpp"

namespace vigil::compute::cpu {

extern const FastKernels kernels_avx2;
const FastKernels kernels_avx2 = {
    "avx2",
    avx2::quantise_row,
    avx2::few,
    avx2::few_from_file,
    avx2::many_from,
    avx2::unpack,
    [](gguf::TensorType, const std::byte*, int64_t, int64_t, int64_t, const Panel&) { return false; },
    avx2::many,
    avx2::rms_norm_row,
    avx2::gate_row,
    avx2::add_row,
    avx2::attend_block,
    avx2::store_kv,
    avx2::convolve_channels,
    avx2::delta_step};

}  // namespace vigil::compute::cpu
