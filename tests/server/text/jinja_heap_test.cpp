// text/jinja/heap: memory of one rendering. What lies in a block with others is never given back, whatever its size and place.
#include <catch2/catch.hpp>

#include <cstring>

#include "server/text/jinja/failure.hpp"
#include "server/text/jinja/heap.hpp"

using namespace vigil::text::jinja;

namespace {

constexpr size_t large = 100'000, limit = 1'000'000;

}  // namespace

TEST_CASE("heap: large pieces go when they are given back, and count no more") {
  Heap heap(limit);
  for (int i = 0; i < 100; ++i) {
    void* piece = heap.take(large);
    std::memset(piece, i, large);
    heap.give_back(piece, large);
  }
  CHECK(heap.used_bytes() < limit / 2);
}

TEST_CASE("heap: a piece that grew to a large one at the very beginning of a block stays") {
  Heap heap(limit);
  for (int i = 0; i < 3; ++i) heap.take(15'000);  // so that the next block has room for a large piece
  char* piece = static_cast<char*>(heap.take(30'000));
  size_t bytes = 30'000;
  while (heap.extend(piece, bytes, bytes + 16)) bytes += 16;
  REQUIRE(bytes > 32'768);
  std::memset(piece, 1, bytes);
  const size_t used = heap.used_bytes();
  heap.give_back(piece, bytes);
  CHECK(heap.used_bytes() == used);
  CHECK(piece[bytes - 1] == 1);
}

TEST_CASE("heap: what is over the limit is refused") {
  Heap heap(limit);
  CHECK_THROWS_AS(heap.take(limit + 1), Failure);
  CHECK_THROWS_AS(heap.array<double>(size_t{1} << 62), Failure);
}
