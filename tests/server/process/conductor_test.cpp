// The decisions of the engine's conductor, with hands that only write down what they are told. What it does over whole lives is shown by
// the simulation (tests/sim), with real processes by driver_test.
#include <algorithm>
#include <chrono>

#include "server/process/conductor.hpp"
#include "tests/server/process/recorder.hpp"

using namespace process_support;

namespace {

supervise::ChildLimits limits() {
  supervise::ChildLimits all = unhurried_limits();
  all.cancel = Seconds(10);
  all.silence = Seconds(100);
  return all;
}

struct Room {
  Recorder hands;
  Conductor engine{limits(), hands};
  turn::Desk desk{turn::DeskLimits{}, engine};
  turn::RequestKey last = 0;

  Room() { engine.attach(desk); }
  Ending ask(const std::string& id = "r") {
    auto ending = std::make_shared<std::optional<turn::Ending>>();
    turn::Request request;
    request.id = id;
    request.client = "c";
    request.prompt = {1, 2};
    last = desk.submit(std::move(request), std::make_unique<Sink>(ending), hands.clock);
    engine.run_pending();
    return ending;
  }
  void say(std::string_view line) { engine.stdout_line(line, false); }
  Ending running(const std::string& ready = "READY 1000 stop ids slots=4") {
    auto ending = ask();
    engine.spawned(77);
    say(ready);
    engine.run_pending();
    REQUIRE(hands.calls.back().find("GEN ") == 0);
    return ending;
  }
  // Time moves, and whatever is due by then is done at its time.
  void pass(Duration time) {
    const TimePoint end = hands.clock + time;
    for (auto due = engine.deadline(); due && *due <= end; due = engine.deadline()) {
      hands.clock = std::max(hands.clock, *due);
      engine.due();
    }
    hands.clock = end;
  }
  bool said(const std::string& order) const { return std::find(hands.calls.begin(), hands.calls.end(), order) != hands.calls.end(); }
};

}  // namespace

TEST_CASE("An ERR ends its request when the engine exits, and says how it exited", "[process]") {
  Room room;
  const auto ending = room.running();
  room.say("@1 ERR out of memory");
  room.pass(milliseconds(199));
  CHECK_FALSE(ending->has_value());
  room.engine.exited("exit status 1");
  room.engine.tree_empty();
  CHECK(error_of(ending).code == turn::ErrorCode::engine_error);
  CHECK_THAT(error_of(ending).message, Contains("out of memory") && Contains("exit status 1"));
}

TEST_CASE("An ERR whose engine lives on ends its request after 200 ms", "[process]") {
  Room room;
  const auto ending = room.running();
  room.say("@1 ERR out of memory");
  room.pass(milliseconds(199));
  CHECK_FALSE(ending->has_value());
  room.pass(milliseconds(1));
  CHECK_THAT(error_of(ending).message, Contains("out of memory"));
  CHECK(room.engine.child().ready().has_value());
  CHECK(room.engine.strays() == 0);
}

TEST_CASE("The exit behind an ERR is awaited for as much longer as the daemon was late", "[process]") {
  Room room;
  const auto ending = room.running();
  room.say("@1 ERR out of memory");
  room.engine.late(Seconds(1));
  room.pass(milliseconds(1199));
  CHECK_FALSE(ending->has_value());
  room.pass(milliseconds(1));
  CHECK_THAT(error_of(ending).message, Contains("out of memory"));
}

TEST_CASE("A daemon that was late gives a cancelled request as much longer to be given up", "[process]") {
  Room room;
  const auto ending = room.running();
  room.desk.leave(room.last, room.hands.clock);
  room.engine.run_pending();
  REQUIRE(room.said("STOP 1"));
  CHECK(std::holds_alternative<turn::Cancelled>((*ending)->how));
  room.pass(Seconds(9));
  room.hands.clock += Seconds(30);
  room.engine.late(Seconds(30));
  room.pass(milliseconds(999));
  CHECK_FALSE(room.said("terminate"));
  room.pass(milliseconds(1));
  CHECK(room.said("terminate"));
}

TEST_CASE("A limit that a reload made shorter is judged at the next look, and looks are 10 ms apart", "[process]") {
  Room room;
  room.running();
  room.desk.leave(room.last, room.hands.clock);
  room.engine.run_pending();
  room.pass(Seconds(5));  // a look has just been taken
  auto shorter = limits();
  shorter.cancel = Seconds(2);
  room.engine.set_limits(shorter);
  CHECK_FALSE(room.said("terminate"));
  room.pass(milliseconds(10));
  CHECK(room.said("terminate"));
}

TEST_CASE("A late line of a request that was cancelled says nothing to the next", "[process]") {
  Room room;
  const auto first = room.running();
  room.desk.leave(room.last, room.hands.clock);
  room.engine.run_pending();
  const auto second = room.ask("s");
  room.say("@1 ERR cut off");
  room.say("@1 DONE 0 2 1 1 cancel");
  room.pass(Seconds(1));
  CHECK(std::holds_alternative<turn::Cancelled>((*first)->how));
  CHECK_FALSE(second->has_value());
}
