// Attention of a few query heads over one KV block of 64 positions, and writing into a block. Included by the kernel files alone.
#pragma once

#include "engine/compute/cpu/fast_kernels.hpp"
#include "engine/compute/cpu/simd.hpp"

namespace vigil::compute::cpu::VIGIL_ISA {

inline constexpr int64_t position_vectors = kv_block_positions / 16;

template <KvType type>
VIGIL_INLINE Floats load_kv_values(const std::byte* part, int64_t index) {
  if constexpr (type == KvType::f32) return load(reinterpret_cast<const float*>(part) + index);
  else return load_halves(reinterpret_cast<const uint16_t*>(part) + index);
}

VIGIL_INLINE int64_t padded(int64_t head_dim) { return (head_dim + 15) / 16 * 16; }

// scores[n][64] = q K, the dimensions in ascending order.
template <KvType type, int count>
VIGIL_INLINE void score_block(const std::byte* keys, int64_t head_dim, const Query* queries, float (*scores)[kv_block_positions]) {
  constexpr int vectors = registers >= 32 ? 4 : 1;  // at once, as many as the registers hold
  for (int64_t first = 0; first < position_vectors; first += vectors) {
    Floats sums[count][vectors];
    for (int n = 0; n < count; ++n) {
      for (int i = 0; i < vectors; ++i) sums[n][i] = zero_floats();
    }
    for (int64_t d = 0; d < head_dim; ++d) {
      Floats key[vectors];
      for (int i = 0; i < vectors; ++i) key[i] = load_kv_values<type>(keys, d * kv_block_positions + (first + i) * 16);
      for (int n = 0; n < count; ++n) {
        const Floats q = all(queries[n].values[d]);
        for (int i = 0; i < vectors; ++i) sums[n][i] = fma(q, key[i], sums[n][i]);
      }
    }
    for (int n = 0; n < count; ++n) {
      for (int i = 0; i < vectors; ++i) store(scores[n] + (first + i) * 16, sums[n][i]);
    }
  }
}

// sum += weights V over positions first to end, ascending.
template <KvType type, int count>
VIGIL_INLINE void add_values(const std::byte* values, int64_t head_dim, int64_t first, int64_t end, const float (*weights)[kv_block_positions],
                             Query* queries) {
  const int64_t width = padded(head_dim);
  const auto dimensions = [&](auto vectors, int64_t d) {
    Floats sums[count][vectors.value];
    for (int n = 0; n < count; ++n) {
      for (int i = 0; i < vectors.value; ++i) sums[n][i] = load(queries[n].sum + d + 16 * i);
    }
    for (int64_t p = first; p < end; ++p) {
      Floats value[vectors.value];
      for (int i = 0; i < vectors.value; ++i) value[i] = load_kv_values<type>(values, p * width + d + 16 * i);
      for (int n = 0; n < count; ++n) {
        const Floats weight = all(weights[n][p]);
        for (int i = 0; i < vectors.value; ++i) sums[n][i] = fma(weight, value[i], sums[n][i]);
      }
    }
    for (int n = 0; n < count; ++n) {
      for (int i = 0; i < vectors.value; ++i) store(queries[n].sum + d + 16 * i, sums[n][i]);
    }
  };
  constexpr int most = registers >= 32 ? 4 : 1;
  int64_t d = 0;
  for (; d + 16 * most <= width; d += 16 * most) dimensions(std::integral_constant<int, most>{}, d);
  for (; d < width; d += 16) dimensions(std::integral_constant<int, 1>{}, d);
}

// One query's scores become weights under a running maximum (Milakov and Gimelshein 2018). A block of which it sees nothing changes nothing.
VIGIL_INLINE void weigh(float* scores, int64_t head_dim, int64_t start, float scale, Query& query) {
  constexpr float nothing = -__builtin_inff();
  for (int64_t i = 0; i < kv_block_positions; ++i) {
    const int64_t position = start + i;
    scores[i] = position >= query.oldest && position < query.end ? scores[i] * scale : nothing;
  }
  Floats most = load(scores);
  for (int64_t i = 1; i < position_vectors; ++i) most = larger(most, load(scores + 16 * i));
  const float largest = largest_of(most);
  if (!(largest > nothing) && query.end <= start) {
    for (int64_t i = 0; i < kv_block_positions; ++i) scores[i] = 0;
    return;
  }
  if (largest > query.maximum) {
    float factors[16];
    store(factors, exponential(all(query.maximum - largest)));  // 0 for the first block
    query.weight *= factors[0];
    const Floats factor = all(factors[0]);
    for (int64_t d = 0; d < padded(head_dim); d += 16) store(query.sum + d, multiply(load(query.sum + d), factor));
    query.maximum = largest;
  }
  const Floats maximum = all(query.maximum > nothing ? query.maximum : 0.0f);
  Floats sum = zero_floats();
  for (int64_t i = 0; i < position_vectors; ++i) {
    const Floats weights = exponential(subtract(load(scores + 16 * i), maximum));
    store(scores + 16 * i, weights);
    sum = add(sum, weights);
  }
  query.weight += sum_of(sum);
}

template <KvType type, int count>
void attend(const KvBlock& block, int64_t head_dim, int64_t start, float scale, Query* queries) {
  float scores[count][kv_block_positions];
  score_block<type, count>(block.keys, head_dim, queries, scores);
  int64_t first = kv_block_positions, end = 0;  // of the block, for any of the queries
  for (int n = 0; n < count; ++n) {
    weigh(scores[n], head_dim, start, scale, queries[n]);
    const int64_t low = queries[n].oldest > start ? queries[n].oldest - start : 0;
    const int64_t high = queries[n].end - start < kv_block_positions ? queries[n].end - start : kv_block_positions;
    if (high <= low) continue;
    first = low < first ? low : first;
    end = high > end ? high : end;
  }
  // What lies outside was perhaps never written, and could be anything.
  if (first < end) add_values<type, count>(block.values, head_dim, first, end, scores, queries);
}

template <KvType type>
VIGIL_INLINE void attend_type(const KvBlock& block, int64_t head_dim, int64_t start, float scale, Query* queries, int64_t count) {
  switch (count) {
    case 1: return attend<type, 1>(block, head_dim, start, scale, queries);
    case 2: return attend<type, 2>(block, head_dim, start, scale, queries);
    case 3: return attend<type, 3>(block, head_dim, start, scale, queries);
    default: return attend<type, 4>(block, head_dim, start, scale, queries);
  }
}

void attend_block(KvType type, const KvBlock& block, int64_t head_dim, int64_t start, float scale, Query* queries, int64_t count) {
  if (type == KvType::f32) attend_type<KvType::f32>(block, head_dim, start, scale, queries, count);
  else attend_type<KvType::f16>(block, head_dim, start, scale, queries, count);
}

void store_kv(KvType type, const float* key, const float* value, int64_t head_dim, int64_t place, std::byte* keys, std::byte* values) {
  const int64_t width = padded(head_dim);
  for (int64_t d = 0; d < width; d += 16) {
    const Floats k = load_some(key + d, head_dim - d), v = load_some(value + d, head_dim - d);
    const int64_t count = head_dim - d < 16 ? head_dim - d : 16;
    if (type == KvType::f32) {
      float lanes[16];
      store(lanes, k);
      for (int64_t i = 0; i < count; ++i) reinterpret_cast<float*>(keys)[(d + i) * kv_block_positions + place] = lanes[i];
      store(reinterpret_cast<float*>(values) + place * width + d, v);
    } else {
      uint16_t lanes[16];
      store_halves(lanes, k);
      for (int64_t i = 0; i < count; ++i) reinterpret_cast<uint16_t*>(keys)[(d + i) * kv_block_positions + place] = lanes[i];
      store_halves(reinterpret_cast<uint16_t*>(values) + place * width + d, v);
    }
  }
}

}  // namespace vigil::compute::cpu::VIGIL_ISA
