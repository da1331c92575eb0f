// The arithmetic of the reference backend against formulas in double precision.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "engine/compute/cpu/dequantise.hpp"
#include "engine/compute/cpu/kernels.hpp"
#include "engine/sample/random.hpp"

using namespace vigil;
using namespace vigil::compute;
using namespace vigil::compute::cpu;

namespace {

std::vector<float> random_floats(size_t count, uint64_t seed, double scale = 1) {
  sample::Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>((random.uniform() * 2 - 1) * scale);
  return values;
}

}  // namespace

TEST_CASE("dot has the double-precision sum at every length") {
  for (int64_t n = 0; n < 70; ++n) {
    const auto a = random_floats(static_cast<size_t>(n), 1), b = random_floats(static_cast<size_t>(n), 2);
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    CHECK(static_cast<double>(dot(a.data(), b.data(), n)) == Approx(sum).margin(1e-5));
  }
}

TEST_CASE("a tile of rows gives the bits of single dots, whatever the batch") {
  const int64_t cols = 75, rows = 5;
  const auto weights = random_floats(static_cast<size_t>(tile_rows_max * cols), 3), x = random_floats(static_cast<size_t>(rows * cols), 4);
  for (int64_t tile_rows = 1; tile_rows <= tile_rows_max; ++tile_rows) {
    std::vector<float> out(static_cast<size_t>(rows * 9), -1);
    dot_tile(weights.data(), tile_rows, x.data(), rows, cols, out.data(), 9);
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t r = 0; r < 9; ++r) {
        const float expected = r < tile_rows ? dot(weights.data() + r * cols, x.data() + t * cols, cols) : -1;
        REQUIRE(out[static_cast<size_t>(t * 9 + r)] == expected);
      }
    }
  }
}

TEST_CASE("RMSNorm divides by the root of the mean square") {
  const std::vector<float> in{3, -4, 0, 5, 1}, gain{1, 2, 3, 0.5f, -1};
  std::vector<float> out(5);
  rms_norm_row(in.data(), gain.data(), 0.5f, 5, out.data());
  const double scale = 1 / std::sqrt((9 + 16 + 25 + 1) / 5.0 + 0.5);
  for (size_t i = 0; i < 5; ++i) CHECK(static_cast<double>(out[i]) == Approx(static_cast<double>(in[i]) * scale * static_cast<double>(gain[i])));
}

TEST_CASE("SwiGLU holds at both ends of the scale") {
  std::vector<float> gate{0, 1, -1, 100, -100};
  const std::vector<float> up{5, 2, 2, 3, 3};
  gate_row(Gate::silu, gate.data(), up.data(), 5);
  CHECK(gate[0] == 0);
  CHECK(gate[1] == Approx(2 / (1 + std::exp(-1.0))));
  CHECK(gate[2] == Approx(-2 / (1 + std::exp(1.0))));
  CHECK(gate[3] == Approx(300));
  CHECK(std::abs(gate[4]) < 1e-30);
}

TEST_CASE("rope turns neighbours or halves, and leaves the rest of a head alone") {
  const std::vector<float> angles{static_cast<float>(std::cos(0.3)), static_cast<float>(std::sin(0.3)),
                                  static_cast<float>(std::cos(2.0)), static_cast<float>(std::sin(2.0))};
  const std::vector<float> head{1, 2, 3, 4, 5, 6};
  const auto turned = [&](size_t a, size_t b, double angle) {
    return std::pair(static_cast<double>(head[a]) * std::cos(angle) - static_cast<double>(head[b]) * std::sin(angle),
                     static_cast<double>(head[a]) * std::sin(angle) + static_cast<double>(head[b]) * std::cos(angle));
  };
  std::vector<float> adjacent = head, split = head;
  rope_head(RopeKind::adjacent, angles.data(), 4, adjacent.data());
  rope_head(RopeKind::half_split, angles.data(), 4, split.data());
  CHECK(adjacent[0] == Approx(turned(0, 1, 0.3).first));
  CHECK(adjacent[1] == Approx(turned(0, 1, 0.3).second));
  CHECK(adjacent[2] == Approx(turned(2, 3, 2.0).first));
  CHECK(adjacent[3] == Approx(turned(2, 3, 2.0).second));
  CHECK(split[0] == Approx(turned(0, 2, 0.3).first));
  CHECK(split[2] == Approx(turned(0, 2, 0.3).second));
  CHECK(split[1] == Approx(turned(1, 3, 2.0).first));
  CHECK(split[3] == Approx(turned(1, 3, 2.0).second));
  CHECK((adjacent[4] == 5 && adjacent[5] == 6 && split[4] == 5 && split[5] == 6));
}

TEST_CASE("attention over blocks equals one softmax over all positions") {
  const int64_t dim = 24;
  for (const int64_t length : {1, 2, 63, 64, 65, 128, 130, 200}) {
    for (const double scale : {0.2, 40.0}) {  // the second has scores in the hundreds: only differences may be exponentiated
      const auto q = random_floats(static_cast<size_t>(dim), 1), k = random_floats(static_cast<size_t>(length * dim), 2),
                 v = random_floats(static_cast<size_t>(length * dim), 3);
      std::vector<double> weights(static_cast<size_t>(length)), expected(static_cast<size_t>(dim), 0.0);
      double best = -1e300, sum = 0;
      for (int64_t p = 0; p < length; ++p) {
        double score = 0;
        for (int64_t i = 0; i < dim; ++i) score += static_cast<double>(q[static_cast<size_t>(i)]) * static_cast<double>(k[static_cast<size_t>(p * dim + i)]);
        weights[static_cast<size_t>(p)] = score * scale;
        best = std::max(best, score * scale);
      }
      for (double& weight : weights) sum += weight = std::exp(weight - best);
      for (int64_t p = 0; p < length; ++p) {
        for (int64_t i = 0; i < dim; ++i) {
          expected[static_cast<size_t>(i)] += weights[static_cast<size_t>(p)] / sum * static_cast<double>(v[static_cast<size_t>(p * dim + i)]);
        }
      }
      std::vector<float> out(static_cast<size_t>(dim), 99);
      AttentionSum attention(out.data(), dim);
      for (int64_t start = 0; start < length; start += kv_block_positions) {
        attention.add_block(q.data(), k.data() + start * dim, v.data() + start * dim, std::min(kv_block_positions, length - start),
                            static_cast<float>(scale));
      }
      attention.finish(-std::numeric_limits<float>::infinity());
      for (size_t i = 0; i < out.size(); ++i) CHECK(static_cast<double>(out[i]) == Approx(expected[i]).margin(scale * 1e-6).epsilon(1e-4));
    }
  }
}

TEST_CASE("a Q8_0 row is scale times code, at any alignment") {
  std::vector<std::byte> memory(1 + 2 * 34);
  std::byte* row = memory.data() + 1;
  const uint16_t scales[2] = {0x3800, 0xc400};  // 0.5 and -4
  for (int block = 0; block < 2; ++block) {
    std::memcpy(row + block * 34, &scales[block], 2);
    for (int i = 0; i < 32; ++i) row[block * 34 + 2 + i] = static_cast<std::byte>(static_cast<int8_t>(i * 8 - 128));
  }
  std::vector<float> out(64);
  dequantise_row(gguf::TensorType::q8_0, row, 64, out.data());
  for (int i = 0; i < 32; ++i) {
    CHECK(out[static_cast<size_t>(i)] == 0.5f * static_cast<float>(i * 8 - 128));
    CHECK(out[static_cast<size_t>(32 + i)] == -4.0f * static_cast<float>(i * 8 - 128));
  }
}
