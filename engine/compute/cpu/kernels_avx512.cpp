// The fast kernels for AVX-512 with VNNI. Nothing here may run before fast_kernels() has asked the processor.
#define VIGIL_ISA avx512

#include <type_traits>

#include "engine/compute/cpu/attention_kernels.hpp"
#include "engine/compute/cpu/codebook_kernels.hpp"
#include "engine/compute/cpu/product_kernels.hpp"
#include "engine/compute/cpu/row_kernels.hpp"

namespace vigil::compute::cpu {

extern const FastKernels kernels_avx512;
const FastKernels kernels_avx512 = {
    "avx512",
    avx512::quantise_row,
    avx512::few,
    avx512::few_from_file,
    avx512::many_from,
    avx512::unpack,
    [](gguf::TensorType, const std::byte*, int64_t, int64_t, int64_t, const Panel&) { return false; },
    avx512::many,
    avx512::rms_norm_row,
    avx512::gate_row,
    avx512::add_row,
    avx512::attend_block,
    avx512::store_kv,
    avx512::convolve_channels,
    avx512::delta_step};

}  // namespace vigil::compute::cpu
