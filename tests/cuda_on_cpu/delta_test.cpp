// The convolution and the gated delta rule against double precision: several sequences in a step, states carried on, any cut into chunks.
#include <catch2/catch.hpp>

#include <numeric>

#include "engine/compute/cuda/op_kernels.hpp"
#include "op_support.hpp"

using namespace vigil::compute;

namespace {

double logistic(double value) { return 1 / (1 + std::exp(-value)); }

struct Sequences {
  StateShape shape;
  HeadOrder order;
  std::vector<int64_t> lengths;
  Floats kernels, decay, bias;
  std::vector<Floats> inputs, beta, alpha;  // of each sequence

  Sequences(const StateShape& of, HeadOrder key_order, std::vector<int64_t> rows) : shape(of), order(key_order), lengths(std::move(rows)) {
    kernels = random_floats(shape.channels() * shape.kernel, 1);
    decay = random_floats(shape.value_heads, 2);
    for (float& value : decay) value = -std::abs(value);
    bias = random_floats(shape.value_heads, 3);
    for (size_t s = 0; s < lengths.size(); ++s) {
      inputs.push_back(random_floats(lengths[s] * shape.channels(), 10 + s));
      beta.push_back(random_floats(lengths[s] * shape.value_heads, 20 + s));
      alpha.push_back(random_floats(lengths[s] * shape.value_heads, 30 + s));
    }
    alpha[0][0] = 25;  // beyond the bend of softplus
  }

  // [rows, value_heads, value_dim] of a sequence.
  Doubles expected(size_t s) const {
    const int64_t rows = lengths[s], channels = shape.channels(), keys = shape.key_heads * shape.key_dim, taps = shape.kernel;
    const int64_t key_dim = shape.key_dim, value_dim = shape.value_dim, heads = shape.value_heads;
    Doubles mixed(static_cast<size_t>(rows * channels)), out(static_cast<size_t>(rows * heads * value_dim));
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < channels; ++c) {
        double sum = 0;
        for (int64_t t = std::max<int64_t>(0, taps - 1 - r); t < taps; ++t) sum += at(kernels, c * taps + t) * at(inputs[s], (r - taps + 1 + t) * channels + c);
        mixed[static_cast<size_t>(r * channels + c)] = sum * logistic(sum);
      }
    }
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t key_head = order == HeadOrder::tiled ? h % shape.key_heads : h * shape.key_heads / heads;
      Doubles state(static_cast<size_t>(key_dim * value_dim));
      for (int64_t r = 0; r < rows; ++r) {
        const double* q = &mixed[static_cast<size_t>(r * channels + key_head * key_dim)];
        const double* k = q + keys;
        const double* v = &mixed[static_cast<size_t>(r * channels + 2 * keys + h * value_dim)];
        const double q_length = std::sqrt(std::inner_product(q, q + key_dim, q, 1e-6)), k_length = std::sqrt(std::inner_product(k, k + key_dim, k, 1e-6));
        const double d = std::exp(at(decay, h) * std::log1p(std::exp(at(alpha[s], r * heads + h) + at(bias, h)))), b = logistic(at(beta[s], r * heads + h));
        for (int64_t j = 0; j < value_dim; ++j) {
          double held = 0, sum = 0;
          for (int64_t i = 0; i < key_dim; ++i) held += (state[static_cast<size_t>(i * value_dim + j)] *= d) * k[i] / k_length;
          for (int64_t i = 0; i < key_dim; ++i) {
            double& cell = state[static_cast<size_t>(i * value_dim + j)];
            cell += k[i] / k_length * b * (v[j] - held);
            sum += cell * q[i] / q_length / std::sqrt(static_cast<double>(key_dim));
          }
          out[static_cast<size_t>((r * heads + h) * value_dim + j)] = sum;
        }
      }
    }
    return out;
  }

  // The same on the device, all sequences in each step, `chunk` rows of each at a time.
  std::vector<Floats> computed(int64_t chunk) const {
    const int64_t count = static_cast<int64_t>(lengths.size()), channels = shape.channels(), width = shape.value_heads * shape.value_dim;
    StateShape slots = shape;
    slots.slots = 2 * count;
    const DeviceArray<float> memory(slots.slot_bytes() / sizeof(float) * static_cast<size_t>(slots.slots));
    const StateCache states{slots, memory.get()};
    const DeviceArray<float> kernel(kernels), decays(decay), biases(bias);
    std::vector<Floats> out(lengths.size());
    int turn = 0;
    for (int64_t done = 0; done < *std::max_element(lengths.begin(), lengths.end()); done += chunk, turn = 1 - turn) {
      StepData step({count * chunk, 1, count, 1});
      Floats x, rates, gates;
      std::vector<int64_t> taken(lengths.size());
      size_t row = 0;
      for (int64_t n = count; n-- > 0;) {  // the last sequence stands first
        const size_t s = static_cast<size_t>(n);
        taken[s] = std::clamp<int64_t>(lengths[s] - done, 0, chunk);
        const auto part = [&](Floats& to, const Floats& from, int64_t cols) {
          to.insert(to.end(), from.begin() + std::min(done, lengths[s]) * cols, from.begin() + (std::min(done, lengths[s]) + taken[s]) * cols);
        };
        part(x, inputs[s], channels);
        part(rates, beta[s], shape.value_heads);
        part(gates, alpha[s], shape.value_heads);
        for (int64_t r = 0; r < taken[s]; ++r) step.sequences()[row++] = static_cast<int32_t>(s);
        step.states(n)[0] = done == 0 ? -1 : static_cast<int32_t>(2 * n + 1 - turn);
        step.states(n)[1] = static_cast<int32_t>(2 * n + turn);
      }
      const int64_t rows = static_cast<int64_t>(row);
      const DeviceStep on_device(step);
      const DeviceArray<float> in(x), b(rates), a(gates), convolved(x.size()), result(static_cast<size_t>(rows * width));
      cuda::convolve(nullptr, on_device.view(), kernel.get(), states, 1, in.get(), convolved.get(), rows);
      cuda::delta_net(nullptr, on_device.view(), {convolved.get(), b.get(), a.get(), decays.get(), biases.get()}, order, 1e-6f, states, 1, result.get(), rows);
      const Floats all = result.to_host();
      auto from = all.begin();
      for (size_t s = lengths.size(); s-- > 0; from += taken[s] * width) out[s].insert(out[s].end(), from, from + taken[s] * width);
    }
    return out;
  }
};

}  // namespace

TEST_CASE("DeltaNet follows its rule for every sequence of a step, with the same bits in any chunks") {
  for (const auto& [key_dim, value_dim] : {std::pair<int64_t, int64_t>{6, 5}, {64, 33}, {100, 32}, {130, 7}}) {
    in_every_order([key_dim = key_dim, value_dim = value_dim] {
      for (const HeadOrder order : {HeadOrder::tiled, HeadOrder::grouped}) {
        const Sequences sequences({2, 4, 2, 4, key_dim, value_dim, 0}, order, {9, 2, 5});
        const std::vector<Floats> whole = sequences.computed(9);
        INFO("keys of " << key_dim << ", values of " << value_dim);
        for (size_t s = 0; s < whole.size(); ++s) CHECK(worst_difference(whole[s], sequences.expected(s)) < 3e-6);
        CHECK(sequences.computed(1) == whole);
        CHECK(sequences.computed(4) == whole);
      }
    });
  }
}
