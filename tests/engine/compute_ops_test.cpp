// The larger ops of every backend against plain formulas in double precision, on inputs that cross KV blocks, experts and chunks.
#include <catch2/catch.hpp>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "backends_support.hpp"
#include "engine/compute/backend.hpp"
#include "engine/gguf/writer.hpp"
#include "engine/sample/random.hpp"

using namespace vigil;
using namespace vigil::compute;
using vigil::testing::backends_under_test;
using vigil::testing::BackendUnderTest;

namespace {

using Floats = std::vector<float>;

Floats random_floats(int64_t count, uint64_t seed) {
  sample::Random random(seed);
  Floats values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(random.uniform() * 2 - 1);
  return values;
}

double at(const Floats& values, int64_t i) { return static_cast<double>(values[static_cast<size_t>(i)]); }
double logistic(double value) { return 1 / (1 + std::exp(-value)); }

// A backend with buffers and weights made from values; one sequence at positions from `first` on.
struct Bench {
  std::unique_ptr<Backend> backend;
  std::vector<std::vector<std::byte>> files;
  StepData step;

  bool prepared = false;

  Bench(const BackendUnderTest& under_test, int threads) : backend(under_test.make(threads)) {
    files.reserve(16);  // weights point into them
  }
  Buffer buffer(int64_t floats) { return *backend->allocate(floats); }
  Buffer buffer(const Floats& values) {
    const Buffer made = buffer(static_cast<int64_t>(values.size()));
    backend->write(made, 0, values);
    return made;
  }
  Weight weight(const Floats& values, int64_t rows, WeightUse use = WeightUse::values) {
    files.push_back(gguf::f32_bytes(values));
    return *backend->bind("w", gguf::TensorType::f32, rows, static_cast<int64_t>(values.size()) / rows, files.back(), use);
  }
  void begin(int64_t rows, int64_t first, int32_t state_from = -1, int32_t state_to = -1) {
    const int64_t blocks = (first + rows + kv_block_positions - 1) / kv_block_positions;
    step = StepData({rows, 1, 1, blocks});
    for (int64_t r = 0; r < rows; ++r) step.positions()[static_cast<size_t>(r)] = static_cast<int32_t>(first + r);
    std::iota(step.blocks(0).begin(), step.blocks(0).end(), 0);
    step.states(0)[0] = state_from;
    step.states(0)[1] = state_to;
    backend->upload(step);
  }
  void run(const std::function<void(Ops&)>& work) {
    if (!prepared) REQUIRE(backend->prepare([](double) { return true; }, [](std::span<const std::byte>) {}));
    prepared = true;
    REQUIRE(backend->run(work) == RunOutcome::finished);
  }
  Floats read(Buffer from) {
    Floats values(static_cast<size_t>(from.floats));
    backend->read(from, 0, values);
    return values;
  }
};

// Every backend with every one of the values.
template <typename Value>
std::vector<std::pair<BackendUnderTest, Value>> each_with(const std::vector<Value>& values) {
  std::vector<std::pair<BackendUnderTest, Value>> pairs;
  for (const BackendUnderTest& under_test : backends_under_test()) {
    for (const Value& value : values) pairs.emplace_back(under_test, value);
  }
  return pairs;
}

}  // namespace

TEST_CASE("attention sees its window and gives its sinks their part") {
  const int64_t rows = 150, heads = 4, kv_heads = 2, dim = 8;
  const Floats q = random_floats(rows * heads * dim, 1), k = random_floats(rows * kv_heads * dim, 2), v = random_floats(rows * kv_heads * dim, 3);
  const Floats sinks{0.5f, -3.0f, 8.0f, 0.0f};
  for (const auto& [under_test, window] : each_with(std::vector<int64_t>{0, 1, 5, 64, 65, 100, 1000})) {
    for (const bool with_sinks : {false, true}) {
      Bench bench(under_test, 3);
      const KvCache cache = *bench.backend->allocate_kv({KvType::f32, 1, kv_heads, dim, 3});
      const Rope rope = bench.backend->bind_rope(RopeKind::half_split, {});
      const Buffer queries = bench.buffer(q), keys = bench.buffer(k), values = bench.buffer(v), angles = bench.buffer(int64_t{1});
      const Buffer out = bench.buffer(rows * heads * dim);
      const AttentionRule rule{0.7f, window, with_sinks ? bench.weight(sinks, 1) : Weight{}};
      bench.begin(rows, 0);
      bench.run([&](Ops& ops) {
        ops.rope_and_store(rope, angles, queries, keys, values, cache, 0, heads, rows);
        ops.attention(queries, cache, 0, heads, rule, out, rows);
      });
      const Floats ours = bench.read(out);
      double worst = 0;
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t h = 0; h < heads; ++h) {
          double sum = with_sinks ? std::exp(at(sinks, h)) : 0;
          std::vector<double> expected(static_cast<size_t>(dim));
          for (int64_t p = window == 0 ? 0 : std::max<int64_t>(0, r - window + 1); p <= r; ++p) {
            double score = 0;
            for (int64_t i = 0; i < dim; ++i) score += at(q, (r * heads + h) * dim + i) * at(k, (p * kv_heads + h / 2) * dim + i);
            const double part = std::exp(score * 0.7);
            sum += part;
            for (int64_t i = 0; i < dim; ++i) expected[static_cast<size_t>(i)] += part * at(v, (p * kv_heads + h / 2) * dim + i);
          }
          for (int64_t i = 0; i < dim; ++i) {
            worst = std::max(worst, std::abs(at(ours, (r * heads + h) * dim + i) - expected[static_cast<size_t>(i)] / sum));
          }
        }
      }
      INFO(under_test.name << " window " << window << " sinks " << with_sinks);
      CHECK(worst < 2e-6);
    }
  }
}

// Backends may multiply what a row does not see by a weight of 0. On tensor cores it is the hardware's rounding that this asks about: large products of 0
// beside sums that are small.
TEST_CASE("attention has the same bits whatever stands where a row does not look") {
  const int64_t heads = 4, kv_heads = 2, dim = 32;
  for (const auto& [under_test, type] : each_with(std::vector<KvType>{KvType::f32, KvType::f16, KvType::q8_0, KvType::q4_0})) {
    for (const int64_t rows : {40, 12}) {  // CUDA has a form for many rows and one for few
      const Floats q = random_floats(rows * heads * dim, 1), k = random_floats(rows * kv_heads * dim, 2);
      const auto attended = [&, type = type](const BackendUnderTest& on, float last_values) {
        Floats v = random_floats(rows * kv_heads * dim, 3);
        for (float& value : v) value *= 0x1p-12f;
        for (auto last = v.end() - kv_heads * dim; last != v.end(); ++last) *last *= last_values;
        Bench bench(on, 3);
        const KvCache cache = *bench.backend->allocate_kv({type, 1, kv_heads, dim, 3});
        const Rope rope = bench.backend->bind_rope(RopeKind::half_split, {});
        const Buffer queries = bench.buffer(q), keys = bench.buffer(k), values = bench.buffer(v), angles = bench.buffer(int64_t{1});
        const Buffer out = bench.buffer(rows * heads * dim);
        bench.begin(rows, 0);
        bench.run([&](Ops& ops) {
          ops.rope_and_store(rope, angles, queries, keys, values, cache, 0, heads, rows);
          ops.attention(queries, cache, 0, heads, {0.7f, 0, Weight{}}, out, rows);
        });
        Floats ours = bench.read(out);
        ours.resize(ours.size() - heads * dim);  // the last row alone sees the last position
        return ours;
      };
      INFO(under_test.name << ", a cache of " << name_of(type) << ", " << rows << " rows");
      const Floats small = attended(under_test, 0);
      CHECK(std::any_of(small.begin(), small.end(), [](float value) { return value != 0; }));
      CHECK(attended(under_test, 60000 * 0x1p12f) == small);
      CHECK(attended(under_test, -0x1p40f) == small);  // more than a half can hold
    }
  }
}

TEST_CASE("rows go through the experts with the highest scores, by their shares") {
  const int64_t rows = 9, experts = 5, used = 2, cols = 6, inner = 7;
  const Floats x = random_floats(rows * cols, 1), matrices = random_floats(experts * inner * cols, 2), biases = random_floats(experts * inner, 3);
  Floats logits = random_floats(rows * experts, 4);
  logits[1] = logits[3] = 5;                                               // row 0: equal ones, the lower first
  std::fill_n(logits.begin() + experts, experts, std::nanf(""));           // row 1: no numbers at all
  logits[2 * experts + 4] = std::nanf("");
  for (const auto& [under_test, threads] : each_with(std::vector<int>{1, 3})) {
    INFO(under_test.name);
    Bench bench(under_test, threads);
    const Weight stacked = bench.weight(matrices, experts * inner, WeightUse::product), bias = bench.weight(biases, experts);
    const Buffer in = bench.buffer(x), scores = bench.buffer(logits), choice = bench.buffer(2 * rows * used);
    const Buffer many = bench.buffer(rows * used * inner), again = bench.buffer(rows * used * inner), out = bench.buffer(rows * inner);
    const Floats square = random_floats(experts * inner * inner, 5);
    const Weight second = bench.weight(square, experts * inner, WeightUse::product);
    bench.begin(rows, 0);
    bench.run([&](Ops& ops) {
      ops.route(scores, experts, used, choice, rows);
      ops.expert_matmul(stacked, inner, choice, used, ExpertInput::row, in, many, rows);
      ops.add_expert_bias(many, bias, choice, used, rows);
      ops.expert_matmul(second, inner, choice, used, ExpertInput::choice, many, again, rows);
      ops.sum_experts(again, choice, used, out, inner, rows);
    });
    const Floats chosen = bench.read(choice), ours = bench.read(out);
    CHECK((chosen[0] == 1 && chosen[2] == 3 && chosen[1] == 0.5f));
    for (int64_t i = 0; i < used; ++i) CHECK((at(chosen, 2 * (used + i)) >= 0 && at(chosen, 2 * (used + i)) < static_cast<double>(experts)));
    for (int64_t r = 2; r < rows; ++r) {
      std::vector<int64_t> order(static_cast<size_t>(experts));
      std::iota(order.begin(), order.end(), 0);
      const auto score = [&](int64_t e) { return std::isnan(at(logits, r * experts + e)) ? -1e9 : at(logits, r * experts + e); };
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return score(a) > score(b); });
      const double first = std::exp(score(order[0])), next = std::exp(score(order[1]));
      for (int64_t o = 0; o < inner; ++o) {
        double expected = 0;
        for (int64_t i = 0; i < used; ++i) {
          const int64_t e = order[static_cast<size_t>(i)];
          double value = 0;
          for (int64_t j = 0; j < inner; ++j) {
            double middle = at(biases, e * inner + j);
            for (int64_t c = 0; c < cols; ++c) middle += at(matrices, (e * inner + j) * cols + c) * at(x, r * cols + c);
            value += at(square, (e * inner + o) * inner + j) * middle;
          }
          expected += value * (i == 0 ? first : next) / (first + next);
        }
        CHECK(at(ours, r * inner + o) == Approx(expected).margin(2e-6));
      }
    }
  }
}

TEST_CASE("an aborted step does not look at choices that nobody has made") {
  const int64_t rows = 3, experts = 4, used = 2, cols = 32, inner = 16;
  for (const auto& [under_test, threads] : each_with(std::vector<int>{1, 3})) {
    INFO(under_test.name);
    Bench bench(under_test, threads);
    const Weight stacked = bench.weight(random_floats(experts * inner * cols, 2), experts * inner, WeightUse::product);
    const Buffer in = bench.buffer(random_floats(rows * cols, 1)), out = bench.buffer(rows * used * inner);
    const Buffer choice = bench.buffer(Floats(static_cast<size_t>(2 * rows * used), 0x1p40f));  // what a buffer may hold that nothing was written to
    bench.begin(rows, 0);
    bench.run([](Ops&) {});
    bench.backend->control().abort = true;
    CHECK(bench.backend->run([&](Ops& ops) { ops.expert_matmul(stacked, inner, choice, used, ExpertInput::row, in, out, rows); }) == RunOutcome::aborted);
  }
}

TEST_CASE("a choice below 0 is none, and an expert without a slot becomes one") {
  for (const auto& [rows, inner] : {std::pair<int64_t, int64_t>{3, 6}, {2, 32}, {40, 32}}) {  // few and many choices, widths that the fast kernels take and one that they do not
    const int64_t experts = 4, used = 2, cols = 32, slots = 2;
    const Floats x = random_floats(rows * cols, 1), matrices = random_floats(slots * inner * cols, 2), biases = random_floats(slots * inner, 3);
    Floats choices;
    for (int64_t i = 0; i < rows * used; ++i) choices.insert(choices.end(), {static_cast<float>((i * 7 + i / 3) % experts), 0.25f});
    for (const auto& [under_test, threads] : each_with(std::vector<int>{1, 3})) {
      INFO(under_test.name << ", " << rows << " rows of " << inner);
      Bench bench(under_test, threads);
      const Weight some = bench.weight(matrices, slots * inner, WeightUse::product), bias = bench.weight(biases, slots);
      const Buffer in = bench.buffer(x), choice = bench.buffer(choices), slot_of = bench.buffer(Floats{-1, 1, -1, 0}), out = bench.buffer(Floats(static_cast<size_t>(rows * used * inner), 7));
      bench.begin(rows, 0);
      bench.run([&](Ops& ops) {
        ops.find_slots(choice, slot_of, used, rows);
        ops.expert_matmul(some, inner, choice, used, ExpertInput::row, in, out, rows);
        ops.add_expert_bias(out, bias, choice, used, rows);
      });
      const Floats found = bench.read(choice), ours = bench.read(out);
      for (int64_t i = 0; i < rows * used; ++i) {
        const int64_t expert = static_cast<int64_t>(choices[static_cast<size_t>(2 * i)]), slot = expert == 1 ? 1 : expert == 3 ? 0 : -1 - expert;
        CHECK(found[static_cast<size_t>(2 * i)] == static_cast<float>(slot));
        CHECK(found[static_cast<size_t>(2 * i + 1)] == 0.25f);
        for (int64_t o = 0; o < inner; ++o) {
          double expected = slot < 0 ? 7 : at(biases, slot * inner + o);
          for (int64_t c = 0; slot >= 0 && c < cols; ++c) expected += at(matrices, (slot * inner + o) * cols + c) * at(x, i / used * cols + c);
          CHECK(at(ours, i * inner + o) == Approx(expected).margin(2e-6));
        }
      }
    }
  }
}

TEST_CASE("DeltaNet follows its rule, in one chunk or many") {
  const int64_t rows = 40, key_heads = 2, heads = 4, key_dim = 6, value_dim = 5, taps = 4;
  StateShape shape{1, taps, key_heads, heads, key_dim, value_dim, 2};
  const int64_t channels = shape.channels(), keys = key_heads * key_dim;
  const Floats x = random_floats(rows * channels, 1), kernels = random_floats(channels * taps, 2), beta = random_floats(rows * heads, 3),
               alpha = random_floats(rows * heads, 4), decay{-0.3f, -0.1f, -2.0f, -0.5f}, bias = random_floats(heads, 5);
  for (const auto& [under_test, order] : each_with(std::vector<HeadOrder>{HeadOrder::tiled, HeadOrder::grouped})) {
    INFO(under_test.name);
    std::vector<double> mixed(static_cast<size_t>(rows * channels)), expected(static_cast<size_t>(rows * heads * value_dim));
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < channels; ++c) {
        double sum = 0;
        for (int64_t t = std::max<int64_t>(0, taps - 1 - r); t < taps; ++t) sum += at(kernels, c * taps + t) * at(x, (r - taps + 1 + t) * channels + c);
        mixed[static_cast<size_t>(r * channels + c)] = sum * logistic(sum);
      }
    }
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t key_head = order == HeadOrder::tiled ? h % key_heads : h / 2;
      std::vector<double> state(static_cast<size_t>(key_dim * value_dim));
      for (int64_t r = 0; r < rows; ++r) {
        const double* q = &mixed[static_cast<size_t>(r * channels + key_head * key_dim)];
        const double* k = q + keys;
        const double* v = &mixed[static_cast<size_t>(r * channels + 2 * keys + h * value_dim)];
        const double q_length = std::sqrt(std::inner_product(q, q + key_dim, q, 1e-6)), k_length = std::sqrt(std::inner_product(k, k + key_dim, k, 1e-6));
        const double d = std::exp(at(decay, h) * std::log(1 + std::exp(at(alpha, r * heads + h) + at(bias, h)))), b = logistic(at(beta, r * heads + h));
        for (int64_t j = 0; j < value_dim; ++j) {
          double held = 0, out = 0;
          for (int64_t i = 0; i < key_dim; ++i) held += (state[static_cast<size_t>(i * value_dim + j)] *= d) * k[i] / k_length;
          for (int64_t i = 0; i < key_dim; ++i) {
            double& cell = state[static_cast<size_t>(i * value_dim + j)];
            cell += k[i] / k_length * b * (v[j] - held);
            out += cell * q[i] / q_length / std::sqrt(static_cast<double>(key_dim));
          }
          expected[static_cast<size_t>((r * heads + h) * value_dim + j)] = out;
        }
      }
    }
    Floats first;
    for (const int64_t chunk : {rows, int64_t{1}, int64_t{7}}) {
      Bench bench(under_test, chunk == 7 ? 3 : 1);
      const StateCache states = *bench.backend->allocate_states(shape);
      const Weight kernel = bench.weight(kernels, channels), decays = bench.weight(decay, 1), biases = bench.weight(bias, 1);
      Floats ours;
      int32_t from = -1, to = 0;
      for (int64_t start = 0; start < rows; start += chunk) {
        const int64_t count = std::min(chunk, rows - start);
        const auto part = [&](const Floats& of, int64_t width) {
          return bench.buffer(Floats(of.begin() + start * width, of.begin() + (start + count) * width));
        };
        const Buffer in = part(x, channels), rates = part(beta, heads), decay_in = part(alpha, heads);
        const Buffer convolved = bench.buffer(count * channels), out = bench.buffer(count * heads * value_dim);
        bench.begin(count, start, from, to);
        bench.run([&](Ops& ops) {
          ops.convolve(kernel, states, 0, in, convolved, count);
          ops.delta_net({convolved, rates, decay_in, decays, biases, order, 1e-6f}, states, 0, out, count);
        });
        const Floats chunk_out = bench.read(out);
        ours.insert(ours.end(), chunk_out.begin(), chunk_out.end());
        from = to;
        to = 1 - to;
      }
      double worst = 0;
      for (size_t i = 0; i < ours.size(); ++i) worst = std::max(worst, std::abs(static_cast<double>(ours[i]) - expected[i]));
      CHECK(worst < 2e-6);
      if (first.empty()) first = ours;
      CHECK(ours == first);
    }
  }
}

TEST_CASE("gates and splits do what they say") {
  const auto& [under_test, threads] = GENERATE(from_range(each_with(std::vector<int>{2})));
  INFO(under_test.name);
  Bench bench(under_test, threads);
  const Floats g{0, 1, -2, 9, -12, 3}, u{1, 2, 3, -9, 5, 20};
  const Buffer gelu = bench.buffer(g), clamped = bench.buffer(g), up = bench.buffer(u), open = bench.buffer(u), scaled = bench.buffer(u);
  const Buffer row_gate = bench.buffer({0.0f, 100.0f}), left = bench.buffer(int64_t{3}), right = bench.buffer(int64_t{3});
  const Weight bias = bench.weight({1, 2, 3}, 1);
  bench.begin(2, 0);
  bench.run([&](Ops& ops) {
    ops.gate(Gate::gelu, gelu, up, 3, 2);
    ops.gate(Gate::clamped_silu, clamped, up, 3, 2);
    ops.split(up, left, right, 1, 3);
    ops.sigmoid_gate(open, row_gate, 1, 3, 2);
    ops.scale(scaled, 3, 3, 2);
    ops.add_bias(scaled, bias, 2);
  });
  const Floats a = bench.read(gelu), b = bench.read(clamped);
  for (int64_t i = 0; i < 6; ++i) {
    const double x = at(g, i), y = at(u, i);
    const double bent = x / 2 * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
    CHECK(at(a, i) == Approx(bent * y).epsilon(1e-3).margin(1e-6));
    const double low = std::min(x, 7.0), middle = std::clamp(y, -7.0, 7.0);
    CHECK(at(b, i) == Approx(low * logistic(1.702 * low) * (middle + 1)).epsilon(1e-5).margin(1e-12));
  }
  CHECK(bench.read(left) == Floats{1, 3, 5});
  CHECK(bench.read(right) == Floats{2, -9, 20});
  CHECK(bench.read(open) == Floats{0.5f, 1, 1.5f, -9, 5, 20});
  CHECK(bench.read(scaled) == Floats{4, 8, 12, -26, 17, 63});
}

TEST_CASE("the best scores of a row are picked in order, equal ones by the lower id, and never what is no score") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const int64_t cols : {1, 63, 64, 200, 4096, 4100, 300000}) {  // up to more tiles than a kernel takes at once
    const int64_t rows = 2;
    Floats scores = random_floats(rows * cols, static_cast<uint64_t>(cols));
    for (int64_t i = 0; i < cols; i += 7) scores[static_cast<size_t>(cols + i)] = std::round(scores[static_cast<size_t>(i)] * 3) / 3;  // many equal ones
    if (cols >= 200) {
      scores[5] = scores[199] = infinity;
      scores[6] = std::nanf("");
      scores[7] = -infinity;
      for (int64_t i = 0; i < cols - 40; ++i) scores[static_cast<size_t>(cols + i)] = i % 3 == 0 ? std::nanf("") : i % 3 == 1 ? -infinity : -0.5f;
      scores[static_cast<size_t>(cols + 100)] = 0.0f;
      scores[static_cast<size_t>(cols + 20)] = 0.0f;
      scores[static_cast<size_t>(cols + 60)] = -0.0f;  // as good as plus zero
      scores[static_cast<size_t>(cols + 130)] = std::numeric_limits<float>::lowest();
    }
    for (const auto& [under_test, threads] : each_with(std::vector<int>{1, 3})) {
      for (const int64_t count : {int64_t{5}, most_picked}) {
        INFO(under_test.name << ", " << count << " of " << cols);
        Bench bench(under_test, threads);
        const Buffer in = bench.buffer(scores), picked = bench.buffer(2 * rows * count);
        bench.begin(rows, 0);
        bench.run([&](Ops& ops) { ops.pick_best(in, cols, count, picked, rows); });
        const Floats ours = bench.read(picked);
        Floats expected;
        for (int64_t r = 0; r < rows; ++r) {
          std::vector<int64_t> ids;
          for (int64_t i = 0; i < cols; ++i) {
            if (at(scores, r * cols + i) > -static_cast<double>(infinity)) ids.push_back(i);
          }
          std::stable_sort(ids.begin(), ids.end(), [&](int64_t a, int64_t b) { return at(scores, r * cols + a) > at(scores, r * cols + b); });
          ids.resize(static_cast<size_t>(count), -1);
          for (const int64_t id : ids) {
            expected.push_back(static_cast<float>(id));
            expected.push_back(id < 0 ? -infinity : scores[static_cast<size_t>(r * cols + id)]);
          }
        }
        CHECK(ours == expected);
      }
    }
  }
}
