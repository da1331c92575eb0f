// Products of every weight type against double precision, over odd shapes and in every order of threads; and that a row's result is the same to the bit
// whatever else a step has.
#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

#include "engine/compute/cpu/dequantise.hpp"
#include "engine/sample/random.hpp"
#include "product_support.hpp"

using namespace products;
using namespace vigil;
using compute::cuda::InputForm;
using gguf::TensorType;

namespace {

// Float sums of a few thousand terms; an offset's part of the sum may be larger than the sum of both.
constexpr double tolerance = 3e-6;

struct Shape {
  int64_t superblocks, weight_rows, rows;
};

std::string named(TensorType type, int64_t cols, int64_t weight_rows, int64_t rows) {
  return std::string(gguf::type_info(type)->name) + ": " + std::to_string(weight_rows) + " x " + std::to_string(cols) + ", " + std::to_string(rows) + " inputs";
}

void check(TensorType type, int64_t cols, int64_t weight_rows, int64_t rows) {
  INFO(named(type, cols, weight_rows, rows));
  const Weights weights(type, weight_rows, cols, static_cast<uint64_t>(cols + weight_rows));
  const Floats in = random_floats(rows * cols, static_cast<uint64_t>(rows), 3);
  const Reference reference = reference_of(weights, seen_input(type, in, rows, cols), rows);
  REQUIRE(worst_error(product_of(weights, in, rows), reference) < tolerance);
}

Floats row_of(const Floats& values, int64_t cols, int64_t row) {
  return {values.begin() + row * cols, values.begin() + (row + 1) * cols};
}

bool holds_quantised_columns(TensorType type) { return compute::cuda::input_form(type) == InputForm::bytes; }

}  // namespace

TEST_CASE("products of every type, every order: few inputs") {
  for (const TensorType type : types()) {
    in_every_order([&] {
      check(type, 256, 7, 1);
      check(type, 1280, 9, 3);
    });
  }
}

TEST_CASE("products of every type, every order: many inputs") {
  for (const TensorType type : types()) {
    in_every_order([&] { check(type, 512, 23, 17); });
  }
}

TEST_CASE("products over odd shapes") {
  constexpr Shape shapes[] = {{1, 1, 1}, {1, 129, 1}, {2, 7, 2}, {3, 64, 3}, {5, 7, 4}, {1, 64, 5}, {2, 1, 6}, {3, 7, 7}, {5, 1, 8},
                              {1, 129, 9}, {5, 7, 9}, {2, 64, 17}, {3, 7, 33}, {1, 64, 65}, {5, 1, 65}};
  for (const TensorType type : types()) {
    for (const Shape& shape : shapes) check(type, shape.superblocks * 256, shape.weight_rows, shape.rows);
  }
}

TEST_CASE("products of rows that are no whole number of chunks") {
  for (const TensorType type : types()) {
    const auto block = static_cast<int64_t>(gguf::type_info(type)->block_elements);
    if (block == 256) continue;
    for (const int64_t cols : {32, 96, 288, 736}) {
      for (const int64_t rows : {1, 2, 8, 10, 18}) check(type, cols, 11, rows);
    }
    if (block > 1) continue;
    for (const int64_t cols : {1, 37, 172, 259}) {
      for (const int64_t rows : {1, 4, 10, 18}) check(type, cols, 9, rows);
    }
  }
}

TEST_CASE("more columns than one slab of partial sums") {
  for (const TensorType type : {TensorType::q4_k, TensorType::f16, TensorType::f32}) {
    in_every_order([&] { check(type, 67 * 256, 3, 2); });
    check(type, 67 * 256, 3, 17);
  }
}

TEST_CASE("a row's result does not depend on how many rows a step has, to the bit") {
  for (const TensorType type : types()) {
    for (const int capability : {75, 90}) {
      INFO(gguf::type_info(type)->name << " at compute capability " << capability);
      const cuda_on_cpu::Options before = cuda_on_cpu::options;
      cuda_on_cpu::options.compute_capability = capability;
      const int64_t cols = 768, rows = 70, weight_rows = 19;
      const Weights weights(type, weight_rows, cols, 5);
      const Floats in = random_floats(rows * cols, 6, 2), all = product_of(weights, in, rows);
      for (const int64_t row : {0, 7, 8, 41, 63, 64, 69}) {
        const Floats one = product_of(weights, row_of(in, cols, row), 1);
        CHECK(one == row_of(all, weight_rows, row));
      }
      for (const int64_t count : {2, 3, 5, 8, 9, 16, 20}) {
        const Floats some = product_of(weights, {in.begin(), in.begin() + count * cols}, count);
        CHECK(some == Floats(all.begin(), all.begin() + count * weight_rows));
      }
      cuda_on_cpu::options = before;
    }
  }
}

TEST_CASE("the small tensor-core shapes of compute capability 7.5 give what the large ones do") {
  const cuda_on_cpu::Options before = cuda_on_cpu::options;
  for (const TensorType type : types()) {
    INFO(gguf::type_info(type)->name);
    const Weights weights(type, 17, 512, 3);
    const Floats in = random_floats(18 * 512, 4);
    cuda_on_cpu::options.compute_capability = 75;
    const Floats small = product_of(weights, in, 18);
    cuda_on_cpu::options.compute_capability = 80;
    CHECK(product_of(weights, in, 18) == small);
  }
  cuda_on_cpu::options = before;
}

TEST_CASE("inputs of any size keep their accuracy: rows of halves have a power of two of their own") {
  for (const TensorType type : {TensorType::f16, TensorType::bf16}) {
    const Weights weights(type, 9, 320, 7);
    for (const float size : {1e-30f, 1e-6f, 1e6f, 1e30f}) {
      INFO(size);
      Floats in = random_floats(2 * 320, 8, size);
      for (int64_t i = 0; i < 320; ++i) in[static_cast<size_t>(i)] *= 1e-3f;  // rows differ
      CHECK(worst_error(product_of(weights, in, 2), reference_of(weights, seen_input(type, in, 2, 320), 2)) < tolerance);
    }
  }
}

TEST_CASE("zeros give zeros; what is no number stays none, in its own row alone") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  for (const TensorType type : types()) {
    for (const int64_t rows : {3, 11, 18}) {
      for (const float bad : {nan, infinity}) {
        INFO(named(type, 256, 5, rows) << ", " << bad);
        const Weights weights(type, 5, 256, 9);
        Floats in = random_floats(rows * 256, 10);
        std::fill_n(in.begin(), 256, 0.0f);
        in[256 + 77] = bad;
        const Floats out = product_of(weights, in, rows);
        CHECK(row_of(out, 5, 0) == Floats(5, 0.0f));
        for (const float value : row_of(out, 5, 1)) CHECK_FALSE(std::isfinite(value));
        for (int64_t row = 2; row < rows; ++row) {
          for (const float value : row_of(out, 5, row)) CHECK(std::isfinite(value));
        }
      }
    }
  }
}

TEST_CASE("one prepared input serves weights that want the same form") {
  const Floats in = random_floats(3 * 512, 11);
  const DeviceArray<float> from(in);
  const DeviceArray<std::byte> scratch(compute::cuda::product_scratch_bytes(3, 512));
  compute::cuda::prepare_input(nullptr, InputForm::bytes, from.get(), 3, 512, scratch.get());
  for (const TensorType type : {TensorType::q8_0, TensorType::q6_k}) {
    REQUIRE(holds_quantised_columns(type));
    const Weights weights(type, 10, 512, 12);
    const DeviceArray<float> to(30);
    compute::cuda::product_of_prepared(nullptr, weights.matrix(), scratch.get(), to.get(), 3);
    CHECK(to.to_host() == product_of(weights, in, 3));
  }
}

TEST_CASE("rows looked up are the format's own to the bit") {
  for (const TensorType type : types()) {
    in_every_order([&] {
      const int64_t cols = gguf::type_info(type)->block_elements > 1 ? 512 : 37;
      INFO(named(type, cols, 21, 6));
      const Weights table(type, 21, cols, 13);
      const std::vector<int32_t> ids{20, 0, 7, 8, 20, 15};
      const DeviceArray<int32_t> device_ids(ids);
      const DeviceArray<float> to(ids.size() * static_cast<size_t>(cols));
      compute::cuda::embed(nullptr, table.matrix(), device_ids.get(), to.get(), static_cast<int64_t>(ids.size()));
      const Floats out = to.to_host();
      for (size_t i = 0; i < ids.size(); ++i) CHECK(row_of(out, cols, static_cast<int64_t>(i)) == row_of(table.values(), cols, ids[i]));
    });
  }
}

TEST_CASE("blocks of any bits: codes and scales at the ends of their ranges") {
  for (const TensorType type : types()) {
    const auto info = *gguf::type_info(type);
    if (info.block_elements == 1) continue;
    INFO(info.name);
    const int64_t cols = 1024, rows = 8;
    sample::Random random(14);
    std::vector<std::byte> file(static_cast<size_t>(rows * cols) / info.block_elements * info.block_bytes);
    for (std::byte& byte : file) byte = static_cast<std::byte>(random.next());
    if (type == TensorType::mxfp4) {
      constexpr int exponents[] = {0, 1, 2, 3, 127, 253, 254, 255};
      for (size_t block = 0; block < file.size() / 17; ++block) file[block * 17] = static_cast<std::byte>(exponents[block % 8]);
    }
    const Weights table(type, rows, cols, std::move(file));
    const std::vector<int32_t> ids{0, 1, 2, 3, 4, 5, 6, 7};
    const DeviceArray<float> to(static_cast<size_t>(rows * cols));
    compute::cuda::embed(nullptr, table.matrix(), DeviceArray<int32_t>(ids).get(), to.get(), rows);
    const Floats out = to.to_host();
    for (size_t i = 0; i < out.size(); ++i) {
      const float wanted = table.values()[i];
      if (std::isnan(wanted) ? !std::isnan(out[i]) : out[i] != wanted) FAIL("value " << i << " is " << out[i] << " instead of " << wanted);
    }
  }
}

TEST_CASE("BF16 values of any size come back exactly where the row's largest is within 2^31 of them") {
  const std::vector<std::vector<uint16_t>> rows{
      {0x0001, 0x8001, 0x007f, 0x0080, 0x00ff, 0x0100, 0x8000, 0x0000},  // subnormal and just above
      {0x7f7f, 0xff7f, 0x7f00, 0x7000, 0x7080, 0xf081, 0x0000, 0x7eff},  // the largest there is
      {0x3f80, 0xbf81, 0x3080, 0x3101, 0x3fff, 0x0000, 0x37ff, 0x4000},
  };
  std::vector<std::byte> file;
  for (const auto& row : rows) {
    for (const uint16_t bits : row) file.insert(file.end(), {static_cast<std::byte>(bits & 255), static_cast<std::byte>(bits >> 8)});
  }
  const Weights table(TensorType::bf16, 3, 8, std::move(file));
  const DeviceArray<float> to(24);
  compute::cuda::embed(nullptr, table.matrix(), DeviceArray<int32_t>(std::vector<int32_t>{0, 1, 2}).get(), to.get(), 3);
  CHECK(to.to_host() == table.values());
}

TEST_CASE("which types have a kernel") {
  for (const TensorType type : types()) CHECK(compute::cuda::has_product_kernel(type));
  for (const TensorType type : {TensorType::q4_1, TensorType::q2_k, TensorType::iq2_xxs, TensorType::nvfp4, TensorType::i32}) {
    CHECK_FALSE(compute::cuda::has_product_kernel(type));
  }
}
