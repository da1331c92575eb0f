// Which experts have a copy, by how often they are used.
#include <catch2/catch.hpp>

#include <random>

#include "engine/compute/expert_residency.hpp"

using vigil::compute::ExpertResidency;
using Changes = std::vector<ExpertResidency::Change>;

namespace {

void use(ExpertResidency& residency, size_t layer, int64_t expert, int times) {
  for (int i = 0; i < times; ++i) residency.used(layer, expert);
}

}  // namespace

TEST_CASE("at first the first experts have the slots, and without use nothing changes") {
  ExpertResidency residency;
  CHECK(residency.add_layer(5, 2, 10) == 0);
  CHECK(residency.add_layer(5, 5, 10) == 1);
  for (int64_t expert = 0; expert < 5; ++expert) {
    CHECK(residency.slot_of(0, expert) == (expert < 2 ? expert : -1));
    CHECK(residency.slot_of(1, expert) == expert);
  }
  CHECK(residency.expert_in(0, 1) == 1);
  CHECK(residency.change(1000).empty());
}

TEST_CASE("the most used experts get the slots of the least used, those that gain most first") {
  ExpertResidency residency;
  residency.add_layer(5, 2, 10);
  residency.add_layer(5, 2, 10);
  use(residency, 0, 0, 4);
  use(residency, 0, 1, 1);
  use(residency, 0, 3, 3);
  use(residency, 0, 4, 9);
  use(residency, 1, 2, 5);
  CHECK(residency.change(1000) == Changes{{0, 1, 4}, {1, 0, 2}});  // a gain of 8, one of 5; expert 3's 3 are fewer than expert 0's 4
  CHECK(residency.slot_of(0, 4) == 1);
  CHECK(residency.slot_of(0, 1) == -1);
  CHECK(residency.expert_in(0, 1) == 4);
  CHECK(residency.change(1000).empty());
}

TEST_CASE("no more is changed than the bytes allow, and what was left comes next") {
  ExpertResidency residency;
  residency.add_layer(6, 3, 10);
  residency.add_layer(6, 3, 100);
  for (const int64_t expert : {3, 4, 5}) use(residency, 0, expert, 8 * static_cast<int>(expert));
  use(residency, 1, 5, 100);
  CHECK(residency.change(9).empty());
  CHECK(residency.change(29) == Changes{{0, 0, 5}, {0, 1, 4}});  // the other layer's slot is larger than all of it
  CHECK(residency.change(129) == Changes{{1, 0, 5}, {0, 2, 3}});
}

TEST_CASE("what was used long ago counts ever less") {
  ExpertResidency residency;
  residency.add_layer(3, 1, 1);
  use(residency, 0, 0, 16);
  int rounds = 0;
  while (residency.slot_of(0, 2) < 0 && rounds < 100) {
    use(residency, 0, 2, 3);
    residency.change(1);
    ++rounds;
  }
  CHECK(rounds == 3);  // 16 against 3, 8 against 1 + 3, 4 against 2 + 3
}

TEST_CASE("whatever is used, a slot has one expert and an expert one slot at most") {
  std::mt19937 random(5);
  ExpertResidency residency;
  const int64_t experts = 12, slots = 5;
  residency.add_layer(experts, slots, 3);
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 20; ++i) residency.used(0, static_cast<int64_t>(random() % experts));
    const size_t changes = residency.change(random() % 12).size();
    CHECK(changes <= 3);
    int64_t with = 0;
    for (int64_t expert = 0; expert < experts; ++expert) {
      const int64_t slot = residency.slot_of(0, expert);
      if (slot < 0) continue;
      ++with;
      REQUIRE(slot < slots);
      CHECK(residency.expert_in(0, slot) == expert);
    }
    CHECK(with == slots);
  }
}
