// Weight types on blocks made here: each layout's arithmetic on a block where the right value is plain, then every type on a fixed pattern.
// That the values are the format's own is tests/shared's matter (golden rows to the bit).
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "engine/compute/cpu/codebooks.hpp"
#include "engine/compute/cpu/dequantise.hpp"

using namespace vigil;
using compute::cpu::can_dequantise;
using compute::cpu::dequantise_row;
using T = gguf::TensorType;

namespace {

constexpr T weight_types[] = {T::f32, T::f16, T::bf16, T::q4_0, T::q4_1, T::q5_0, T::q5_1, T::q8_0, T::q1_0, T::q2_0, T::q2_k, T::q3_k, T::q4_k, T::q5_k,
                              T::q6_k, T::iq1_s, T::iq1_m, T::iq2_xxs, T::iq2_xs, T::iq2_s, T::iq3_xxs, T::iq3_s, T::iq4_nl, T::iq4_xs, T::tq1_0,
                              T::tq2_0, T::mxfp4, T::nvfp4};

std::vector<float> decode(T type, const std::vector<int>& bytes) {
  const auto info = gguf::type_info(type);
  std::vector<std::byte> memory(1 + bytes.size());  // an odd address
  for (size_t i = 0; i < bytes.size(); ++i) memory[i + 1] = static_cast<std::byte>(bytes[i]);
  std::vector<float> out(bytes.size() / info->block_bytes * info->block_elements);
  dequantise_row(type, memory.data() + 1, static_cast<int64_t>(out.size()), out.data());
  return out;
}

// A block of zero bytes with some set.
std::vector<float> block(T type, const std::vector<std::pair<size_t, int>>& set) {
  std::vector<int> bytes(gguf::type_info(type)->block_bytes, 0);
  for (const auto& [place, value] : set) bytes.at(place) = value;
  return decode(type, bytes);
}

constexpr int two_low = 0x00, two_high = 0x40;  // 2.0 as a half

}  // namespace

TEST_CASE("the small types: scale, offset, nibbles low then high, fifth bits") {
  const auto q4_0 = block(T::q4_0, {{0, two_low}, {1, two_high}, {2, 0x9f}});
  CHECK((q4_0[0] == 14.0f && q4_0[16] == 2.0f && q4_0[1] == -16.0f));
  const auto q4_1 = block(T::q4_1, {{1, two_high}, {3, 0xbc}, {4, 0x9f}});  // offset -1
  CHECK((q4_1[0] == 29.0f && q4_1[16] == 17.0f && q4_1[1] == -1.0f));
  const auto q5_0 = block(T::q5_0, {{1, two_high}, {2, 0x01}, {4, 0x02}, {6, 0x9f}});  // fifth bits of columns 0 and 17
  CHECK((q5_0[0] == 30.0f && q5_0[16] == -14.0f && q5_0[17] == 0.0f && q5_0[1] == -32.0f));
  const auto q5_1 = block(T::q5_1, {{1, two_high}, {3, 0x3c}, {4, 0x01}, {8, 0x9f}});
  CHECK((q5_1[0] == 63.0f && q5_1[16] == 19.0f && q5_1[1] == 1.0f));
  const auto q1 = block(T::q1_0, {{1, two_high}, {2, 0x05}, {17, 0x80}});
  CHECK((q1[0] == 2.0f && q1[1] == -2.0f && q1[2] == 2.0f && q1[127] == 2.0f && q1[126] == -2.0f));
  const auto q2 = block(T::q2_0, {{1, two_high}, {2, 0xe4}});
  CHECK((q2[0] == -2.0f && q2[1] == 0.0f && q2[2] == 2.0f && q2[3] == 4.0f));
  const auto nl = block(T::iq4_nl, {{1, two_high}, {2, 0xf0}});
  CHECK((nl[0] == -254.0f && nl[16] == 226.0f));
}

TEST_CASE("four-bit floats scale by powers of two and by eight-bit floats") {
  const auto one = block(T::mxfp4, {{0, 127}, {1, 0x2a}, {2, 0xf7}});
  CHECK((one[0] == -1.0f && one[16] == 1.0f && one[1] == 6.0f && one[17] == -6.0f && one[2] == 0.0f));
  CHECK(block(T::mxfp4, {{0, 0}, {1, 0x02}})[0] == std::ldexp(1.0f, -127));
  CHECK(block(T::mxfp4, {{0, 255}, {1, 0x02}})[0] == std::ldexp(1.0f, 127) * 2.0f);
  const auto nv = block(T::nvfp4, {{0, 0x38}, {1, 0x01}, {3, 0x7f}, {4, 0x72}, {12, 0x07}, {28, 0x77}});
  CHECK((nv[0] == 1.0f && nv[8] == 6.0f && nv[16] == 6.0f * std::ldexp(1.0f, -9)));
  CHECK(nv[48] == 0.0f);  // a scale that is no number
}

TEST_CASE("ternary types give minus, nothing and plus") {
  const auto tq2 = block(T::tq2_0, {{65, two_high}, {0, 0x24}, {32, 0x02}});
  CHECK((tq2[0] == -2.0f && tq2[32] == 0.0f && tq2[64] == 2.0f && tq2[96] == -2.0f && tq2[128] == 2.0f));
  // 0.21020 in base 3 is 195 / 243; the next byte fraction above it is 206 / 256.
  const auto tq1 = block(T::tq1_0, {{53, two_high}, {0, 206}});
  CHECK((tq1[0] == 2.0f && tq1[32] == 0.0f && tq1[64] == -2.0f && tq1[96] == 2.0f && tq1[128] == -2.0f));
}

TEST_CASE("K types put six-bit scales where they belong") {
  // Part 5 of Q4_K: low bits of its scale in byte 9's low nibble, upper bits in byte 1's top; likewise the offset.
  const auto q4 = block(T::q4_k, {{1, two_high}, {3, 0x3c}, {4 + 9, 0x21}, {4 + 1, 0xc0}, {4 + 5, 0x40}, {16 + 64, 0x70}});
  CHECK(q4[160] == 2.0f * 49.0f * 7.0f - 18.0f);
  CHECK(q4[161] == -18.0f);
  const auto q5 = block(T::q5_k, {{1, two_high}, {4 + 0, 3}, {16 + 1, 0x01}, {48 + 1, 0x05}});
  CHECK((q5[1] == 126.0f && q5[0] == 0.0f));
  const auto q6 = block(T::q6_k, {{209, two_high}, {192 + 11, 1}, {192 + 13, 0xff}, {64 + 32 + 17, 0x05}, {128 + 32 + 17, 0x0c}});
  CHECK(q6[128 + 32 + 17] == 42.0f);  // quarter 1 of half 1: part 11, 0x35 - 32
  CHECK(q6[128 + 64 + 17] == 64.0f); // quarter 2 takes part 13's scale of -1: 2 * -1 * -32
  const auto q3 = block(T::q3_k, {{109, two_high}, {96 + 1, 0x50}, {96 + 9, 0x20}, {17, 0x10}, {32 + 32 + 17, 0x03}});  // part 9
  CHECK(q3[128 + 17] == 2.0f * 5.0f * 3.0f);  // scale 0x25 - 32, codes 3 with the third bit set
  const auto q2 = block(T::q2_k, {{81, two_high}, {83, 0x3c}, {9, 0x35}, {16 + 32 + 16, 0x03}});  // part 9
  CHECK(q2[128 + 16] == 27.0f);
  const auto xs = block(T::iq4_xs, {{1, two_high}, {2, 0x0c}, {4, 0x20}, {8 + 16, 0x0f}});  // part 1: scale 0x32 - 32 = 18
  CHECK(xs[32] == 36.0f * 113.0f);
}

TEST_CASE("codebooks hold as many different points as their indexes name, and every eight signs are even") {
  CHECK(compute::cpu::codebook_iq1_s[0] == std::array<int8_t, 8>{-1, -1, -1, -1, -1, -1, -1, -1});
  CHECK(compute::cpu::codebook_iq1_s[2047] == std::array<int8_t, 8>{1, 1, 1, 1, 1, 1, 1, 1});
  CHECK(compute::cpu::codebook_iq2_xxs[3] == std::array<uint8_t, 8>{8, 43, 8, 8, 8, 8, 8, 8});
  CHECK(compute::cpu::codebook_iq3_xxs[5] == std::array<uint8_t, 4>{62, 12, 4, 4});
  CHECK(compute::cpu::codebook_iq3_s[4] == std::array<uint8_t, 4>{15, 1, 1, 1});
  for (uint32_t seven = 0; seven < 128; ++seven) {
    const uint32_t eight = compute::cpu::eight_signs(seven);
    CHECK((eight & 127u) == seven);
    CHECK(__builtin_popcount(eight) % 2 == 0);
  }
}

// Pins every type to the values it had when the golden rows agreed to the bit.
TEST_CASE("a fixed pattern of bytes decodes to the same bits as ever") {
  const std::vector<std::pair<T, uint64_t>> pinned = {
      {T::f32, 0x575b5754d0596e15u}, {T::f16, 0x5b86fdf6108ed3f5u}, {T::bf16, 0xe79d772a07a213f5u}, {T::q4_0, 0xbb5f932345733525u},
      {T::q4_1, 0xd07e9b3e9e21c3cdu}, {T::q5_0, 0x4feca30502be6d25u}, {T::q5_1, 0xbd09a85db4c36e9du}, {T::q8_0, 0x69753094f831e8a5u},
      {T::q1_0, 0xdb97e6edf4160b25u}, {T::q2_0, 0xcf658cc23d84b725u}, {T::q2_k, 0xb2b812fa673f167u}, {T::q3_k, 0xa76783ab28f66ca5u},
      {T::q4_k, 0x3556c82fd2c91170u}, {T::q5_k, 0x126944663d240dfeu}, {T::q6_k, 0x1c9499b46ab61ce1u}, {T::iq1_s, 0xd9ec5090b202aaa5u},
      {T::iq1_m, 0x650a17922540dc25u}, {T::iq2_xxs, 0x750fe0c97572d87du}, {T::iq2_xs, 0x6494478d7983f595u}, {T::iq2_s, 0x7d4a1cd8b0bed285u},
      {T::iq3_xxs, 0x4478f4547f88e5u}, {T::iq3_s, 0xecf91514ed9f7b55u}, {T::iq4_nl, 0x170486dec774e5e5u}, {T::iq4_xs, 0xc92584b528c9670fu},
      {T::tq1_0, 0x41dd72d5152f5325u}, {T::tq2_0, 0xb99470cf49439325u}, {T::mxfp4, 0xff54dc317ced25u}, {T::nvfp4, 0x5713cc5d234fb725u}};
  REQUIRE(pinned.size() == std::size(weight_types));
  for (size_t t = 0; t < pinned.size(); ++t) {
    const auto info = gguf::type_info(weight_types[t]);
    REQUIRE(pinned[t].first == weight_types[t]);
    CHECK(can_dequantise(weight_types[t]));
    std::vector<int> bytes;
    for (uint32_t i = 0; i < 4 * info->block_bytes; ++i) bytes.push_back(static_cast<int>((i * i * 31 + i * 7 + 5) >> 2 & 0xbf));
    uint64_t hash = 14695981039346656037u;  // FNV-1a
    for (const float value : decode(weight_types[t], bytes)) {
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      if (std::isnan(value)) bits = 0x7fc00000u;
      hash = (hash ^ bits) * 1099511628211u;
    }
    INFO(info->name << " 0x" << std::hex << hash);
    CHECK(pinned[t].second == hash);
  }
  CHECK_FALSE(can_dequantise(T::q8_1));
  CHECK_FALSE(can_dequantise(T::i32));
}
