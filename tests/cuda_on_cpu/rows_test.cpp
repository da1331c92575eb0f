// Norms, gates, rows by name, and the ops of experts against double precision, over odd shapes and in every order of threads.
#include <catch2/catch.hpp>

#include <numeric>

#include "engine/compute/cuda/op_kernels.hpp"
#include "op_support.hpp"

using namespace vigil::compute;

namespace {

double logistic(double value) { return 1 / (1 + std::exp(-value)); }

}  // namespace

TEST_CASE("RMS norm is that of each row, short or long, in place too") {
  in_every_order([] {
    for (const int64_t cols : {1, 31, 64, 129, 512, 513, 1100}) {
      for (const int64_t rows : {1, 3, 9}) {
        const Floats x = random_floats(rows * cols, 1), gain = random_floats(cols, 2);
        Doubles expected;
        for (int64_t r = 0; r < rows; ++r) {
          double sum = 0;
          for (int64_t c = 0; c < cols; ++c) sum += at(x, r * cols + c) * at(x, r * cols + c);
          for (int64_t c = 0; c < cols; ++c) expected.push_back(at(x, r * cols + c) / std::sqrt(sum / static_cast<double>(cols) + 1e-5) * at(gain, c));
        }
        const DeviceArray<float> in(x), gains(gain), out(x.size());
        cuda::rms_norm(nullptr, in.get(), gains.get(), 1e-5f, out.get(), cols, rows);
        INFO(cols << " columns, " << rows << " rows");
        CHECK(worst_difference(out.to_host(), expected) < 2e-6);
        cuda::rms_norm(nullptr, in.get(), gains.get(), 1e-5f, in.get(), cols, rows);
        CHECK(in.to_host() == out.to_host());
      }
    }
  });
}

TEST_CASE("values are added, scaled, gated and split at their own places") {
  in_every_order([] {
    for (const int64_t cols : {1, 7, 257}) {
      const int64_t rows = 3, count = rows * cols;
      const Floats a = random_floats(count, 1), b = random_floats(count, 2), bias = random_floats(cols, 3), joined = random_floats(2 * count, 4);
      const auto result = [&](const Floats& start, auto&& op) {
        const DeviceArray<float> into(start);
        op(into.get());
        return into.to_host();
      };
      const DeviceArray<float> from(b), biases(bias), both(joined), first(static_cast<size_t>(count)), second(static_cast<size_t>(count));
      Doubles added, biased, scaled, silu, clamped, each_gated, row_gated;
      for (int64_t i = 0; i < count; ++i) {
        const double x = at(a, i), y = at(b, i);
        added.push_back(x + y);
        biased.push_back(x + at(bias, i % cols));
        scaled.push_back(x * 1.5);
        silu.push_back(x * logistic(x) * y);
        const double low = std::min(20 * x, 7.0), middle = std::clamp(y, -7.0, 7.0);
        clamped.push_back(low * logistic(1.702 * low) * (middle + 1));
        each_gated.push_back(x * logistic(y));
        row_gated.push_back(x * logistic(at(b, i / cols)));
      }
      Floats wide = a;
      for (float& value : wide) value *= 20;
      CHECK(worst_difference(result(a, [&](float* into) { cuda::add(nullptr, into, from.get(), count); }), added) < 1e-6);
      CHECK(worst_difference(result(a, [&](float* into) { cuda::add_bias(nullptr, into, biases.get(), cols, rows); }), biased) < 1e-6);
      CHECK(worst_difference(result(a, [&](float* into) { cuda::scale(nullptr, into, 1.5f, count); }), scaled) < 1e-6);
      CHECK(worst_difference(result(a, [&](float* into) { cuda::gate(nullptr, Gate::silu, into, from.get(), count); }), silu) < 1e-6);
      CHECK(worst_difference(result(wide, [&](float* into) { cuda::gate(nullptr, Gate::clamped_silu, into, from.get(), count); }), clamped) < 1e-5);
      CHECK(worst_difference(result(a, [&](float* into) { cuda::sigmoid_gate(nullptr, into, from.get(), cols, cols, rows); }), each_gated) < 1e-6);
      CHECK(worst_difference(result(a, [&](float* into) { cuda::sigmoid_gate(nullptr, into, from.get(), 1, cols, rows); }), row_gated) < 1e-6);
      cuda::split(nullptr, both.get(), first.get(), second.get(), cols, rows);
      for (int64_t i = 0; i < count; ++i) {
        CHECK(first.to_host()[static_cast<size_t>(i)] == joined[static_cast<size_t>(i / cols * 2 * cols + i % cols)]);
        CHECK(second.to_host()[static_cast<size_t>(i)] == joined[static_cast<size_t>((i / cols * 2 + 1) * cols + i % cols)]);
      }
    }
  });
}

TEST_CASE("GELU is rounded to half precision between -10 and 10, as the ops say") {
  // The function's value at the half nearest to the input, itself a half, is far coarser than a float.
  const Floats g{0, 1.0003f, -2, 9.996f, -12, 12, 0.333f, -0.7501f};
  const Floats u(g.size(), 1.0f);
  const DeviceArray<float> gates(g), ups(u);
  cuda::gate(nullptr, Gate::gelu, gates.get(), ups.get(), static_cast<int64_t>(g.size()));
  const Floats ours = gates.to_host();
  for (size_t i = 0; i < g.size(); ++i) {
    if (std::abs(g[i]) >= 10) {
      CHECK(ours[i] == std::max(g[i], 0.0f));
      continue;
    }
    const double x = static_cast<double>(static_cast<float>(static_cast<_Float16>(g[i])));
    const double bent = x / 2 * (1 + std::tanh(0.797884560802865 * (x + 0.044715 * x * x * x)));
    CHECK(ours[i] == static_cast<float>(static_cast<_Float16>(bent)));
  }
}

TEST_CASE("pictures and outputs are the rows that the step names") {
  in_every_order([] {
    const int64_t cols = 300, rows = 4;
    const Floats text = random_floats(rows * cols, 1), pictures = random_floats(2 * cols, 2);
    StepData step({rows, 3, 1, 1});
    step.sources()[1] = 2;
    step.sources()[3] = 1;
    step.outputs()[0] = 3;
    step.outputs()[1] = 0;
    step.outputs()[2] = 1;
    const DeviceStep on_device(step);
    const DeviceArray<float> into(text), from(pictures), chosen(static_cast<size_t>(3 * cols));
    cuda::place_pictures(nullptr, on_device.view(), from.get(), into.get(), cols, rows);
    Floats expected = text;
    std::copy_n(pictures.begin() + cols, cols, expected.begin() + cols);
    std::copy_n(pictures.begin(), cols, expected.begin() + 3 * cols);
    CHECK(into.to_host() == expected);
    cuda::select_outputs(nullptr, on_device.view(), into.get(), chosen.get(), cols, 3);
    Floats picked;
    for (const int64_t row : {3, 0, 1}) picked.insert(picked.end(), expected.begin() + row * cols, expected.begin() + (row + 1) * cols);
    CHECK(chosen.to_host() == picked);
  });
}

TEST_CASE("experts are chosen by score, the lower place first, and summed by their shares") {
  in_every_order([] {
    for (const auto& [experts, used] : {std::pair<int64_t, int64_t>{1, 1}, {5, 2}, {33, 4}, {130, 8}, {128, 128}}) {
      const int64_t rows = 4, cols = 37;
      Floats logits = random_floats(rows * experts, 1);
      if (experts > 3) {
        logits[1] = logits[3] = 5;                                                            // equal ones
        logits[static_cast<size_t>(2 * experts + 1)] = std::nanf("");                         // lowest
        std::fill_n(logits.begin() + 3 * experts, experts, std::nanf(""));                    // no numbers at all
      }
      const Floats many = random_floats(rows * used * cols, 2), bias = random_floats(experts * cols, 3);
      const DeviceArray<float> scores(logits), choice(static_cast<size_t>(2 * rows * used)), in(many), biases(bias), out(static_cast<size_t>(rows * cols));
      cuda::route(nullptr, scores.get(), experts, used, choice.get(), rows);
      cuda::add_expert_bias(nullptr, in.get(), biases.get(), cols, choice.get(), used, rows);
      cuda::sum_experts(nullptr, in.get(), choice.get(), used, out.get(), cols, rows);
      const Floats chosen = choice.to_host(), ours = out.to_host();
      INFO(experts << " experts, " << used << " used");
      for (int64_t r = 0; r < rows; ++r) {
        std::vector<int64_t> order(static_cast<size_t>(experts));
        std::iota(order.begin(), order.end(), 0);
        const auto score = [&](int64_t e) { return std::isnan(at(logits, r * experts + e)) ? -HUGE_VAL : at(logits, r * experts + e); };
        std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return score(a) > score(b); });
        double all = 0;
        for (int64_t i = 0; i < used; ++i) all += std::exp(score(order[static_cast<size_t>(i)]) - score(order[0]));
        Doubles sums(static_cast<size_t>(cols));
        for (int64_t i = 0; i < used; ++i) {
          const int64_t expert = order[static_cast<size_t>(i)], place = r * used + i;
          REQUIRE(chosen[static_cast<size_t>(2 * place)] == static_cast<float>(expert));
          if (std::isinf(score(order[0]))) continue;  // a row without numbers has no shares either
          const double share = std::exp(score(expert) - score(order[0])) / all;
          CHECK(at(chosen, 2 * place + 1) == Approx(share).margin(1e-7));
          for (int64_t c = 0; c < cols; ++c) sums[static_cast<size_t>(c)] += (at(many, place * cols + c) + at(bias, expert * cols + c)) * share;
        }
        if (std::isinf(score(order[0]))) continue;
        CHECK(worst_difference(Floats(ours.begin() + r * cols, ours.begin() + (r + 1) * cols), sums) < 3e-6);
      }
    }
  });
}
