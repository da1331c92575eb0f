// Splits each op over the team: matmul by weight rows, attention by (row, KV head), the others by rows.
#include "engine/compute/cpu/reference_backend.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "engine/compute/cpu/dequantise.hpp"
#include "engine/compute/cpu/half.hpp"
#include "engine/compute/cpu/kernels.hpp"

namespace vigil::compute::cpu {
namespace {

struct Range {
  int64_t first, end;
};

// Thread `index`'s share of `count` pieces, in whole units of `unit`.
Range share(int64_t count, int64_t unit, int index, int threads) {
  const int64_t units = (count + unit - 1) / unit;
  return {std::min(count, units * index / threads * unit), std::min(count, units * (index + 1) / threads * unit)};
}

// Floats of one row, in place when the file's bytes already are aligned floats.
const float* row_as_floats(const Weight& weight, int64_t row, float* scratch) {
  const std::byte* bytes = weight.address + static_cast<size_t>(row) * weight.row_bytes;
  if (weight.type == gguf::TensorType::f32 && reinterpret_cast<uintptr_t>(bytes) % alignof(float) == 0) {
    return reinterpret_cast<const float*>(bytes);
  }
  dequantise_row(weight.type, bytes, weight.cols, scratch);
  return scratch;
}

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

// One thread's view of the op sequence.
class ReferenceOps final : public Ops {
 public:
  ReferenceOps(ReferenceBackend& backend, int index) : backend_(backend), index_(index), threads_(backend.team_.size()) {}

  void embed(const Weight& table, Buffer out, int64_t rows) override {
    assert(out.floats >= rows * table.cols);
    split(rows, 1, [&](int64_t first, int64_t end) {
      for (int64_t r = first; r < end; ++r) {
        const int32_t id = backend_.step_->ids()[static_cast<size_t>(r)];
        const std::byte* row = table.address + static_cast<size_t>(id) * table.row_bytes;
        dequantise_row(table.type, row, table.cols, out.address + r * table.cols);
      }
    });
  }

  void rms_norm(Buffer in, const Weight& gain, float epsilon, Buffer out, int64_t rows) override {
    const int64_t cols = gain.cols;
    assert(in.floats >= rows * cols && out.floats >= rows * cols);
    split(rows, 1, [&](int64_t first, int64_t end) {
      if (first == end) return;
      const float* gains = row_as_floats(gain, 0, scratch(cols));
      for (int64_t r = first; r < end; ++r) rms_norm_row(in.address + r * cols, gains, epsilon, cols, out.address + r * cols);
    });
  }

  void matmul(const Weight& weight, Buffer in, Buffer out, int64_t rows) override {
    const int64_t cols = weight.cols;
    assert(in.floats >= rows * cols && out.floats >= rows * weight.rows);
    split(weight.rows, tile_rows_max, [&](int64_t first, int64_t end) {
      float* tile = scratch(tile_rows_max * cols);
      for (int64_t w = first; w < end; w += tile_rows_max) {
        if (aborted()) return;
        const int64_t tile_rows = std::min(tile_rows_max, end - w);
        const float* weights = row_as_floats(weight, w, tile);
        if (weights == tile) {
          for (int64_t r = 1; r < tile_rows; ++r) row_as_floats(weight, w + r, tile + r * cols);
        }
        dot_tile(weights, tile_rows, in.address, rows, cols, out.address + w, weight.rows);
      }
    });
  }

  void rope_angles(const Rope& rope, Buffer out, int64_t rows) override {
    const int64_t pairs = rope.rotated / 2;
    assert(out.floats >= rows * rope.rotated);
    split(rows, 1, [&](int64_t first, int64_t end) {
      for (int64_t r = first; r < end; ++r) {
        const double position = backend_.step_->positions()[static_cast<size_t>(r)];
        float* angles = out.address + r * rope.rotated;
        for (int64_t i = 0; i < pairs; ++i) {
          const double angle = position * rope.frequencies[i];  // in double: a float angle is off by 1e-3 at position 30,000
          angles[2 * i] = static_cast<float>(std::cos(angle));
          angles[2 * i + 1] = static_cast<float>(std::sin(angle));
        }
      }
    });
  }

  void rope_and_store(const Rope& rope, Buffer angles, Buffer q, Buffer k, Buffer v, const KvCache& cache, int64_t layer, int64_t heads,
                      int64_t rows) override {
    const KvShape& shape = cache.shape;
    const int64_t dim = shape.head_dim;
    const size_t row_bytes = static_cast<size_t>(dim) * element_bytes(shape.type);
    assert(q.floats >= rows * heads * dim && k.floats >= rows * shape.kv_heads * dim && v.floats >= rows * shape.kv_heads * dim);
    split(rows, 1, [&](int64_t first, int64_t end) {
      for (int64_t r = first; r < end; ++r) {
        const float* turn = angles.address + r * rope.rotated;
        for (int64_t h = 0; h < heads; ++h) rope_head(rope.kind, turn, rope.rotated, q.address + (r * heads + h) * dim);
        const int64_t position = backend_.step_->positions()[static_cast<size_t>(r)];
        const int64_t block = block_of(r, position / kv_block_positions);
        const size_t place = static_cast<size_t>(position % kv_block_positions);
        for (int64_t h = 0; h < shape.kv_heads; ++h) {
          float* key = k.address + (r * shape.kv_heads + h) * dim;
          rope_head(rope.kind, turn, rope.rotated, key);
          std::byte* part = kv_part(cache, block, layer, h);
          store_kv(shape.type, key, dim, part + place * row_bytes);
          store_kv(shape.type, v.address + (r * shape.kv_heads + h) * dim, dim, part + shape.part_bytes() / 2 + place * row_bytes);
        }
      }
    });
  }

  void attention(Buffer q, const KvCache& cache, int64_t layer, int64_t heads, float scale, Buffer out, int64_t rows) override {
    const KvShape& shape = cache.shape;
    assert(q.floats >= rows * heads * shape.head_dim && out.floats >= rows * heads * shape.head_dim);
    split(rows * shape.kv_heads, 1, [&](int64_t first, int64_t end) {
      for (int64_t piece = first; piece < end; ++piece) {
        if (aborted()) return;
        attend(q, cache, layer, heads, scale, out, piece / shape.kv_heads, piece % shape.kv_heads);
      }
    });
  }

  void swiglu(Buffer gate, Buffer up, int64_t cols, int64_t rows) override {
    assert(gate.floats >= rows * cols && up.floats >= rows * cols);
    split(rows * cols, 16, [&](int64_t first, int64_t end) { swiglu_row(gate.address + first, up.address + first, end - first); });
  }

  void add(Buffer into, Buffer from, int64_t cols, int64_t rows) override {
    assert(into.floats >= rows * cols && from.floats >= rows * cols);
    split(rows * cols, 16, [&](int64_t first, int64_t end) {
      for (int64_t i = first; i < end; ++i) into.address[i] += from.address[i];
    });
  }

  void select_outputs(Buffer in, Buffer out, int64_t cols, int64_t outputs) override {
    assert(out.floats >= outputs * cols);
    split(outputs, 1, [&](int64_t first, int64_t end) {
      for (int64_t o = first; o < end; ++o) {
        const int64_t row = backend_.step_->outputs()[static_cast<size_t>(o)];
        assert(in.floats >= (row + 1) * cols);
        std::copy_n(in.address + row * cols, cols, out.address + o * cols);
      }
    });
  }

 private:
  // Every op goes through here: the abort flag on entry, this thread's share, the barrier, and one step counted. An aborted op still meets
  // the barrier, since another thread may not have seen the flag yet.
  template <typename Work>
  void split(int64_t count, int64_t unit, Work&& work) {
    if (!aborted()) {
      const Range range = share(count, unit, index_, threads_);
      work(range.first, range.end);
    }
    backend_.team_.barrier();
    if (index_ == 0) backend_.control_.steps.fetch_add(1, std::memory_order_relaxed);
  }

  bool aborted() {
    if (!backend_.control_.abort.load(std::memory_order_relaxed)) return false;
    backend_.saw_abort_.store(true, std::memory_order_relaxed);
    return true;
  }

  float* scratch(int64_t floats) {
    std::vector<float>& mine = backend_.scratch_[static_cast<size_t>(index_)];
    if (mine.size() < static_cast<size_t>(floats)) mine.resize(static_cast<size_t>(floats));
    return mine.data();
  }

  int64_t block_of(int64_t row, int64_t block_index) {
    const int32_t sequence = backend_.step_->sequences()[static_cast<size_t>(row)];
    return backend_.step_->blocks(sequence)[static_cast<size_t>(block_index)];
  }

  // One row and one KV head: all query heads that share it take each block while it is at hand.
  void attend(Buffer q, const KvCache& cache, int64_t layer, int64_t heads, float scale, Buffer out, int64_t row, int64_t kv_head) {
    const KvShape& shape = cache.shape;
    const int64_t dim = shape.head_dim, group = heads / shape.kv_heads;
    const int64_t length = backend_.step_->positions()[static_cast<size_t>(row)] + 1;
    const int64_t first_head = row * heads + kv_head * group;
    float* block_floats = scratch(2 * kv_block_positions * dim);
    sums_.clear();
    for (int64_t g = 0; g < group; ++g) sums_.emplace_back(out.address + (first_head + g) * dim, dim);
    for (int64_t start = 0; start < length; start += kv_block_positions) {
      const int64_t positions = std::min(kv_block_positions, length - start);
      const std::byte* part = kv_part(cache, block_of(row, start / kv_block_positions), layer, kv_head);
      const float* keys = load_kv(shape.type, part, positions * dim, block_floats);
      const float* values = load_kv(shape.type, part + shape.part_bytes() / 2, positions * dim, block_floats + kv_block_positions * dim);
      for (int64_t g = 0; g < group; ++g) {
        sums_[static_cast<size_t>(g)].add_block(q.address + (first_head + g) * dim, keys, values, positions, scale);
      }
    }
    for (AttentionSum& sum : sums_) sum.finish();
  }

  ReferenceBackend& backend_;
  const int index_, threads_;
  std::vector<AttentionSum> sums_;
};

ReferenceBackend::ReferenceBackend(int threads) : team_(threads), scratch_(static_cast<size_t>(threads)) {}
ReferenceBackend::~ReferenceBackend() = default;

void ReferenceBackend::Freed::operator()(std::byte* memory) const { std::free(memory); }

Result<Weight> ReferenceBackend::bind(std::string_view tensor_name, gguf::TensorType type, int64_t rows, int64_t cols,
                                      std::span<const std::byte> bytes) {
  const auto info = gguf::type_info(type);
  const std::string name(tensor_name);
  if (!info || !can_dequantise(type)) {
    return Error{"tensor '" + name + "' has type " + (info ? std::string(info->name) : "unknown") +
                 ", in which no weights can be kept"};
  }
  if (rows < 1 || cols < 1 || cols % info->block_elements != 0) {
    return Error{"tensor '" + name + "': a row of " + std::to_string(cols) + " is no whole number of " + std::string(info->name) + " blocks"};
  }
  const size_t row_bytes = static_cast<size_t>(cols / info->block_elements) * info->block_bytes;
  if (bytes.size() / row_bytes < static_cast<size_t>(rows)) return Error{"tensor '" + name + "': its data is shorter than its shape"};
  return Weight{type, rows, cols, row_bytes, bytes.data()};
}

Rope ReferenceBackend::bind_rope(RopeKind kind, std::span<const double> frequencies) {
  rope_tables_.emplace_back(frequencies.begin(), frequencies.end());
  return Rope{kind, static_cast<int64_t>(2 * frequencies.size()), rope_tables_.back().data()};
}

Result<std::byte*> ReferenceBackend::take(uint64_t bytes) {
  constexpr uint64_t alignment = 64;
  std::byte* memory = static_cast<std::byte*>(std::aligned_alloc(alignment, (bytes / alignment + 1) * alignment));
  if (memory == nullptr) return Error{"no memory: " + std::to_string(bytes) + " bytes were asked for"};
  memory_.emplace_back(memory);
  return memory;
}

Result<Buffer> ReferenceBackend::allocate(int64_t floats) {
  Result<std::byte*> memory = take(static_cast<uint64_t>(floats) * sizeof(float));
  if (!memory) return Error{memory.error()};
  return Buffer{reinterpret_cast<float*>(*memory), floats};
}

Result<KvCache> ReferenceBackend::allocate_kv(const KvShape& shape) {
  Result<std::byte*> memory = take(shape.bytes());
  if (!memory) return Error{"KV cache: " + memory.error()};
  return KvCache{shape, *memory};
}

RunOutcome ReferenceBackend::run(const std::function<void(Ops&)>& forward) {
  saw_abort_.store(false, std::memory_order_relaxed);
  team_.run([&](int index) {
    ReferenceOps ops(*this, index);
    forward(ops);
  });
  return saw_abort_.load(std::memory_order_relaxed) ? RunOutcome::aborted : RunOutcome::finished;
}

void ReferenceBackend::read(Buffer from, int64_t offset, std::span<float> out) {
  assert(offset + static_cast<int64_t>(out.size()) <= from.floats);
  std::copy_n(from.address + offset, out.size(), out.begin());
}

}  // namespace vigil::compute::cpu
