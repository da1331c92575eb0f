// Rope, the KV cache, and attention, which is split by (row, KV head).
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/compute/cpu/dequantise.hpp"
#include "engine/compute/cpu/half.hpp"
#include "engine/compute/cpu/reference_ops.hpp"

namespace vigil::compute::cpu {
namespace {

std::byte* kv_part(const KvCache& cache, int64_t block, int64_t layer, int64_t head) {
  const KvShape& shape = cache.shape;
  return cache.address + static_cast<size_t>((block * shape.layers + layer) * shape.kv_heads + head) * shape.part_bytes();
}

// `count` values at one position, at `to`.
void store_kv_row(KvType type, const float* values, int64_t count, std::byte* to) {
  switch (type) {
    case KvType::f32: std::memcpy(to, values, static_cast<size_t>(count) * sizeof(float)); return;
    case KvType::f16: {
      uint16_t* halves = reinterpret_cast<uint16_t*>(to);
      for (int64_t i = 0; i < count; ++i) halves[i] = float_to_half(cut(values[i], most_in_half));
      return;
    }
    case KvType::q8_0:
      for (int64_t b = 0; b < count / 32; ++b) quantise_q8_0(values + 32 * b, to + 34 * b);
      return;
    case KvType::q4_0:
      for (int64_t b = 0; b < count / 32; ++b) quantise_q4_0(values + 32 * b, to + 18 * b);
      return;
  }
}

void load_kv_row(KvType type, const std::byte* from, int64_t count, float* to) {
  switch (type) {
    case KvType::f32: std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float)); return;
    case KvType::f16: {
      const uint16_t* halves = reinterpret_cast<const uint16_t*>(from);
      for (int64_t i = 0; i < count; ++i) to[i] = half_to_float(halves[i]);
      return;
    }
    case KvType::q8_0: dequantise_row(gguf::TensorType::q8_0, from, count, to); return;
    case KvType::q4_0: dequantise_row(gguf::TensorType::q4_0, from, count, to); return;
  }
}

}  // namespace

void ReferenceOps::rope_angles(const Rope& rope, Buffer out, int64_t rows) {
  const int64_t pairs = rope.rotated / 2;
  assert(out.floats >= rows * rope.rotated);
  each(rows, [&](int64_t r) {
    double positions[rope_axes];
    for (int64_t axis = 0; axis < rope_axes; ++axis) positions[axis] = position_of(r) + backend_.step_->shifts(axis)[static_cast<size_t>(r)];
    float* angles = out.address + r * rope.rotated;
    for (int64_t i = 0; i < pairs; ++i) {
      const double position = rope.axes == nullptr ? position_of(r) : positions[rope.axes[i]];
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
  const size_t row_bytes = shape.row_bytes();
  assert(q.floats >= rows * heads * dim && k.floats >= rows * shape.kv_heads * dim && v.floats >= rows * shape.kv_heads * dim);
  each(rows, [&](int64_t r) {
    const float* turn = angles.address + r * rope.rotated;
    for (int64_t h = 0; h < heads; ++h) rope_head(rope.kind, turn, rope.rotated, q.address + (r * heads + h) * dim);
    const int64_t block = block_of(cache, r, position_of(r) / kv_block_positions);
    const size_t place = static_cast<size_t>(position_of(r) % kv_block_positions);
    for (int64_t h = 0; h < shape.kv_heads; ++h) {
      float* key = k.address + (r * shape.kv_heads + h) * dim;
      rope_head(rope.kind, turn, rope.rotated, key);
      std::byte* part = kv_part(cache, block, layer, h);
      store_kv_row(shape.type, key, dim, part + place * row_bytes);
      store_kv_row(shape.type, v.address + (r * shape.kv_heads + h) * dim, dim, part + shape.part_bytes() / 2 + place * row_bytes);
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
  const int64_t length = seen_by(row), oldest = rule.window > 0 ? std::max<int64_t>(0, position_of(row) + 1 - rule.window) : 0;
  const int64_t first_head = row * heads + kv_head * group;
  const int64_t block_floats = kv_block_positions * dim;
  float* floats = scratch(2 * block_floats + heads);
  sums_.clear();
  for (int64_t g = 0; g < group; ++g) sums_.emplace_back(out.address + (first_head + g) * dim, dim);
  for (int64_t start = oldest / kv_block_positions * kv_block_positions; start < length; start += kv_block_positions) {
    const int64_t skipped = std::max<int64_t>(0, oldest - start);  // positions of the first block that the window has left behind
    const int64_t positions = std::min(kv_block_positions, length - start) - skipped;
    const std::byte* part = kv_part(cache, block_of(cache, row, start / kv_block_positions), layer, kv_head);
    float* keys = floats;
    float* values = floats + block_floats;
    for (int64_t p = 0; p < positions; ++p) {
      const std::byte* key = part + static_cast<size_t>(skipped + p) * shape.row_bytes();
      load_kv_row(shape.type, key, dim, keys + p * dim);
      load_kv_row(shape.type, key + shape.part_bytes() / 2, dim, values + p * dim);
    }
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
