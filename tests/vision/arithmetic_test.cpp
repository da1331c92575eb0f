// The encoder's arithmetic against plain loops in double.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <random>

#include "vision/encoder/arithmetic.hpp"

using namespace vigil;
using namespace vigil::vision;

namespace {

std::vector<float> numbers(size_t count, unsigned seed, float deviation = 1) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = deviation * (static_cast<float>(random() % 20001) / 10000.0f - 1);
  return values;
}

Matrix matrix(int64_t rows, int64_t cols, const std::vector<float>& values) {
  Matrix made;
  made.rows = rows;
  made.cols = cols;
  made.row_bytes = static_cast<size_t>(cols) * sizeof(float);
  made.data = std::make_unique<std::byte[]>(values.size() * sizeof(float));
  std::memcpy(made.data.get(), values.data(), values.size() * sizeof(float));
  return made;
}

}  // namespace

TEST_CASE("Products of any shape, with any number of threads, to the same bits") {
  for (const auto& [rows, cols, outs] : {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1}, {13, 7, 33}, {24, 72, 64}, {50, 100, 31}, {12, 588, 257}, {5, 3, 1000}}) {
    const auto in = numbers(static_cast<size_t>(rows * cols), 1), weights = numbers(static_cast<size_t>(outs * cols), 2);
    Linear by{matrix(outs, cols, weights), numbers(static_cast<size_t>(outs), 3)};
    std::vector<float> first;
    for (const int threads : {1, 3}) {
      Arithmetic arithmetic(threads);
      std::vector<float> out(static_cast<size_t>(rows * outs), NAN);
      arithmetic.linear(by, in.data(), rows, out.data());
      if (first.empty()) first = out;
      CHECK(first == out);
    }
    double worst = 0;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t o = 0; o < outs; ++o) {
        double sum = by.bias[static_cast<size_t>(o)];
        for (int64_t k = 0; k < cols; ++k) sum += static_cast<double>(in[static_cast<size_t>(r * cols + k)]) * weights[static_cast<size_t>(o * cols + k)];
        worst = std::max(worst, std::abs(sum - first[static_cast<size_t>(r * outs + o)]));
      }
    }
    CAPTURE(rows, cols, outs);
    CHECK(worst < 1e-4);
  }
}

TEST_CASE("Softmax of any length, also with large scores") {
  for (const int64_t count : {1, 2, 15, 16, 17, 100, 1000}) {
    for (const float size : {0.1f, 5.0f, 2000.0f}) {
      auto scores = numbers(static_cast<size_t>(count), static_cast<unsigned>(count), size);
      const auto given = scores;
      softmax(scores.data(), count, 0.5f);
      const float most = *std::max_element(given.begin(), given.end());
      double sum = 0;
      for (const float score : given) sum += std::exp(0.5 * (static_cast<double>(score) - most));
      for (size_t i = 0; i < given.size(); ++i) CHECK(scores[i] == Approx(std::exp(0.5 * (static_cast<double>(given[i]) - most)) / sum).epsilon(1e-5).margin(1e-30));
    }
  }
}

TEST_CASE("Attention sees the rows of its own segment, all of them and no other") {
  const Heads heads{3, 20};
  const int64_t rows = 230, stride = 3 * heads.count * heads.width + 5;
  const auto qkv = numbers(static_cast<size_t>(rows * stride), 9);
  const float *q = qkv.data(), *k = q + 60, *v = q + 120;
  for (const auto& segments : {std::vector<Segment>{{0, rows}}, std::vector<Segment>{{0, 1}, {1, 66}, {66, 230}}}) {
    std::vector<float> first;
    for (const int threads : {1, 2}) {
      Arithmetic arithmetic(threads);
      std::vector<float> out(static_cast<size_t>(rows * heads.count * heads.width), NAN);
      arithmetic.attention(q, k, v, stride, segments, heads, out.data());
      if (first.empty()) first = out;
      CHECK(first == out);
    }
    double worst = 0;
    for (const Segment& segment : segments) {
      for (int64_t head = 0; head < heads.count; ++head) {
        for (int64_t row = segment.first; row < segment.end; ++row) {
          std::vector<double> shares;
          double sum = 0;
          for (int64_t other = segment.first; other < segment.end; ++other) {
            double score = 0;
            for (int64_t i = 0; i < heads.width; ++i) score += static_cast<double>(q[row * stride + head * heads.width + i]) * k[other * stride + head * heads.width + i];
            shares.push_back(std::exp(score / std::sqrt(static_cast<double>(heads.width))));
            sum += shares.back();
          }
          for (int64_t i = 0; i < heads.width; ++i) {
            double value = 0;
            for (int64_t other = segment.first; other < segment.end; ++other) value += shares[static_cast<size_t>(other - segment.first)] / sum * v[other * stride + head * heads.width + i];
            worst = std::max(worst, std::abs(value - first[static_cast<size_t>((row * heads.count + head) * heads.width + i)]));
          }
        }
      }
    }
    CHECK(worst < 1e-5);
  }
}

TEST_CASE("Norms and activations are their formulas") {
  Arithmetic arithmetic(2);
  const auto in = numbers(3 * 50, 4, 3);
  const Norm norm{numbers(50, 5), numbers(50, 6)};
  std::vector<float> layer(in.size()), rms(in.size());
  arithmetic.layer_norm(norm, 1e-5, in.data(), 3, layer.data());
  arithmetic.rms_norm(norm, 1e-5, in.data(), 3, rms.data());
  for (size_t row = 0; row < 3; ++row) {
    double mean = 0, squares = 0, variance = 0;
    for (size_t i = 0; i < 50; ++i) mean += in[row * 50 + i] / 50.0;
    for (size_t i = 0; i < 50; ++i) {
      squares += in[row * 50 + i] * in[row * 50 + i] / 50.0;
      variance += (in[row * 50 + i] - mean) * (in[row * 50 + i] - mean) / 50.0;
    }
    for (size_t i = 0; i < 50; ++i) {
      CHECK(layer[row * 50 + i] == Approx((in[row * 50 + i] - mean) / std::sqrt(variance + 1e-5) * norm.gain[i] + norm.shift[i]).epsilon(1e-4).margin(1e-5));
      CHECK(rms[row * 50 + i] == Approx(in[row * 50 + i] / std::sqrt(squares + 1e-5) * norm.gain[i]).epsilon(1e-4).margin(1e-5));
    }
  }
  for (const float x : {-20.0f, -10.0f, -3.0f, -0.5f, 0.0f, 0.7f, 4.0f, 10.0f, 123.0f}) {
    CHECK(gelu(x) == Approx(0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)))).epsilon(2e-3).margin(2e-3));
    CHECK(quick_gelu(x) == Approx(x / (1 + std::exp(-1.702 * x))).epsilon(2e-3).margin(2e-3));
  }
  std::vector<float> gate = numbers(9000, 7, 4), up = numbers(9000, 8);
  const auto given = gate;
  arithmetic.activate(Activation::silu, gate.data(), up.data(), 9000);
  for (size_t i = 0; i < gate.size(); i += 77) CHECK(gate[i] == Approx(given[i] / (1 + std::exp(-given[i])) * up[i]).margin(1e-6));
}
