// Emulated tensor cores: all operands of the warp are gathered, then every lane computes its own elements. A float sum adds products in ascending
// order, each exact, rounded once a step; real tensor cores round differently within an instruction, and no test may depend on that.
#include "tests/cuda_on_cpu/matrix_instructions.hpp"

#include <bit>
#include <cstring>

#include "tests/cuda_on_cpu/sanitizers.hpp"
#include "tests/cuda_on_cpu/scheduler.hpp"

namespace cuda_on_cpu {
namespace {

constexpr unsigned whole_warp = ~0u;

template <int a_words, int b_words>
struct Operands {
  unsigned a[a_words], b[b_words];
};

// What a lane handed over.
template <typename Kind>
Kind operands_of(const std::byte* all, unsigned lane) {
  Kind one;
  sanitizers::unseen_copy(&one, all + lane * exchange_bytes, sizeof one);
  return one;
}

float half_at(unsigned word, unsigned place) {
  return static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(word >> (16 * place))));
}
int byte_at(unsigned word, unsigned place) { return static_cast<int8_t>(word >> (8 * place)); }

// Adds, to a lane's elements, the products of `words` blocks of 8 halves or 16 bytes: a word holds `width` values of a row.
template <int row_halves, int blocks, unsigned width, typename Sum, typename Value>
void multiply(Sum* sum, const unsigned* a, const unsigned* b, Value&& value) {
  using Kind = Operands<row_halves * blocks, blocks>;
  Kind mine;
  std::memcpy(mine.a, a, sizeof mine.a);
  std::memcpy(mine.b, b, sizeof mine.b);
  const std::byte* all = gather(whole_warp, &mine, sizeof mine);
  const unsigned g = current->lane / 4, t = current->lane % 4;
  Kind rows[4], columns[2][4];
  for (unsigned i = 0; i < 4; ++i) rows[i] = operands_of<Kind>(all, g * 4 + i);
  for (unsigned c = 0; c < 2; ++c) {
    for (unsigned i = 0; i < 4; ++i) columns[c][i] = operands_of<Kind>(all, (2 * t + c) * 4 + i);
  }
  for (int h = 0; h < row_halves; ++h) {
    for (unsigned c = 0; c < 2; ++c) {
      Sum& into = sum[2 * h + static_cast<int>(c)];
      for (int block = 0; block < blocks; ++block) {
        for (unsigned k = 0; k < 4 * width; ++k) {
          into += value(rows[k / width].a[block * row_halves + h], k % width) * value(columns[c][k / width].b[block], k % width);
        }
      }
    }
  }
}

}  // namespace

void mma_f16_16x8x16(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]) { multiply<2, 2, 2>(sum, a, b, half_at); }
void mma_f16_16x8x8(float (&sum)[4], const unsigned (&a)[2], unsigned b) { multiply<2, 1, 2>(sum, a, &b, half_at); }
void mma_s8_16x8x32(int (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]) { multiply<2, 2, 4>(sum, a, b, byte_at); }
void mma_s8_16x8x16(int (&sum)[4], const unsigned (&a)[2], unsigned b) { multiply<2, 1, 4>(sum, a, &b, byte_at); }
void mma_s8_8x8x16(int (&sum)[2], unsigned a, unsigned b) { multiply<1, 1, 4>(sum, &a, &b, byte_at); }

}  // namespace cuda_on_cpu
