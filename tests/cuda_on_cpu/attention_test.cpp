// Rope, the KV cache and both forms of attention against double precision: several sequences in a step, scattered blocks, windows, sinks, pictures
// that see ahead, every number type; and a row's bits are the same in any step.
#include <catch2/catch.hpp>

#include <cstring>
#include <limits>
#include <numeric>
#include <optional>

#include "engine/compute/cpu/kernels.hpp"
#include "engine/compute/cuda/op_kernels.hpp"
#include "op_support.hpp"

using namespace vigil::compute;

namespace {

struct Heads {
  int64_t heads, kv_heads, dim, rotated;
};

struct Place {
  int64_t sequence, position, ahead;
};

// Two sequences whose K and V are in a cache, and queries of some of their positions.
class Scene {
 public:
  // `last_values`: what the values of each sequence's last position are multiplied by.
  Scene(const Heads& heads, KvType type, RopeKind kind, const std::vector<int64_t>& lengths, float last_values = 1)
      : heads_(heads), shape_{type, 2, heads.kv_heads, heads.dim, 0}, kind_(kind), lengths_(lengths) {
    const int64_t blocks = (*std::max_element(lengths.begin(), lengths.end()) + kv_block_positions - 1) / kv_block_positions;
    limits_ = {0, 1, static_cast<int64_t>(lengths.size()), blocks};
    shape_.blocks = blocks * limits_.sequences;
    for (int64_t i = 0; i < heads.rotated / 2; ++i) frequencies_.push_back(std::pow(100.0, -2.0 * static_cast<double>(i) / static_cast<double>(heads.rotated)));
    cache_memory_.emplace(shape_.bytes());
    frequency_memory_.emplace(frequencies_);
    for (size_t s = 0; s < lengths.size(); ++s) {
      keys_.push_back(random_floats(lengths[s] * heads.kv_heads * heads.dim, 100 + s));
      values_.push_back(random_floats(lengths[s] * heads.kv_heads * heads.dim, 200 + s));
      for (auto last = values_.back().end() - heads.kv_heads * heads.dim; last != values_.back().end(); ++last) *last *= last_values;
      queries_.push_back(random_floats(lengths[s] * heads.heads * heads.dim, 300 + s));
    }
    store();
  }

  // What attention gives for the rows, [rows, heads, dim]; `partials` 0 leaves only the form for many rows.
  Floats attend(const std::vector<Place>& rows, int64_t window, const Floats& sinks, int64_t partials) const {
    Floats q;
    for (const Place& row : rows) {
      const auto first = turned_queries_[static_cast<size_t>(row.sequence)].begin() + row.position * heads_.heads * heads_.dim;
      q.insert(q.end(), first, first + heads_.heads * heads_.dim);
    }
    return attend_queries(q, rows, 0.3f, window, sinks, partials);
  }
  Floats attend_queries(const Floats& q, const std::vector<Place>& rows, float scale, int64_t window = 0, const Floats& sinks = {}, int64_t partials = 0) const {
    const int64_t count = static_cast<int64_t>(rows.size());
    StepData step = step_of(rows);
    const DeviceStep on_device(step);
    const DeviceArray<float> queries(q), out(q.size()), scratch(static_cast<size_t>(std::max<int64_t>(1, partials)));
    std::optional<DeviceArray<float>> sink_memory;
    if (!sinks.empty()) sink_memory.emplace(sinks);
    cuda::attention(nullptr, on_device.view(), queries.get(), cache(), layer, heads_.heads, scale, window, sink_memory ? sink_memory->get() : nullptr,
                    scratch.get(), partials, out.get(), count);
    return out.to_host();
  }

  Doubles expected(const std::vector<Place>& rows, int64_t window, const Floats& sinks) const {
    Doubles all;
    const int64_t group = heads_.heads / heads_.kv_heads, dim = heads_.dim;
    for (const Place& row : rows) {
      const size_t s = static_cast<size_t>(row.sequence);
      for (int64_t h = 0; h < heads_.heads; ++h) {
        const Doubles q = turned(queries_[s], (row.position * heads_.heads + h) * dim, row.position);
        double sum = sinks.empty() ? 0 : std::exp(at(sinks, h));
        Doubles out(static_cast<size_t>(dim));
        for (int64_t p = window == 0 ? 0 : std::max<int64_t>(0, row.position + 1 - window); p <= row.position + row.ahead; ++p) {
          const int64_t place = (p * heads_.kv_heads + h / group) * dim;
          const Doubles k = turned(keys_[s], place, p);
          const double part = std::exp(0.3 * std::inner_product(q.begin(), q.end(), k.begin(), 0.0));
          sum += part;
          for (int64_t i = 0; i < dim; ++i) out[static_cast<size_t>(i)] += part * at(values_[s], place + i);
        }
        for (double& value : out) all.push_back(value / sum);
      }
    }
    return all;
  }

  int64_t partial_floats(int64_t rows) const { return cuda::attention_partial_floats(rows, heads_.heads, heads_.dim, limits_.blocks_per_sequence); }

 private:
  static constexpr int64_t layer = 1;

  KvCache cache() const { return {shape_, reinterpret_cast<std::byte*>(cache_memory_->get())}; }

  StepData step_of(const std::vector<Place>& rows) const {
    StepLimits limits = limits_;
    limits.rows = static_cast<int64_t>(rows.size());
    StepData step(limits);
    for (size_t r = 0; r < rows.size(); ++r) {
      step.positions()[r] = static_cast<int32_t>(rows[r].position);
      step.sequences()[r] = static_cast<int32_t>(rows[r].sequence);
      step.ahead()[r] = static_cast<int32_t>(rows[r].ahead);
    }
    for (int64_t s = 0; s < limits.sequences; ++s) {
      for (int64_t b = 0; b < limits.blocks_per_sequence; ++b) {  // scattered, the last block first
        step.blocks(s)[static_cast<size_t>(b)] = static_cast<int32_t>((limits.blocks_per_sequence - 1 - b) * limits.sequences + s);
      }
    }
    return step;
  }

  // All positions of all sequences through rope into the cache, and the turned queries back.
  void store() {
    std::vector<Place> rows;
    Floats q, k, v;
    for (size_t s = 0; s < lengths_.size(); ++s) {
      for (int64_t p = 0; p < lengths_[s]; ++p) rows.push_back({static_cast<int64_t>(s), p, 0});
      q.insert(q.end(), queries_[s].begin(), queries_[s].end());
      k.insert(k.end(), keys_[s].begin(), keys_[s].end());
      v.insert(v.end(), values_[s].begin(), values_[s].end());
    }
    StepData step = step_of(rows);
    const DeviceStep on_device(step);
    const int64_t count = static_cast<int64_t>(rows.size());
    const DeviceArray<float> queries(q), keys(k), values(v), angles(static_cast<size_t>(std::max<int64_t>(1, count * heads_.rotated)));
    Rope rope{kind_, heads_.rotated, frequency_memory_->get(), 1.25};
    cuda::rope_angles(nullptr, on_device.view(), rope, angles.get(), count);
    cuda::rope_and_store(nullptr, on_device.view(), rope, angles.get(), queries.get(), keys.get(), values.get(), cache(), layer, heads_.heads, count);
    const Floats back = queries.to_host();
    auto from = back.begin();
    for (const Floats& part : queries_) {
      turned_queries_.emplace_back(from, from + static_cast<std::ptrdiff_t>(part.size()));
      from += static_cast<std::ptrdiff_t>(part.size());
    }
  }

  Doubles turned(const Floats& values, int64_t start, int64_t position) const {
    Doubles head(values.begin() + start, values.begin() + start + heads_.dim);
    const int64_t pairs = heads_.rotated / 2;
    for (int64_t i = 0; i < pairs; ++i) {
      const size_t first = static_cast<size_t>(kind_ == RopeKind::adjacent ? 2 * i : i), second = static_cast<size_t>(kind_ == RopeKind::adjacent ? 2 * i + 1 : i + pairs);
      const double angle = static_cast<double>(position) * frequencies_[static_cast<size_t>(i)], a = head[first], b = head[second];
      head[first] = 1.25 * (a * std::cos(angle) - b * std::sin(angle));
      head[second] = 1.25 * (a * std::sin(angle) + b * std::cos(angle));
    }
    return head;
  }

  Heads heads_;
  KvShape shape_;
  RopeKind kind_;
  std::vector<int64_t> lengths_;
  StepLimits limits_;
  Doubles frequencies_;
  std::optional<DeviceArray<std::byte>> cache_memory_;
  std::optional<DeviceArray<double>> frequency_memory_;
  std::vector<Floats> keys_, values_, queries_, turned_queries_;
};

std::vector<Place> last_places(const std::vector<int64_t>& lengths, int64_t count) {
  std::vector<Place> rows;
  for (size_t s = 0; s < lengths.size(); ++s) {
    for (int64_t p = std::max<int64_t>(0, lengths[s] - count); p < lengths[s]; ++p) rows.push_back({static_cast<int64_t>(s), p, 0});
  }
  return rows;
}

}  // namespace

TEST_CASE("attention is that of the formula, whatever heads, windows and sinks") {
  in_every_order([] {
    for (const Heads& heads : {Heads{4, 2, 8, 8}, {5, 1, 20, 12}, {3, 3, 64, 64}, {18, 1, 16, 0}, {4, 1, 128, 128}}) {
      const std::vector<int64_t> lengths{130, 64, 5};
      const Scene scene(heads, KvType::f32, heads.dim == 20 ? RopeKind::adjacent : RopeKind::half_split, lengths);
      const std::vector<Place> rows = last_places(lengths, 4);
      for (const int64_t window : {0, 1, 63, 65}) {
        for (const Floats& sinks : {Floats{}, random_floats(heads.heads, 9)}) {
          const Doubles expected = scene.expected(rows, window, sinks);
          INFO(heads.heads << " heads of " << heads.dim << ", window " << window << (sinks.empty() ? "" : ", sinks"));
          CHECK(worst_difference(scene.attend(rows, window, sinks, 0), expected) < 3e-6);
          const std::vector<Place> few(rows.begin() + 3, rows.begin() + 6);
          CHECK(worst_difference(scene.attend(few, window, sinks, scene.partial_floats(2)), scene.expected(few, window, sinks)) < 3e-6);
        }
      }
    }
  });
}

// What halves cost: the keys, values, queries and weights have eleven bits.
TEST_CASE("attention by tensor cores is that of the formula, whatever heads, windows and sinks") {
  const auto check = [](const Heads& heads, const std::vector<int64_t>& lengths, int64_t count, const std::vector<int64_t>& windows) {
    const Scene scene(heads, KvType::f16, heads.dim == 20 ? RopeKind::adjacent : RopeKind::half_split, lengths);
    const std::vector<Place> rows = last_places(lengths, count);
    Floats sinks;
    for (const int64_t window : windows) {
      const Doubles expected = scene.expected(rows, window, sinks);
      INFO(heads.heads << " heads of " << heads.dim << ", window " << window << (sinks.empty() ? "" : ", sinks"));
      CHECK(worst_difference(scene.attend(rows, window, sinks, 0), expected) < 1e-3);
      const std::vector<Place> few(rows.end() - 3, rows.end());
      CHECK(worst_difference(scene.attend(few, window, sinks, scene.partial_floats(2)), scene.expected(few, window, sinks)) < 1e-3);
      sinks = random_floats(heads.heads, 9);
    }
  };
  in_every_order([&] {
    check({4, 2, 8, 8}, {130, 64, 5}, 4, {0, 1, 63, 65});
    check({5, 1, 20, 12}, {130, 5}, 14, {0, 65});  // tiles of 64 queries begin and end within rows and sequences
    check({18, 1, 16, 0}, {70, 3}, 4, {0, 63});
  });
  check({4, 1, 128, 128}, {130, 5}, 4, {0, 70});
  check({3, 3, 160, 64}, {66, 5}, 2, {0, 65});    // two warps share a tile, of heads of two slices
  check({2, 1, 272, 0}, {66}, 3, {0, 65});        // four
  check({1, 1, 512, 512}, {66}, 3, {0});
}

TEST_CASE("large and small queries keep their bits as halves, and one that is no number gives nothing") {
  const Heads heads{2, 1, 32, 0};
  const Scene scene(heads, KvType::f16, RopeKind::half_split, {5});
  const std::vector<Place> rows{{0, 3, 0}, {0, 4, 0}};
  Floats q = random_floats(2 * 64, 7);
  for (float& value : q) value *= 0x1p20f;  // beyond halves; the scale brings the scores back
  const Floats large = scene.attend_queries(q, rows, 0.3f * 0x1p-20f);
  for (float& value : q) value *= 0x1p-40f;  // below them
  const Floats small = scene.attend_queries(q, rows, 0.3f * 0x1p20f);
  CHECK(small == large);
  q[64] = std::numeric_limits<float>::infinity();
  const Floats broken = scene.attend_queries(q, rows, 0.3f * 0x1p20f);
  CHECK(std::equal(broken.begin(), broken.begin() + 64, small.begin()));
  for (size_t i = 64; i < 96; ++i) CHECK(std::isnan(broken[i]));
}

TEST_CASE("a row's attention has the same bits in any step and in either form") {
  struct Case {
    KvType type;
    Heads heads;
    int64_t rows, stride;
  };
  const std::vector<int64_t> lengths{200, 129};
  for (const auto& [type, heads, count, stride] : {Case{KvType::f32, {6, 2, 40, 8}, 9, 5}, {KvType::f16, {6, 2, 40, 8}, 9, 5}, {KvType::q8_0, {5, 1, 64, 8}, 9, 7},
                                                   {KvType::q4_0, {2, 2, 192, 0}, 3, 4}, {KvType::f16, {2, 2, 320, 0}, 2, 3}}) {
    const Scene scene(heads, type, RopeKind::half_split, lengths);
    const std::vector<Place> rows = last_places(lengths, count);
    INFO(name_of(type) << ", heads of " << heads.dim);
    for (const int64_t window : {0, 70}) {
      const Floats whole = scene.attend(rows, window, {}, 0);
      const size_t width = static_cast<size_t>(heads.heads * heads.dim);
      for (size_t r = 0; r < rows.size(); r += static_cast<size_t>(stride)) {
        const Floats expected(whole.begin() + static_cast<std::ptrdiff_t>(r * width), whole.begin() + static_cast<std::ptrdiff_t>((r + 1) * width));
        CHECK(scene.attend({rows[r]}, window, {}, 0) == expected);
        CHECK(scene.attend({rows[r]}, window, {}, scene.partial_floats(1)) == expected);
      }
    }
  }
}

// Tensor cores multiply them by 0, which is 0 of a number only.
TEST_CASE("values beyond halves at positions that a row does not see change nothing of it") {
  const std::vector<int64_t> lengths{40};
  const Heads heads{4, 2, 64, 8};
  for (const KvType type : {KvType::f16, KvType::q8_0, KvType::q4_0}) {
    INFO(name_of(type));
    const Scene usual(heads, type, RopeKind::half_split, lengths), large(heads, type, RopeKind::half_split, lengths, 1e6f);
    std::vector<Place> rows = last_places(lengths, 20);
    const Floats whole = large.attend(rows, 0, {}, 0);
    for (const float value : whole) CHECK(std::isfinite(value));
    const Floats last(whole.end() - heads.heads * heads.dim, whole.end());
    CHECK(large.attend({rows.back()}, 0, {}, large.partial_floats(1)) == last);
    rows.pop_back();  // the one that sees the last position
    CHECK(usual.attend(rows, 0, {}, 0) == Floats(whole.begin(), whole.end() - heads.heads * heads.dim));
  }
}

TEST_CASE("a row of many KV blocks is shared out more than once around") {
  const Heads heads{2, 1, 8, 8};
  const std::vector<int64_t> lengths{64 * 66 + 5, 64 * 64};  // 64 blocks of threads share the first one's 67 KV blocks
  const Scene scene(heads, KvType::f16, RopeKind::half_split, lengths);
  const std::vector<Place> rows{{0, 64 * 65, 0}, {0, lengths[0] - 1, 0}, {1, lengths[1] - 1, 0}};
  for (const int64_t window : {0, 64 * 65}) {
    const Floats shared_out = scene.attend(rows, window, {}, scene.partial_floats(3));
    CHECK(worst_difference(shared_out, scene.expected(rows, window, {})) < 1e-3);
    CHECK(scene.attend(rows, window, {}, 0) == shared_out);
  }
}

TEST_CASE("rows of a picture see ahead of themselves") {
  const Heads heads{4, 2, 32, 32};
  const std::vector<int64_t> lengths{70, 20};
  std::vector<Place> rows;
  for (int64_t p = 60; p < 70; ++p) rows.push_back({0, p, 69 - p});
  for (int64_t p = 10; p < 13; ++p) rows.push_back({1, p, p == 10 ? 2 : 0});
  for (const auto& [type, limit] : {std::pair{KvType::f32, 3e-6}, {KvType::f16, 1e-3}}) {
    const Scene scene(heads, type, RopeKind::half_split, lengths);
    for (const int64_t window : {0, 12}) {
      CHECK(worst_difference(scene.attend(rows, window, {}, 0), scene.expected(rows, window, {})) < limit);
      CHECK(worst_difference(scene.attend({rows[0]}, window, {}, scene.partial_floats(1)), scene.expected({rows[0]}, window, {})) < limit);
    }
  }
}

TEST_CASE("smaller number types of the cache cost what they round away") {
  const Heads heads{4, 2, 64, 64};
  const std::vector<int64_t> lengths{100, 65};
  for (const auto& [type, limit] : {std::pair{KvType::f16, 1e-3}, {KvType::q8_0, 1e-2}, {KvType::q4_0, 0.2}}) {
    in_every_order([&, type = type, limit = limit] {
      const Scene scene(heads, type, RopeKind::half_split, lengths);
      const std::vector<Place> rows = last_places(lengths, 5);
      INFO(name_of(type));
      const double apart = worst_difference(scene.attend(rows, 0, {}, 0), scene.expected(rows, 0, {}));
      CHECK(apart < limit);
      CHECK(apart > 1e-6);
    });
  }
}

TEST_CASE("quantised rows of the cache have the levels and scales of the file types") {
  const int64_t dim = 96, rows = 3;
  Floats k = random_floats(rows * dim, 1);
  std::fill_n(k.begin() + 32, 32, 0.0f);  // a group without a scale
  k[70] = -3;
  const Floats v = random_floats(rows * dim, 2);
  for (const KvType type : {KvType::q8_0, KvType::q4_0}) {
    const KvShape shape{type, 1, 1, dim, 1};
    StepData step({rows, 1, 1, 1});
    for (size_t r = 0; r < 3; ++r) step.positions()[r] = static_cast<int32_t>(10 + r);
    const DeviceStep on_device(step);
    const DeviceArray<std::byte> memory(shape.bytes());
    const DeviceArray<float> q(k), keys(k), values(v), angles(size_t{1});
    cuda::rope_and_store(nullptr, on_device.view(), Rope{}, angles.get(), q.get(), keys.get(), values.get(), {shape, memory.get()}, 0, 1, rows);
    const std::vector<std::byte> part = memory.to_host();
    const size_t level_bytes = type == KvType::q8_0 ? 32 : 16;
    for (int64_t half = 0; half < 2; ++half) {
      const std::byte* area = part.data() + static_cast<size_t>(half) * shape.part_bytes() / 2;
      for (int64_t g = 0; g < rows * 3; ++g) {  // groups of 32 values
        std::byte block[34];
        const float* from = (half == 0 ? k : v).data() + 32 * g;
        if (type == KvType::q8_0) cpu::quantise_q8_0(from, block);
        else cpu::quantise_q4_0(from, block);
        const size_t place = static_cast<size_t>(30 + g);
        CHECK(std::memcmp(area + static_cast<size_t>(64 * 3) * level_bytes + 2 * place, block, 2) == 0);
        const std::byte* levels = area + place * level_bytes;
        if (type == KvType::q8_0) {
          CHECK(std::memcmp(levels, block + 2, 32) == 0);
          continue;
        }
        for (size_t i = 0; i < 32; ++i) {  // ours pairs neighbours, the file type pairs i and i + 16
          const unsigned ours = static_cast<unsigned>(levels[i / 2]) >> (i % 2 * 4) & 15u, theirs = static_cast<unsigned>(block[2 + i % 16]) >> (i / 16 * 4) & 15u;
          CHECK(ours == theirs);
        }
      }
    }
  }
}

TEST_CASE("angles follow positions, and in pictures the shifts of each pair's axis") {
  const int64_t rows = 3;
  const Doubles frequencies{1.0, 0.1, 1e-4};
  const std::vector<uint8_t> axes{2, 0, 1};
  StepData step({rows, 1, 1, 1});
  for (size_t r = 0; r < 3; ++r) {
    step.positions()[r] = static_cast<int32_t>(30000 + 7 * r);
    for (int64_t axis = 0; axis < rope_axes; ++axis) step.shifts(axis)[r] = static_cast<int32_t>(100 * axis - 3 * static_cast<int64_t>(r));
  }
  const DeviceStep on_device(step);
  const DeviceArray<double> table(frequencies);
  const DeviceArray<uint8_t> axis_table(axes);
  for (const bool shifted : {false, true}) {
    const DeviceArray<float> out(static_cast<size_t>(rows) * 6);
    cuda::rope_angles(nullptr, on_device.view(), {RopeKind::adjacent, 6, table.get(), 0.9, shifted ? axis_table.get() : nullptr}, out.get(), rows);
    Doubles expected;
    for (size_t r = 0; r < 3; ++r) {
      for (size_t i = 0; i < 3; ++i) {
        const double angle = (step.positions()[r] + (shifted ? step.shifts(axes[i])[r] : 0)) * frequencies[i];
        expected.push_back(0.9 * std::cos(angle));
        expected.push_back(0.9 * std::sin(angle));
      }
    }
    CHECK(worst_difference(out.to_host(), expected) < 1e-7);
  }
}
