// Rope, the KV cache, and attention, which is split by (row, KV head).
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/compute/cpu/half.hpp"
#include "engine/compute/cpu/reference_ops.hpp"

namespace vigil::compute::cpu {
namespace {

std::byte* kv_part(const KvCache& cache, int64_t block, int64_t layer, int64_t head) {
  const KvShape& shape = cache.shape;
  return cache.address + static_cast<size_t>((block * shape.layers + layer) * shape.kv_heads + head) * shape.part_bytes();
}

void store_kv(KvType type, const float* values, int64_t count, std::byte* to) {
  if (type == KvType::f32) {
    std::memcpy(to, values, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  uint16_t* halves = reinterpret_cast<uint16_t*>(to);
  for (int64_t i = 0; i < count; ++i) halves[i] = float_to_half(values[i]);
}

const float* load_kv(KvType type, const std::byte* from, int64_t count, float* scratch) {
  if (type == KvType::f32) return reinterpret_cast<const float*>(from);
  const uint16_t* halves = reinterpret_cast<const uint16_t*>(from);
  for (int64_t i = 0; i < count; ++i) scratch[i] = half_to_float(halves[i]);
  return scratch;
}

}  // namespace

void ReferenceOps::rope_angles(const Rope& rope, Buffer out, int64_t rows) {
  const int64_t pairs = rope.rotated / 2;
  assert(out.floats >= rows * rope.rotated);
  each(rows, [&](int64_t r) {
    const double position = position_of(r);
    float* angles = out.address + r * rope.rotated;
    for (int64_t i = 0; i < pairs; ++i) {
      const double angle = position * rope.frequencies[i];  // in double: a float angle is off by 1e-3 at position 30,000
      angles[2 * i] = static_cast<float>(std::cos(angle) * rope.magnitude);
      angles[2 * i + 1] = static_cast<float>(std::sin(angle) * rope.magnitude);
    }
  });
}

void ReferenceOps::rope_and_store(const Rope& rope, Buffer angles, Buffer q, Buffer k, Buffer v, const KvCache& cache, int64_t layer,
                                  int64_t heads, int64_t rows) {
  const KvShape& shape = cache.shape;
  const int64_t dim = shape.head_dim;
  const size_t row_bytes = static_cast<size_t>(dim) * element_bytes(shape.type);
  assert(q.floats >= rows * heads * dim && k.floats >= rows * shape.kv_heads * dim && v.floats >= rows * shape.kv_heads * dim);
  each(rows, [&](int64_t r) {
    const float* turn = angles.address + r * rope.rotated;
    for (int64_t h = 0; h < heads; ++h) rope_head(rope.kind, turn, rope.rotated, q.address + (r * heads + h) * dim);
    const int64_t block = block_of(r, position_of(r) / kv_block_positions);
    const size_t place = static_cast<size_t>(position_of(r) % kv_block_positions);
    for (int64_t h = 0; h < shape.kv_heads; ++h) {
      float* key = k.address + (r * shape.kv_heads + h) * dim;
      rope_head(rope.kind, turn, rope.rotated, key);
      std::byte* part = kv_part(cache, block, layer, h);
      store_kv(shape.type, key, dim, part + place * row_bytes);
      store_kv(shape.type, v.address + (r * shape.kv_heads + h) * dim, dim, part + shape.part_bytes() / 2 + place * row_bytes);
    }
  });
}

void ReferenceOps::attention(Buffer q, const KvCache& cache, int64_t layer, int64_t heads, const AttentionRule& rule, Buffer out,
                             int64_t rows) {
  const KvShape& shape = cache.shape;
  assert(q.floats >= rows * heads * shape.head_dim && out.floats >= rows * heads * shape.head_dim);
  share(rows * shape.kv_heads, 1, [&](int64_t first, int64_t end) {
    for (int64_t piece = first; piece < end; ++piece) {
      if (aborted()) return;
      attend(q, cache, layer, heads, rule, out, piece / shape.kv_heads, piece % shape.kv_heads);
    }
  });
}

void ReferenceOps::attend(Buffer q, const KvCache& cache, int64_t layer, int64_t heads, const AttentionRule& rule, Buffer out, int64_t row,
                          int64_t kv_head) {
  const KvShape& shape = cache.shape;
  const int64_t dim = shape.head_dim, group = heads / shape.kv_heads;
  const int64_t length = position_of(row) + 1, oldest = rule.window > 0 ? std::max<int64_t>(0, length - rule.window) : 0;
  const int64_t first_head = row * heads + kv_head * group;
  const int64_t block_floats = kv_block_positions * dim;
  float* floats = scratch(2 * block_floats + heads);
  sums_.clear();
  for (int64_t g = 0; g < group; ++g) sums_.emplace_back(out.address + (first_head + g) * dim, dim);
  for (int64_t start = oldest / kv_block_positions * kv_block_positions; start < length; start += kv_block_positions) {
    const int64_t skipped = std::max<int64_t>(0, oldest - start);  // positions of the first block that the window has left behind
    const int64_t positions = std::min(kv_block_positions, length - start) - skipped;
    const std::byte* part = kv_part(cache, block_of(row, start / kv_block_positions), layer, kv_head);
    const std::byte* first = part + static_cast<size_t>(skipped * dim) * element_bytes(shape.type);
    const float* keys = load_kv(shape.type, first, positions * dim, floats);
    const float* values = load_kv(shape.type, first + shape.part_bytes() / 2, positions * dim, floats + block_floats);
    for (int64_t g = 0; g < group; ++g) {
      sums_[static_cast<size_t>(g)].add_block(q.address + (first_head + g) * dim, keys, values, positions, rule.scale);
    }
  }
  const float* sinks = rule.sinks ? row_as_floats(rule.sinks, 0, floats + 2 * block_floats) : nullptr;
  for (int64_t g = 0; g < group; ++g) {
    sums_[static_cast<size_t>(g)].finish(sinks ? sinks[kv_head * group + g] : -std::numeric_limits<float>::infinity());
  }
}

}  // namespace vigil::compute::cpu
