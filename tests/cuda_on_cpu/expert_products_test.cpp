// Routed products: each choice's row is what its expert's matrix alone would give, to the bit, whether choices are sorted by expert or not.
#include <catch2/catch.hpp>

#include <cmath>
#include <string>

#include "engine/sample/random.hpp"
#include "product_support.hpp"

using namespace products;
using namespace vigil;
using gguf::TensorType;

namespace {

struct Case {
  int64_t rows, used, experts, out_cols, cols;
  bool input_per_choice;
  bool gaps = false;  // every third choice is none
};

// Experts that differ within a row; some may be nobody's choice.
Floats random_choice(const Case& with, uint64_t seed) {
  sample::Random random(seed);
  Floats choice;
  for (int64_t row = 0; row < with.rows; ++row) {
    const uint64_t first = random.next() % static_cast<uint64_t>(with.experts);
    for (int64_t k = 0; k < with.used; ++k) {
      const int64_t expert = static_cast<int64_t>((first + static_cast<uint64_t>(k)) % static_cast<uint64_t>(with.experts));
      choice.push_back(static_cast<float>(with.gaps && choice.size() % 6 == 0 ? -1 - expert : expert));
      choice.push_back(1.0f / static_cast<float>(with.used));
    }
  }
  return choice;
}

void check(TensorType type, const Case& with) {
  INFO(gguf::type_info(type)->name << ": " << with.rows << " rows, " << with.used << " of " << with.experts << " experts of " << with.out_cols << " x " << with.cols);
  const Weights all(type, with.experts * with.out_cols, with.cols, 21);
  const Floats choice = random_choice(with, 22);
  const int64_t input_rows = with.input_per_choice ? with.rows * with.used : with.rows;
  const Floats in = random_floats(input_rows * with.cols, 23, 2);

  const DeviceArray<float> from(in), choices(choice), to(static_cast<size_t>(with.rows * with.used * with.out_cols));
  const DeviceArray<std::byte> scratch(compute::cuda::expert_scratch_bytes(with.rows, with.used, with.experts, with.cols));
  compute::cuda::expert_product(nullptr, all.matrix(), with.out_cols, {choices.get(), with.rows, with.used, with.experts, with.input_per_choice}, from.get(),
                                to.get(), scratch.get());
  const Floats out = to.to_host();

  for (int64_t i = 0; i < with.rows * with.used; ++i) {
    if (choice[static_cast<size_t>(2 * i)] >= 0) continue;
    for (int64_t c = 0; c < with.out_cols; ++c) REQUIRE(std::isnan(out[static_cast<size_t>(i * with.out_cols + c)]));  // as it was
  }
  for (int64_t expert = 0; expert < with.experts; ++expert) {
    const Weights one(all, expert * with.out_cols, with.out_cols);
    const Floats every_row = product_of(one, in, input_rows);
    for (int64_t i = 0; i < with.rows * with.used; ++i) {
      if (static_cast<int64_t>(choice[static_cast<size_t>(2 * i)]) != expert) continue;
      const int64_t input = with.input_per_choice ? i : i / with.used;
      const Floats got(out.begin() + i * with.out_cols, out.begin() + (i + 1) * with.out_cols);
      const Floats wanted(every_row.begin() + input * with.out_cols, every_row.begin() + (input + 1) * with.out_cols);
      REQUIRE(got == wanted);
    }
  }
}

}  // namespace

TEST_CASE("expert products, few choices: every type, every order") {
  for (const TensorType type : types()) {
    in_every_order([&] {
      check(type, {1, 2, 4, 16, 256, false});
      check(type, {3, 2, 5, 20, 256, true});  // experts begin within a group of 8 rows
    });
  }
}

TEST_CASE("expert products, choices sorted by expert: every type, every order") {
  for (const TensorType type : types()) {
    in_every_order([&] { check(type, {13, 2, 3, 12, 256, false}); });
  }
}

TEST_CASE("expert products leave what is no choice as it is: every type, few choices and sorted ones") {
  for (const TensorType type : types()) {
    in_every_order([&] {
      check(type, {3, 2, 5, 16, 256, false, true});
      check(type, {13, 2, 3, 12, 256, true, true});
    });
  }
}

TEST_CASE("expert products where an expert has more inputs than a tile, and another none") {
  for (const TensorType type : {TensorType::mxfp4, TensorType::q6_k, TensorType::bf16}) {
    check(type, {150, 1, 2, 9, 256, false});
    check(type, {40, 2, 2, 9, 512, true});
    check(type, {20, 4, 12, 8, 256, true});
  }
}
