// Rope, the KV cache and attention. A tile is some query heads, of one or more rows, that share a KV head: each block comes from memory once for
// all of them, and the kernel takes a few of them at a time. What a query adds up does not depend on the others in its tile.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "engine/compute/cpu/fast_ops.hpp"

namespace vigil::compute::cpu {
namespace {

std::byte* part_of(const KvCache& cache, int64_t block, int64_t layer, int64_t head) {
  const KvShape& shape = cache.shape;
  return cache.address + static_cast<size_t>((block * shape.layers + layer) * shape.kv_heads + head) * shape.part_bytes();
}

}  // namespace

void FastOps::rope_and_store(const Rope& rope, Buffer angles, Buffer q, Buffer k, Buffer v, const KvCache& cache, int64_t layer, int64_t heads,
                             int64_t rows) {
  const KvShape& shape = cache.shape;
  const int64_t dim = shape.head_dim, units = heads + shape.kv_heads;
  assert(q.floats >= rows * heads * dim && k.floats >= rows * shape.kv_heads * dim && v.floats >= rows * shape.kv_heads * dim);
  share(rows * units, 1, [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) {
      const int64_t r = i / units, unit = i % units;
      const float* turn = angles.address + r * rope.rotated;
      if (unit < heads) {
        rope_head(rope.kind, turn, rope.rotated, q.address + (r * heads + unit) * dim);
        continue;
      }
      const int64_t head = unit - heads, block = block_of(cache, r, position_of(r) / kv_block_positions);
      float* key = k.address + (r * shape.kv_heads + head) * dim;
      rope_head(rope.kind, turn, rope.rotated, key);
      std::byte* part = part_of(cache, block, layer, head);
      kernels_.store_kv(shape.type, key, v.address + (r * shape.kv_heads + head) * dim, dim, position_of(r) % kv_block_positions, part,
                        part + shape.part_bytes() / 2);
    }
  });
}

struct FastOps::AttentionWork {
  Buffer q, out;
  const KvCache& cache;
  int64_t layer, heads;
  const AttentionRule& rule;
};

void FastOps::attention(Buffer q, const KvCache& cache, int64_t layer, int64_t heads, const AttentionRule& rule, Buffer out, int64_t rows) {
  const KvShape& shape = cache.shape;
  assert(q.floats >= rows * heads * shape.head_dim && out.floats >= rows * heads * shape.head_dim);
  const AttentionWork work{q, out, cache, layer, heads, rule};
  const int64_t group = heads / shape.kv_heads;
  share(threads_, 1, [&](int64_t, int64_t) {
    // Later rows see more: tiles are dealt out in turn. Query i of a sequence is head i % group of row i / group.
    int64_t piece = 0;
    for (int64_t begin = 0, end; begin < rows; begin = end) {
      for (end = begin + 1; end < rows && sequence_of(end) == sequence_of(begin);) ++end;
      // One head's tiles follow one another: what the first of them read is still in the second-level cache.
      for (int64_t head = 0; head < shape.kv_heads; ++head) {
        for (int64_t first = begin * group; first < end * group; first += queries_in_tile, ++piece) {
          if (piece % threads_ != index_) continue;
          if (aborted()) return;
          attend_tile(work, head, first, std::min(queries_in_tile, end * group - first));
        }
      }
    }
  });
}

void FastOps::attend_tile(const AttentionWork& work, int64_t kv_head, int64_t first, int64_t count) {
  const KvShape& shape = work.cache.shape;
  const int64_t dim = shape.head_dim, width = shape.head_width(), group = work.heads / shape.kv_heads;
  float* sums = floats(queries_in_tile * width + widened_floats(dim));
  float* widened = sums + queries_in_tile * width;
  Query queries[queries_in_tile];
  int64_t oldest = std::numeric_limits<int64_t>::max(), end = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = (first + i) / group, head = kv_head * group + (first + i) % group, length = seen_by(row);
    float* sum = sums + i * width;
    std::fill_n(sum, width, 0.0f);
    queries[i] = {work.q.address + (row * work.heads + head) * dim, sum, -std::numeric_limits<float>::infinity(), 0,
                  work.rule.window > 0 ? std::max<int64_t>(0, position_of(row) + 1 - work.rule.window) : 0, length};
    oldest = std::min(oldest, queries[i].oldest);
    end = std::max(end, length);
  }
  const auto part_at = [&](int64_t start) { return part_of(work.cache, block_of(work.cache, first / group, start / kv_block_positions), work.layer, kv_head); };
  int64_t start = oldest / kv_block_positions * kv_block_positions;
  for (const std::byte *part = part_at(start), *next; start < end; start += kv_block_positions, part = next) {
    next = start + kv_block_positions < end ? part_at(start + kv_block_positions) : nullptr;
    kernels_.attend_block(shape.type, {part, part + shape.part_bytes() / 2, next}, dim, start, work.rule.scale, queries, count, widened);
  }
  const float* sinks = work.rule.sinks ? row_as_floats(work.rule.sinks, 0, scratch(work.heads)) : nullptr;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = (first + i) / group, head = kv_head * group + (first + i) % group;
    const float sink = sinks != nullptr ? sinks[head] : -std::numeric_limits<float>::infinity();
    const float maximum = std::max(queries[i].maximum, sink), shrink = std::exp(queries[i].maximum - maximum);
    const float scale = shrink / (queries[i].weight * shrink + std::exp(sink - maximum));
    float* to = work.out.address + (row * work.heads + head) * dim;
    for (int64_t d = 0; d < dim; ++d) to[d] = queries[i].sum[d] * scale;
  }
}

}  // namespace vigil::compute::cpu
