// The inner loops of products and of softmax, in three widths that are chosen once by what the machine has. GCC's vector types become its
// registers.
#include <algorithm>
#include <cstring>

#include "vision/encoder/arithmetic.hpp"

namespace vigil::vision {
namespace {

typedef float Wide __attribute__((vector_size(64), aligned(4), may_alias));
typedef float Middle __attribute__((vector_size(32), aligned(4), may_alias));
typedef float Narrow __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t WideBits __attribute__((vector_size(64)));
typedef int32_t MiddleBits __attribute__((vector_size(32)));
typedef int32_t NarrowBits __attribute__((vector_size(16)));

// Sums of `rows` input rows and `vectors` vectors of lanes at once: as many as the registers hold.
template <typename V, int vectors, int rows>
[[gnu::always_inline]] inline void block(const float* panel, int64_t cols, const float* in, int64_t in_stride, float* out, int64_t out_stride, int64_t lanes) {
  constexpr int64_t width = sizeof(V) / sizeof(float);
  V sums[rows][vectors] = {};
  for (int64_t k = 0; k < cols; ++k) {
    V weights[vectors];
    for (int i = 0; i < vectors; ++i) std::memcpy(&weights[i], panel + k * panel_lanes + i * width, sizeof(V));
    for (int r = 0; r < rows; ++r) {
      const float value = in[r * in_stride + k];
      for (int i = 0; i < vectors; ++i) sums[r][i] += value * weights[i];
    }
  }
  for (int r = 0; r < rows; ++r) {
    if (lanes >= width * vectors) {
      for (int i = 0; i < vectors; ++i) std::memcpy(out + r * out_stride + i * width, &sums[r][i], sizeof(V));
    } else {
      std::memcpy(out + r * out_stride, sums[r], static_cast<size_t>(lanes) * sizeof(float));
    }
  }
}

template <typename V, int vectors, int rows_at_once>
[[gnu::always_inline]] inline void panel_loop(const float* panel, int64_t cols, const float* in, int64_t in_stride, int64_t rows, float* out, int64_t out_stride,
                                              int64_t lanes) {
  constexpr int64_t step = sizeof(V) / sizeof(float) * vectors;
  int64_t row = 0;
  for (; row + rows_at_once <= rows; row += rows_at_once) {
    for (int64_t lane = 0; lane < lanes; lane += step) {
      block<V, vectors, rows_at_once>(panel + lane, cols, in + row * in_stride, in_stride, out + row * out_stride + lane, out_stride, std::min(step, lanes - lane));
    }
  }
  for (; row < rows; ++row) {
    for (int64_t lane = 0; lane < lanes; lane += step) {
      block<V, vectors, 1>(panel + lane, cols, in + row * in_stride, in_stride, out + row * out_stride + lane, out_stride, std::min(step, lanes - lane));
    }
  }
}

// exp(x) for x at most 0: x = n ln 2 + r with ln 2 in two parts (Cody and Waite 1980), then Taylor's series to r^6, which is exact to 2e-7 here.
template <typename V, typename Bits>
[[gnu::always_inline]] inline void exp_in_place(V& x) {
  constexpr float to_whole = 12582912.0f;  // 1.5 * 2^23: adding it leaves the whole part in the low bits
  x = x < -87.0f ? V{} - 87.0f : x;
  const V shifted = x * 1.44269504f + to_whole;
  const V n = shifted - to_whole;
  const V r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  V sum = r * (1.0f / 720) + 1.0f / 120;
  sum = sum * r + 1.0f / 24;
  sum = sum * r + 1.0f / 6;
  sum = sum * r + 0.5f;
  sum = sum * r + 1.0f;
  sum = sum * r + 1.0f;
  Bits bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = ((bits & 0xff) + 127 + ((bits & 0x80) != 0 ? Bits{} - 256 : Bits{})) << 23;
  V power;
  std::memcpy(&power, &bits, sizeof power);
  x = sum * power;
}

template <typename V, typename Bits>
[[gnu::always_inline]] inline void softmax_loop(float* scores, int64_t count, float scale) {
  constexpr int64_t width = sizeof(V) / sizeof(float);
  float most = scores[0];
  int64_t i = 0;
  if (count >= width) {
    V top;
    std::memcpy(&top, scores, sizeof top);
    for (i = width; i + width <= count; i += width) {
      V here;
      std::memcpy(&here, scores + i, sizeof here);
      top = here > top ? here : top;
    }
    for (int64_t lane = 0; lane < width; ++lane) most = std::max(most, top[lane]);
  }
  for (; i < count; ++i) most = std::max(most, scores[i]);
  V sums{};
  float sum = 0;
  for (i = 0; i < count; i += width) {
    const int64_t many = std::min(width, count - i);
    V here = V{} + most;
    if (many == width) std::memcpy(&here, scores + i, sizeof here);
    else std::memcpy(&here, scores + i, static_cast<size_t>(many) * sizeof(float));
    here = (here - most) * scale;
    exp_in_place<V, Bits>(here);
    if (many == width) {
      std::memcpy(scores + i, &here, sizeof here);
      sums += here;
    } else {
      std::memcpy(scores + i, &here, static_cast<size_t>(many) * sizeof(float));
      for (int64_t lane = 0; lane < many; ++lane) sum += here[lane];
    }
  }
  for (int64_t lane = 0; lane < width; ++lane) sum += sums[lane];
  const float by = 1 / sum;
  for (i = 0; i < count; ++i) scores[i] *= by;
}

using Softmax = void(float*, int64_t, float);
using Kernel = void(const float*, int64_t, const float*, int64_t, int64_t, float*, int64_t, int64_t);

void narrow(const float* panel, int64_t cols, const float* in, int64_t in_stride, int64_t rows, float* out, int64_t out_stride, int64_t lanes) {
  panel_loop<Narrow, 2, 4>(panel, cols, in, in_stride, rows, out, out_stride, lanes);
}
void softmax_narrow(float* scores, int64_t count, float scale) { softmax_loop<Narrow, NarrowBits>(scores, count, scale); }

#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void softmax_middle(float* scores, int64_t count, float scale) { softmax_loop<Middle, MiddleBits>(scores, count, scale); }
[[gnu::target("avx512f,fma")]] void softmax_wide(float* scores, int64_t count, float scale) { softmax_loop<Wide, WideBits>(scores, count, scale); }

[[gnu::target("avx2,fma")]] void middle(const float* panel, int64_t cols, const float* in, int64_t in_stride, int64_t rows, float* out, int64_t out_stride,
                                        int64_t lanes) {
  panel_loop<Middle, 2, 6>(panel, cols, in, in_stride, rows, out, out_stride, lanes);
}

[[gnu::target("avx512f,fma")]] void wide(const float* panel, int64_t cols, const float* in, int64_t in_stride, int64_t rows, float* out, int64_t out_stride,
                                         int64_t lanes) {
  panel_loop<Wide, 2, 12>(panel, cols, in, in_stride, rows, out, out_stride, lanes);
}
#endif

struct Chosen {
  Kernel* multiply = narrow;
  Softmax* softmax = softmax_narrow;
};

Chosen choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {wide, softmax_wide};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {middle, softmax_middle};
#endif
  return {};
}

const Chosen& chosen() {
  static const Chosen kernels = choose();
  return kernels;
}

}  // namespace

void multiply_panel(const float* panel, int64_t cols, const float* in, int64_t in_stride, int64_t rows, float* out, int64_t out_stride, int64_t lanes) {
  chosen().multiply(panel, cols, in, in_stride, rows, out, out_stride, lanes);
}

void softmax(float* scores, int64_t count, float scale) { chosen().softmax(scores, count, scale); }

}  // namespace vigil::vision
