// Round-robin over clients, first in first out within one.
#include <catch2/catch.hpp>

#include "server/turn/queue.hpp"

using vigil::turn::FairQueue;

TEST_CASE("one client is served first in, first out", "[queue]") {
  FairQueue queue;
  for (uint64_t key = 1; key <= 3; ++key) queue.push("a", key);
  CHECK(queue.front() == 1u);
  CHECK(queue.pop() == 1u);
  CHECK(queue.pop() == 2u);
  CHECK(queue.pop() == 3u);
  CHECK_FALSE(queue.pop());
}

TEST_CASE("a client with one request waits for at most two turns of one with fifty", "[queue]") {
  FairQueue queue;
  for (uint64_t key = 1; key <= 50; ++key) queue.push("many", key);
  REQUIRE(queue.pop() == 1u);
  queue.push("one", 100);
  CHECK(queue.pop() == 2u);
  CHECK(queue.pop() == 100u);
}

TEST_CASE("a request that leaves gives its place up, and its client with the last one", "[queue]") {
  FairQueue queue;
  queue.push("a", 1);
  queue.push("b", 2);
  queue.push("a", 3);
  CHECK(queue.remove(1));
  CHECK_FALSE(queue.remove(1));
  CHECK(queue.size() == 2);
  CHECK(queue.remove(2));
  CHECK(queue.pop() == 3u);
  CHECK(queue.empty());
}

TEST_CASE("a turn that was none is given back", "[queue]") {
  FairQueue queue;
  queue.push("a", 1);
  queue.push("a", 2);
  queue.push("b", 3);
  CHECK(queue.pop() == 1u);
  queue.give_back("a");
  CHECK(queue.pop() == 2u);
  queue.give_back("a");  // it waits no more
  CHECK(queue.pop() == 3u);
}
