// text/repetition_guard: one token for ever (X7).
#include <catch2/catch.hpp>

#include "server/text/repetition_guard.hpp"

using vigil::text::RepetitionGuard;

TEST_CASE("The limit counts equal tokens in a row", "[repetition_guard]") {
  RepetitionGuard guard(3);
  CHECK(guard.push(5) == RepetitionGuard::State::fine);
  CHECK(guard.push(5) == RepetitionGuard::State::fine);
  CHECK(guard.push(6) == RepetitionGuard::State::fine);
  CHECK(guard.push(5) == RepetitionGuard::State::fine);
  CHECK(guard.push(5) == RepetitionGuard::State::fine);
  CHECK(guard.push(5) == RepetitionGuard::State::endless);
}

TEST_CASE("A limit of 0 is none", "[repetition_guard]") {
  RepetitionGuard guard(0);
  for (int i = 0; i < 1000; ++i) REQUIRE(guard.push(1) == RepetitionGuard::State::fine);
}
