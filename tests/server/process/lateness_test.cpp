// How late the loop is, whatever it does first after it stood still.
#include "server/process/lateness.hpp"

#include <catch2/catch.hpp>

using namespace std::chrono_literals;
using vigil::Duration;
using vigil::TimePoint;
using vigil::process::Lateness;

TEST_CASE("a loop on time, or nearly so, is not late") {
  Lateness lateness;
  const TimePoint t{};
  CHECK(lateness.take(250ms, t + 1h) == Duration::zero());  // nothing was due
  lateness.armed(t + 10s, t);
  CHECK(lateness.take(250ms, t + 9s) == Duration::zero());
  CHECK(lateness.take(250ms, t + 10s + 250ms) == Duration::zero());
  CHECK(lateness.take(250ms, t + 10s + 251ms) == 251ms);
}

TEST_CASE("lateness is told once") {
  Lateness lateness;
  const TimePoint t{};
  lateness.armed(t + 1s, t);
  CHECK(lateness.take(250ms, t + 6s) == 5s);
  CHECK(lateness.take(250ms, t + 6s) == Duration::zero());
  CHECK(lateness.take(250ms, t + 7s) == 1s);  // and late again
}

TEST_CASE("a deadline that was past when it was set makes nobody late") {
  Lateness lateness;
  const TimePoint t{};
  lateness.armed(t + 1s, t + 5s);
  CHECK(lateness.take(250ms, t + 5s) == Duration::zero());
  CHECK(lateness.take(250ms, t + 6s) == 1s);
}

TEST_CASE("no deadline, no lateness") {
  Lateness lateness;
  const TimePoint t{};
  lateness.armed(t + 1s, t);
  lateness.armed({}, t);
  CHECK(lateness.take(250ms, t + 6s) == Duration::zero());
}
