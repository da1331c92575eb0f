// Attention of query heads that share a KV head over one KV block of 64 positions, and writing into a block. Included by the kernel files alone.
#pragma once

#include "engine/compute/cpu/fast_kernels.hpp"
#include "engine/compute/cpu/simd.hpp"

namespace vigil::compute::cpu::VIGIL_ISA {

inline constexpr int64_t position_vectors = kv_block_positions / 16;

VIGIL_INLINE int64_t padded(int64_t head_dim) { return (head_dim + 15) / 16 * 16; }

constexpr bool scaled(KvType type) { return type == KvType::q8_0 || type == KvType::q4_0; }

VIGIL_INLINE const uint16_t* half_words(const std::byte* from) { return reinterpret_cast<const uint16_t*>(from); }

VIGIL_INLINE Floats nibble_values(const uint8_t* from, bool high) {
  const Ints both = load_bytes_unsigned(from);
  return to_floats(subtract(high ? shift_right<4>(both) : bit_and(both, all(int32_t{15})), all(int32_t{8})));
}

// Dimension d of positions 16 i to 16 i + 15, before the scale.
template <KvType type>
VIGIL_INLINE Floats load_key(const std::byte* keys, int64_t head_dim, int64_t d, int64_t i) {
  const std::byte* codes = keys + head_dim / 32 * kv_block_positions * 2;
  if constexpr (type == KvType::f32) return load(reinterpret_cast<const float*>(keys) + d * kv_block_positions + 16 * i);
  else if constexpr (type == KvType::f16) return load_halves(half_words(keys) + d * kv_block_positions + 16 * i);
  else if constexpr (type == KvType::q8_0) return to_floats(load_bytes_signed(reinterpret_cast<const uint8_t*>(codes) + d * kv_block_positions + 16 * i));
  else return nibble_values(reinterpret_cast<const uint8_t*>(codes) + (d / 32 * 16 + d % 16) * kv_block_positions + 16 * i, d % 32 >= 16);
}

// Dimensions d to d + 15 of position p, before the scale.
template <KvType type>
VIGIL_INLINE Floats load_value(const std::byte* values, int64_t head_dim, int64_t p, int64_t d) {
  const std::byte* codes = values + head_dim / 32 * kv_block_positions * 2;
  if constexpr (type == KvType::f32) return load(reinterpret_cast<const float*>(values) + p * padded(head_dim) + d);
  else if constexpr (type == KvType::f16) return load_halves(half_words(values) + p * padded(head_dim) + d);
  else if constexpr (type == KvType::q8_0) return to_floats(load_bytes_signed(reinterpret_cast<const uint8_t*>(codes) + p * head_dim + d));
  else return nibble_values(reinterpret_cast<const uint8_t*>(codes) + (p * (head_dim / 32) + d / 32) * 16, d % 32 >= 16);
}

// The block that comes next lies elsewhere in memory, where the processor does not look ahead by itself: it is asked for while this one's
// scores are made, `piece` bytes for each dimension.
struct NextBlock {
  const std::byte* at;
  const std::byte* end;
  int64_t piece;
};
VIGIL_INLINE void ask_for(NextBlock& next) {
  for (const std::byte* const stop = next.end - next.at < next.piece ? next.end : next.at + next.piece; next.at < stop; next.at += 64) {
    __builtin_prefetch(next.at, 0, 2);
  }
}

template <KvType type>
inline constexpr int scored_at_once = registers < 32 ? 1 : scaled(type) ? 2 : 4;  // sixteens of positions, as many as the registers hold

// scores[n][64] = q K, the dimensions in ascending order; quantised types are scaled after each 32.
template <KvType type, int count>
VIGIL_INLINE void score_block(const std::byte* keys, int64_t head_dim, const Query* queries, float (*scores)[kv_block_positions], NextBlock& next) {
  constexpr int vectors = scored_at_once<type>;
  for (int64_t first = 0; first < position_vectors; first += vectors) {
    Floats sums[count][vectors], part[count][vectors];
    for (int n = 0; n < count; ++n) {
      for (int i = 0; i < vectors; ++i) sums[n][i] = part[n][i] = zero_floats();
    }
    for (int64_t d = 0; d < head_dim; ++d) {
      ask_for(next);
      auto& into = scaled(type) ? part : sums;
      Floats key[vectors];
      for (int i = 0; i < vectors; ++i) key[i] = load_key<type>(keys, head_dim, d, first + i);
      for (int n = 0; n < count; ++n) {
        const Floats q = all(queries[n].values[d]);
        for (int i = 0; i < vectors; ++i) into[n][i] = fma(q, key[i], into[n][i]);
      }
      if (!scaled(type) || d % 32 != 31) continue;
      for (int i = 0; i < vectors; ++i) {
        const Floats scale = load_halves(half_words(keys) + d / 32 * kv_block_positions + 16 * (first + i));
        for (int n = 0; n < count; ++n) {
          sums[n][i] = fma(part[n][i], scale, sums[n][i]);
          part[n][i] = zero_floats();
        }
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
  const auto dimensions = [&](auto vectors, int64_t d) {
    Floats sums[count][vectors.value];
    for (int n = 0; n < count; ++n) {
      for (int i = 0; i < vectors.value; ++i) sums[n][i] = load(queries[n].sum + d + 16 * i);
    }
    for (int64_t p = first; p < end; ++p) {
      Floats value[vectors.value];
      for (int i = 0; i < vectors.value; ++i) {
        value[i] = load_value<type>(values, head_dim, p, d + 16 * i);
        if constexpr (scaled(type)) value[i] = multiply(value[i], all(_cvtsh_ss(half_words(values)[p * (head_dim / 32) + (d + 16 * i) / 32])));
      }
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
  const int64_t width = padded(head_dim);
  int64_t d = 0;
  for (; d + 16 * most <= width; d += 16 * most) dimensions(std::integral_constant<int, most>{}, d);
  for (; d < width; d += 16) dimensions(std::integral_constant<int, 1>{}, d);
}

// One query's scores become weights under a running maximum (Milakov and Gimelshein 2018). A block of which it sees nothing changes nothing.
VIGIL_INLINE void weigh(float* scores, int64_t head_dim, int64_t start, float scale, Query& query) {
  constexpr float nothing = -__builtin_inff();
  if (query.oldest <= start && query.end >= start + kv_block_positions) {  // all of it, as nearly always
    for (int64_t i = 0; i < kv_block_positions; i += 16) store(scores + i, multiply(load(scores + i), all(scale)));
  } else {
    for (int64_t i = 0; i < kv_block_positions; ++i) {
      const int64_t position = start + i;
      scores[i] = position >= query.oldest && position < query.end ? scores[i] * scale : nothing;
    }
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

// Queries of which none sees anything of the block are left alone.
VIGIL_INLINE bool sees(const Query& query, int64_t start) { return query.end > start && query.oldest < start + kv_block_positions; }

inline constexpr int queries_at_once = registers >= 32 ? 6 : 4;

// From so many queries on, half-precision values are made floats once for all of them.
inline constexpr int64_t widened_from = 3 * queries_at_once;

template <KvType type>
VIGIL_INLINE void score_all(const std::byte* keys, int64_t head_dim, const Query* queries, int64_t count, float (*scores)[kv_block_positions],
                            const std::byte* next_from, int64_t next_bytes) {
  const int64_t passes = (count + queries_at_once - 1) / queries_at_once * (position_vectors / scored_at_once<type>);
  NextBlock next{next_from, next_from + next_bytes, (next_bytes / 64 + passes * head_dim - 1) / (passes * head_dim) * 64};
  in_tiles<queries_at_once>(count, [&](auto size, int64_t first) { score_block<type, size.value>(keys, head_dim, queries + first, scores + first, next); });
}

template <KvType type>
VIGIL_INLINE void add_all(const std::byte* values, int64_t head_dim, int64_t start, const float (*scores)[kv_block_positions], Query* queries, int64_t count) {
  in_tiles<queries_at_once>(count, [&](auto size, int64_t begin) {
    int64_t first = kv_block_positions, end = 0;  // of the block, for any of these queries
    for (int64_t n = begin; n < begin + size.value; ++n) {
      const int64_t low = queries[n].oldest > start ? queries[n].oldest - start : 0;
      const int64_t high = queries[n].end - start < kv_block_positions ? queries[n].end - start : kv_block_positions;
      if (high <= low) continue;
      first = low < first ? low : first;
      end = high > end ? high : end;
    }
    // What lies outside was perhaps never written, and could be anything.
    if (first < end) add_values<type, size.value>(values, head_dim, first, end, scores + begin, queries + begin);
  });
}

VIGIL_INLINE const std::byte* widen(const std::byte* halves, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += 16) store(to + i, load_halves(half_words(halves) + i));
  return reinterpret_cast<const std::byte*>(to);
}

// All scores first, then all sums: K and then V, widened into the same place, stay in the first-level cache while the queries pass over them.
template <KvType type>
void attend(const KvBlock& block, int64_t head_dim, int64_t start, float scale, Query* queries, int64_t count, float* widened) {
  constexpr KvType wide = type == KvType::f16 ? KvType::f32 : type;
  const bool widens = type != wide && count >= widened_from;
  float scores[queries_in_tile][kv_block_positions];
  const int64_t next_bytes = block.next != nullptr ? 2 * (block.values - block.keys) : 0;
  if (widens) score_all<wide>(widen(block.keys, head_dim * kv_block_positions, widened), head_dim, queries, count, scores, block.next, next_bytes);
  else score_all<type>(block.keys, head_dim, queries, count, scores, block.next, next_bytes);
  for (int64_t n = 0; n < count; ++n) weigh(scores[n], head_dim, start, scale, queries[n]);
  if (widens) add_all<wide>(widen(block.values, kv_block_positions * padded(head_dim), widened), head_dim, start, scores, queries, count);
  else add_all<type>(block.values, head_dim, start, scores, queries, count);
}

void attend_block(KvType type, const KvBlock& block, int64_t head_dim, int64_t start, float scale, Query* queries, int64_t count, float* widened) {
  while (count > 0 && !sees(queries[0], start)) ++queries, --count;
  while (count > 0 && !sees(queries[count - 1], start)) --count;
  if (count == 0) return;
  switch (type) {
    case KvType::f16: return attend<KvType::f16>(block, head_dim, start, scale, queries, count, widened);
    case KvType::f32: return attend<KvType::f32>(block, head_dim, start, scale, queries, count, widened);
    case KvType::q8_0: return attend<KvType::q8_0>(block, head_dim, start, scale, queries, count, widened);
    case KvType::q4_0: return attend<KvType::q4_0>(block, head_dim, start, scale, queries, count, widened);
  }
}

// Half-precision or float values of K go `kv_block_positions` apart.
template <typename Value>
VIGIL_INLINE void store_key(const Value* lanes, int64_t count, Value* to) {
  for (int64_t i = 0; i < count; ++i) to[i * kv_block_positions] = lanes[i];
}

// As cut() in kernels.hpp: of two operands these instructions take the second one where one is no number.
Floats cut_to_halves(Floats values) { return larger(all(-most_in_half), smaller(all(most_in_half), values)); }

void store_floats(KvType type, const float* key, const float* value, int64_t head_dim, int64_t place, std::byte* keys, std::byte* values) {
  const int64_t width = padded(head_dim);
  for (int64_t d = 0; d < width; d += 16) {
    const Floats k = load_some(key + d, head_dim - d), v = load_some(value + d, head_dim - d);
    const int64_t count = head_dim - d < 16 ? head_dim - d : 16;
    if (type == KvType::f32) {
      float lanes[16];
      store(lanes, k);
      store_key(lanes, count, reinterpret_cast<float*>(keys) + d * kv_block_positions + place);
      store(reinterpret_cast<float*>(values) + place * width + d, v);
    } else {
      uint16_t lanes[16];
      store_halves(lanes, cut_to_halves(k));
      store_key(lanes, count, reinterpret_cast<uint16_t*>(keys) + d * kv_block_positions + place);
      store_halves(reinterpret_cast<uint16_t*>(values) + place * width + d, cut_to_halves(v));
    }
  }
}

// Blocks of 32 as the weight types have them: two bytes of scale, then the codes.
void store_quantised(KvType type, const float* key, const float* value, int64_t head_dim, int64_t place, std::byte* keys, std::byte* values) {
  const int64_t blocks = head_dim / 32, bytes = type == KvType::q8_0 ? 32 : 16;
  std::byte* key_codes = keys + blocks * kv_block_positions * 2;
  std::byte* value_codes = values + blocks * kv_block_positions * 2;
  for (int64_t b = 0; b < blocks; ++b) {
    std::byte block[34];
    const auto quantise = [&](const float* from) {
      if (type == KvType::q8_0) quantise_q8_0(from, block);
      else quantise_q4_0(from, block);
    };
    quantise(key + 32 * b);
    __builtin_memcpy(keys + (b * kv_block_positions + place) * 2, block, 2);
    for (int64_t i = 0; i < bytes; ++i) key_codes[(b * bytes + i) * kv_block_positions + place] = block[2 + i];
    quantise(value + 32 * b);
    __builtin_memcpy(values + (place * blocks + b) * 2, block, 2);
    __builtin_memcpy(value_codes + (place * blocks + b) * bytes, block + 2, static_cast<size_t>(bytes));
  }
}

void store_kv(KvType type, const float* key, const float* value, int64_t head_dim, int64_t place, std::byte* keys, std::byte* values) {
  if (scaled(type)) store_quantised(type, key, value, head_dim, place, keys, values);
  else store_floats(type, key, value, head_dim, place, keys, values);
}

}  // namespace vigil::compute::cpu::VIGIL_ISA
