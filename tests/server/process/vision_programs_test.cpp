// The pure half of the vision child: which child is to be believed, what an older program's work is worth, and pictures that kill again.
#include <algorithm>

#include "tests/server/process/vision_support.hpp"

using namespace vision_support;

TEST_CASE("READY and OK alone prove nothing: who said OK for a wrong record is replaced, since it may be out of step", "[vision]") {
  Room room;
  const auto first = room.ask();
  room.ready();
  room.stored(1);
  room.died();
  const auto second = room.ask(), third = room.ask({"dog"});
  room.ready();
  room.stored(2);
  room.say("OK 2 1 2 1");
  room.vision.was_read(2, Error{"it does not begin with SVE1"});
  CHECK(error_of(second).message == "the vision child said OK for messages[0].content[0], but its record is wrong: it does not begin with SVE1");
  CHECK(error_of(second).code == turn::ErrorCode::vision_unavailable);
  CHECK(room.vision.child().failures() == 1);
  CHECK(room.hands.calls.back() == "terminate");
  CHECK(room.disk.calls.back() == "read 2");  // it may still write what it was told to: its files go with its tree
  room.say("OK 2 1 2 1");                     // for the picture that it has answered already
  room.vision.tree_empty();
  CHECK(room.disk.calls.back() == "discard 2");
  CHECK(room.hands.calls.back() == "spawn 3");
  CHECK_FALSE(third->has_value());
  room.ready();
  CHECK(room.disk.calls.back() == "store 3 dog");
}

TEST_CASE("A right record proves the child that wrote it, and no later one", "[vision]") {
  Room room;
  room.ask();
  room.ready();
  room.stored(1);
  room.say("OK 2 1 2 1");
  room.died();  // its record is still being read
  room.ask({"dog"});
  room.ready();
  CHECK(room.vision.child().failures() == 1);
  room.good(1);
  CHECK(room.vision.child().failures() == 1);
  room.encoded(2);
  CHECK(room.vision.child().failures() == 0);
}

TEST_CASE("A record that is read while the program changes is not kept for others", "[vision]") {
  Room room(1000);
  room.ask({"cat"});
  room.ready();
  room.stored(1);
  room.say("OK 2 1 2 1");
  SECTION("by the settings") {
    room.vision.settings_changed();
    room.good(1);
    CHECK(room.disk.calls.back() == "join 1");  // who came before the change is served
    room.vision.tree_empty();
    CHECK(room.vision.child().state() == ChildState::unloaded);
    room.ask({"cat"});
    room.ready();
  }
  SECTION("by the width of its rows") {
    room.died();
    room.vision.load();
    room.vision.spawned(78);
    room.say("READY 8");
    room.good(1);
    room.ask({"cat"});
  }
  CHECK(room.disk.calls.back() == "store 2 cat");
}

TEST_CASE("What an older program has encoded is not put beside what a newer one has: it is encoded anew, in order", "[vision]") {
  Room room(1000);
  room.ask({"cat", "dog", "bee"});
  room.ready();
  room.encoded(1);
  SECTION("while the next one is written") {
    room.vision.settings_changed();
    room.vision.tree_empty();
    room.stored(2);
    CHECK(room.hands.calls.back() == "spawn 2");
    room.ready();
    room.say("OK 3 3 1 1");
    room.good(2, 3);
    CHECK(room.disk.calls.back() == "store 3 cat");
    room.encoded(3);
    CHECK(room.disk.calls.back() == "store 4 bee");
    room.encoded(4);
    REQUIRE(room.disk.joined.size() == 3);
    CHECK(room.disk.joined[0]->rows == 2);
  }
  SECTION("with the last one of all") {
    room.stored(2);
    room.say("OK 2 1 2 1");
    room.good(2);
    room.vision.settings_changed();  // the third is being written
    room.vision.tree_empty();
    room.stored(3);
    room.ready();
    room.say("OK 3 3 1 1");
    room.good(3, 3);
    CHECK(room.disk.joined.empty());
    CHECK(room.disk.calls.back() == "store 4 cat");
    room.encoded(4);
    CHECK(room.disk.calls.back() == "store 5 dog");
    room.encoded(5);
    REQUIRE(room.disk.joined.size() == 3);
    CHECK(room.disk.joined[2]->rows == 3);
  }
}

TEST_CASE("A picture that kills the child a second time while it waits in another request is not tried a third time", "[vision]") {
  Room room(1000);
  const auto first = room.ask({"evil"});
  room.ready();
  const auto second = room.ask({"cat", "evil"}), third = room.ask({"bee", "evil"}), other = room.ask({"dog"});
  room.stored(1);
  room.died();
  room.ready();
  for (const JobId job : {2, 3, 4}) room.encoded(job);  // cat, bee, dog
  room.stored(5);
  room.died();
  room.ready();
  room.vision.run_pending();
  CHECK(error_of(third).code == turn::ErrorCode::image_invalid);
  CHECK_THAT(error_of(third).message, Contains("messages[0].content[1] is refused") && Contains("died 2 times"));
  CHECK(error_of(second).code == turn::ErrorCode::vision_unavailable);
  CHECK_FALSE(other->has_value());
  CHECK(std::count(room.disk.calls.begin(), room.disk.calls.end(), "store 6 evil") == 0);
}

TEST_CASE("Another program takes over as soon as no picture is with the child; who waits gets the new one", "[vision]") {
  Room room(1000);
  room.ask({"cat"});
  const auto waiting = room.ask({"dog"});
  SECTION("while it loads") {
    room.vision.settings_changed();
    room.ready();
    CHECK(room.hands.calls == Calls{"spawn 1", "terminate"});
  }
  SECTION("while a picture is written") {
    room.ready();
    room.vision.settings_changed();
    CHECK(room.hands.calls == Calls{"spawn 1", "terminate"});
    room.stored(1);
  }
  SECTION("while a picture is with it") {
    room.ready();
    room.stored(1);
    room.vision.settings_changed();
    CHECK(room.hands.calls.back() == "ENC /p/1 /o/1");
    room.say("OK 2 1 2 1");
    room.good(1);
    CHECK(room.hands.calls.back() == "terminate");
  }
  CHECK_FALSE(waiting->has_value());
  room.vision.tree_empty();
  CHECK(room.hands.calls.back() == "spawn 2");
  room.ready();
  CHECK(room.vision.child().state() == ChildState::ready);
  CHECK(room.disk.calls.back().starts_with("store"));
}
