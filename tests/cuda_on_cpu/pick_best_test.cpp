// The best scores of a row in every order of threads: one tile and many, equal scores, and what is no score.
#include <catch2/catch.hpp>

#include <limits>

#include "engine/compute/cuda/op_kernels.hpp"
#include "op_support.hpp"

using namespace vigil::compute;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

void check(const Floats& scores, int64_t cols, int64_t count) {
  const int64_t rows = static_cast<int64_t>(scores.size()) / cols;
  const DeviceArray<float> in(scores), picked(static_cast<size_t>(2 * rows * count));
  const DeviceArray<std::byte> scratch(cuda::pick_scratch_bytes(cols, rows));
  cuda::pick_best(nullptr, in.get(), cols, count, scratch.get(), picked.get(), rows);
  Floats expected;
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < cols; ++i) {
      if (scores[static_cast<size_t>(r * cols + i)] > -infinity) ids.push_back(i);
    }
    std::stable_sort(ids.begin(), ids.end(), [&](int64_t a, int64_t b) { return at(scores, r * cols + a) > at(scores, r * cols + b); });
    ids.resize(static_cast<size_t>(count), -1);
    for (const int64_t id : ids) {
      expected.push_back(static_cast<float>(id));
      expected.push_back(id < 0 ? -infinity : scores[static_cast<size_t>(r * cols + id)]);
    }
  }
  INFO(count << " of " << cols);
  CHECK(picked.to_host() == expected);
}

}  // namespace

TEST_CASE("the best scores are picked in order, equal ones by the lower id, and never what is no score") {
  in_every_order([] {
    for (const int64_t cols : {1, 64, 65, 700, 4096, 9000}) {
      Floats scores = random_floats(2 * cols, static_cast<uint64_t>(cols));
      for (int64_t i = 0; i < cols; ++i) scores[static_cast<size_t>(cols + i)] = std::round(scores[static_cast<size_t>(i)] * 9);  // equal ones, and both zeros
      scores.back() = 1000;  // the last of the last tile
      check(scores, cols, most_picked);
      check(scores, cols, 3);
    }
  });
  Floats few(300, -infinity);
  few[0] = few[299] = std::nanf("");
  few[7] = infinity;
  few[20] = -0.0f;  // as good as plus zero
  few[90] = 0.0f;
  few[100] = std::numeric_limits<float>::lowest();
  check(few, 300, most_picked);
  check(Floats(300, std::nanf("")), 300, 5);
  check(random_floats(64 * 4096 * 2 + 9, 1), 64 * 4096 * 2 + 9, most_picked);  // twice more tiles than a block takes at once
}
