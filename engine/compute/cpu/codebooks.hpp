// The point tables of the IQ weight types: constants of the format, each a list of places in space that a block's indexes choose from.
// Values as the ggml project's quantisation code fixes them; here packed, see codebooks.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace vigil::compute::cpu {

template <typename Value, size_t values, size_t points>
using Codebook = std::array<std::array<Value, values>, points>;

extern const Codebook<int8_t, 8, 2048> codebook_iq1_s;
extern const Codebook<uint8_t, 8, 256> codebook_iq2_xxs;
extern const Codebook<uint8_t, 8, 512> codebook_iq2_xs;
extern const Codebook<uint8_t, 8, 1024> codebook_iq2_s;
extern const Codebook<uint8_t, 4, 256> codebook_iq3_xxs;
extern const Codebook<uint8_t, 4, 512> codebook_iq3_s;
extern const std::array<int8_t, 16> codebook_iq4_nl;
// Four-bit floats of the OCP microscaling format (1 sign, 2 exponent, 1 mantissa bit), times two.
extern const std::array<int8_t, 16> codebook_fp4_doubled;

// Eight signs, one a bit (1 = negative), from the seven that a file stores: the eighth makes their number even.
constexpr uint8_t eight_signs(uint32_t seven) {
  uint32_t parity = seven;
  parity ^= parity >> 4;
  parity ^= parity >> 2;
  parity ^= parity >> 1;
  return static_cast<uint8_t>((seven & 127u) | ((parity & 1u) << 7));
}

}  // namespace vigil::compute::cpu
