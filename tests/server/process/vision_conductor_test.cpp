// The pure half of the vision child: one job at a time, in order, each bounded; what a request gets for whatever the child does. Time is moved.
#include "tests/server/process/vision_support.hpp"

using namespace vision_support;

TEST_CASE("The first picture starts the child; two pictures of a request are encoded in order and their rows go to the engine", "[vision]") {
  Room room;
  const auto ending = room.ask({"cat", "dog"});
  CHECK(room.hands.calls == Calls{"spawn 1"});
  CHECK(room.disk.calls.empty());
  room.ready();
  CHECK(room.disk.calls == Calls{"store 1 cat"});
  room.stored(1);
  CHECK(room.hands.calls.back() == "ENC /p/1 /o/1");
  room.say("OK 2 1 2 3.5");
  CHECK(room.disk.promised == RecordShape{2, 1, 2, 4});
  CHECK(room.vision.waiting() == 1);  // one at a time
  room.good(1);
  CHECK(room.disk.calls == Calls{"store 1 cat", "read 1", "discard 1", "store 2 dog"});
  room.stored(2);
  room.say("OK 3 3 1 1");
  room.good(2, 3);
  CHECK(room.disk.calls.back() == "join 1");
  REQUIRE(room.disk.joined.size() == 2);
  CHECK(room.disk.joined[0]->rows == 2);
  CHECK(room.disk.joined[1]->rows == 3);
  CHECK_FALSE(ending->has_value());
  room.vision.joined(room.last, room.embeddings({2, 3}));
  REQUIRE(room.port.starts.size() == 1);
  CHECK(room.port.starts[0].prompt == std::vector<turn::TokenId>{1, 2, 9, 9, 9, 9, 9});
  CHECK(room.port.starts[0].embeddings->path == "/e");
}

TEST_CASE("No READY: the limit by name, the tree is ended, the next picture starts another child", "[vision]") {
  Room room;
  room.hands.words = "loading projector";
  const auto first = room.ask(), second = room.ask();
  room.vision.spawned(77);
  room.say("INFO load=0.5");  // re-arms nothing
  room.pass(milliseconds(4999));
  CHECK_FALSE(first->has_value());
  room.pass(milliseconds(1));
  for (const auto& ending : {first, second}) {
    CHECK(error_of(ending).code == turn::ErrorCode::vision_unavailable);
    CHECK(error_of(ending).message == "the vision child did not report READY within 5 s (vision.ready_s); its last words: loading projector");
  }
  CHECK(room.hands.calls == Calls{"spawn 1", "terminate"});
  room.pass(Seconds(3));
  CHECK(room.hands.calls.back() == "kill");
  room.vision.tree_empty();
  CHECK(room.vision.child().state() == ChildState::failed);
  CHECK_FALSE(room.vision.deadline());
  room.ask();
  CHECK(room.hands.calls.back() == "spawn 2");
}

TEST_CASE("Silent in ENC: only the picture that it had ends; those that wait get the next child", "[vision]") {
  Room room;
  const auto first = room.ask(), second = room.ask({"dog"});
  room.ready();
  room.stored(1);
  room.pass(Seconds(2));
  CHECK(error_of(first).code == turn::ErrorCode::vision_unavailable);
  CHECK(error_of(first).message ==
        "the vision child was silent while it encoded messages[0].content[0]: no line for this request within 2 s (vision.encode_s)");
  CHECK_FALSE(second->has_value());
  CHECK(room.hands.calls.back() == "terminate");
  CHECK(room.disk.calls == Calls{"store 1 cat"});  // the child may still write: its files go with its tree
  room.vision.tree_empty();
  CHECK(room.disk.calls.back() == "discard 1");
  CHECK(room.hands.calls.back() == "spawn 2");
  room.ready();
  room.encoded(2);
  room.vision.joined(room.last, room.embeddings({2}));
  CHECK(room.port.starts.size() == 1);
}

TEST_CASE("INFO and strays do not count as an answer", "[vision]") {
  Room room;
  const auto ending = room.ask();
  room.ready();
  room.say("OK 5 5 1 1");  // before anything was asked
  room.say("ERR nobody asked");
  room.stored(1);
  for (int i = 0; i < 3; ++i) {
    room.pass(milliseconds(600));
    room.say("INFO step=1");
    room.say("READY 4");
    room.vision.stderr_output();
  }
  CHECK_FALSE(ending->has_value());
  room.pass(milliseconds(200));
  CHECK_THAT(error_of(ending).message, Contains("vision.encode_s"));
}

TEST_CASE("ERR is the picture's fault and names the part; an exit that follows joins the text", "[vision]") {
  Room room;
  const auto first = room.ask(), second = room.ask({"dog"});
  room.ready();
  room.stored(1);
  room.say("ERR not a PNG");
  CHECK_FALSE(first->has_value());
  CHECK(room.disk.calls == Calls{"store 1 cat"});  // nothing is given to a child that may be about to go
  SECTION("it lives on") {
    room.pass(milliseconds(200));
    CHECK(error_of(first).code == turn::ErrorCode::image_invalid);
    CHECK(error_of(first).message == "messages[0].content[0] could not be read: not a PNG");
    CHECK(error_of(first).param == "messages[0].content[0]");
    CHECK(room.disk.calls == Calls{"store 1 cat", "discard 1", "store 2 dog"});
    CHECK(room.vision.child().state() == ChildState::ready);
  }
  SECTION("it dies") {
    room.died();
    CHECK(error_of(first).code == turn::ErrorCode::image_invalid);
    CHECK(error_of(first).message == "messages[0].content[0] could not be read: not a PNG (killed by signal 11 (SIGSEGV))");
    CHECK_FALSE(second->has_value());
    CHECK(room.hands.calls.back() == "spawn 2");
  }
}

TEST_CASE("A crash in ENC names the signal; a second one in a row blocks the start, and pictures are refused at once", "[vision]") {
  Room room;
  const auto first = room.ask({"ant"});
  room.ready();
  room.stored(1);
  room.died();
  CHECK(error_of(first).message == "the vision child died while it encoded messages[0].content[0]: killed by signal 11 (SIGSEGV)");
  const auto second = room.ask({"bee"}), third = room.ask({"dog"});
  room.ready();
  room.stored(2);
  room.died();
  CHECK(error_of(second).code == turn::ErrorCode::vision_unavailable);
  CHECK(room.vision.child().state() == ChildState::backoff);
  CHECK_THAT(error_of(third).message, Contains("back-off") && Contains("engine.backoff_first_ms") && Contains("SIGSEGV"));
  CHECK(error_of(third).retry_after_s >= 10);
  CHECK(error_of(room.ask({"fox"})).retry_after_s >= 10);
  CHECK(room.hands.calls.back() != "spawn 3");
  room.pass(Seconds(12));
  CHECK(room.vision.child().state() == ChildState::failed);  // it waits for a picture
  room.ask({"gnu"});
  CHECK(room.hands.calls.back() == "spawn 3");
  room.ready();
  room.encoded(3);  // a right record proves the child
  CHECK(room.vision.child().failures() == 0);
}

TEST_CASE("An ERR that is not about the picture is nobody's fault but the child's", "[vision]") {
  Room room;
  const auto ending = room.ask({"cat"});
  room.ready();
  room.stored(1);
  room.say("ERR unavailable: its embeddings cannot be written: No space left on device");
  room.pass(milliseconds(200));
  CHECK(error_of(ending).code == turn::ErrorCode::vision_unavailable);
  CHECK(error_of(ending).message == "the vision child could not encode messages[0].content[0]: its embeddings cannot be written: No space left on device");
  CHECK(error_of(ending).param.empty());
  CHECK(room.vision.child().state() == ChildState::ready);
}

TEST_CASE("Pictures take turns: clients by turns, and the requests of one client by turns", "[vision]") {
  Room room;
  room.ask({"a1", "a2", "a3"}, "a");
  room.ask({"a4"}, "a");
  room.ask({"b1", "b2"}, "b");
  room.ready();
  Calls order;
  for (JobId job = 1; job <= 6; ++job) {
    order.push_back(room.disk.calls.back());
    room.encoded(job);
    while (room.disk.calls.back().starts_with("join")) room.disk.calls.pop_back();
  }
  CHECK(order == Calls{"store 1 a1", "store 2 b1", "store 3 a4", "store 4 b2", "store 5 a2", "store 6 a3"});
}

TEST_CASE("queue.wait_s bounds the time until a request's first picture has its turn; a load is not counted", "[vision]") {
  Room room(0, Seconds(1));
  const auto first = room.ask({"cat", "cow"}, "a");
  room.pass(Seconds(2));
  const auto second = room.ask({"dog"}, "b");
  room.pass(Seconds(2));
  CHECK_FALSE(first->has_value());
  room.ready();
  room.pass(milliseconds(600));
  const auto third = room.ask({"elk"}, "c");
  room.pass(milliseconds(399));
  CHECK_FALSE(second->has_value());
  room.pass(milliseconds(1));
  CHECK(error_of(second).code == turn::ErrorCode::queue_timeout);
  CHECK(error_of(second).message == "the request's pictures waited for their turn longer than queue.wait_s allows (1 s)");
  CHECK_FALSE(third->has_value());
  room.encoded(1);
  CHECK(room.disk.calls.back() == "store 2 cow");
  room.encoded(2);
  CHECK(room.disk.calls.back() == "store 3 elk");
  room.pass(milliseconds(1500));  // the first has had its turn, and so has the third: from now on vision.encode_s bounds them
  CHECK_FALSE(first->has_value());
  CHECK_FALSE(third->has_value());
}

TEST_CASE("Rows that do not fit the context end a request before its other pictures are encoded", "[vision]") {
  Room room;
  const auto ending = room.ask({"cat", "dog"});
  room.ready();
  room.stored(1);
  room.say("OK 997 1 997 1");
  SECTION("they fit with one token for the other") {
    room.good(1, 996);
    CHECK(room.disk.calls.back() == "store 2 dog");
    CHECK_FALSE(ending->has_value());
  }
  SECTION("they do not") {
    room.good(1, 997);
    CHECK(error_of(ending).code == turn::ErrorCode::context_length_exceeded);
    CHECK_THAT(error_of(ending).message, Contains("at least 1000 tokens") && Contains("engine.context"));
    CHECK(room.disk.calls.back() == "discard 1");
  }
}

TEST_CASE("Switched off, no picture starts the child again", "[vision]") {
  Room room;
  const auto first = room.ask({"cat"});
  room.ready();
  room.vision.switch_off();
  CHECK(error_of(first).code == turn::ErrorCode::vision_unavailable);
  CHECK_THAT(error_of(first).message, Contains("switched off") && Contains("vision.mmproj"));
  CHECK(room.hands.calls.back() == "terminate");
  room.vision.tree_empty();
  CHECK_THAT(error_of(room.ask({"dog"})).message, Contains("switched off"));  // it was being read when the configuration changed
  CHECK(room.hands.calls.back() == "terminate");
  room.stored(1);
  CHECK_FALSE(room.vision.deadline());
  room.vision.switch_on();
  CHECK_FALSE(room.ask({"dog"})->has_value());
  CHECK(room.hands.calls.back() == "spawn 2");
}

TEST_CASE("What is kept of pictures that the child died of is bounded in bytes", "[vision]") {
  PictureDeaths deaths;
  const auto picture = [](char byte, size_t bytes) { return turn::Picture{std::make_shared<const std::string>(bytes, byte), "", 7}; };
  const auto minute = std::chrono::minutes(1);
  const TimePoint now = TimePoint{} + std::chrono::hours(1);
  const auto a = picture('a', 30u << 20), b = picture('b', 30u << 20), c = picture('c', 30u << 20), huge = picture('h', 70u << 20);
  for (const auto& one : {a, b, a, c, c}) deaths.remember(one, 10 * minute, now);
  CHECK(deaths.bytes() == 60u << 20);
  CHECK(deaths.refuses(a, 2, 10 * minute, now));  // it died after b
  CHECK_FALSE(deaths.refuses(b, 1, 10 * minute, now));
  CHECK(deaths.refuses(c, 2, 10 * minute, now));
  deaths.remember(huge, 10 * minute, now);
  CHECK(deaths.bytes() == 70u << 20);
  CHECK(deaths.refuses(huge, 1, 10 * minute, now));
  deaths.remember(b, 10 * minute, now + 11 * minute);
  CHECK(deaths.bytes() == 30u << 20);  // what is long ago goes
}

TEST_CASE("A picture on which the child died twice is refused for ten minutes, and others are not", "[vision]") {
  Room room;
  room.ask({"evil"});
  room.ready();
  room.stored(1);
  room.died();
  const auto between = room.ask({"cat"});
  room.ready();
  room.encoded(2);
  room.vision.joined(room.last, room.embeddings({2}));
  room.ask({"evil"});
  room.stored(3);
  room.pass(Seconds(2));  // silent counts like a crash
  room.vision.tree_empty();
  const auto refused = room.ask({"dog", "evil", "evil"});
  CHECK(error_of(refused).code == turn::ErrorCode::image_invalid);
  CHECK(error_of(refused).message ==
        "messages[0].content[1] is refused for some minutes: the vision child died 2 times while it encoded this very picture.");
  CHECK(room.hands.calls.back() != "spawn 3");  // not even started for it
  const auto good = room.ask({"cat"});
  CHECK(room.hands.calls.back() == "spawn 3");
  room.hands.clock += std::chrono::minutes(11);
  const auto later = room.ask({"evil"});
  CHECK_FALSE(later->has_value());
}

TEST_CASE("Who leaves while encoding: its ENC is drained and holds the next for no longer than encode_s", "[vision]") {
  Room room;
  const auto gone = room.ask({"cat", "bird"});
  const auto gone_key = room.last;
  room.ready();
  SECTION("before its file is written") {
    room.desk.leave(gone_key, room.hands.clock);
    const auto next = room.ask({"dog"});
    room.stored(1);
    CHECK(room.disk.calls == Calls{"store 1 cat", "discard 1", "store 2 dog"});
    CHECK(room.hands.calls == Calls{"spawn 1"});
  }
  SECTION("while the child has it, and answers") {
    room.stored(1);
    room.desk.leave(gone_key, room.hands.clock);
    const auto next = room.ask({"dog"});
    CHECK(room.disk.calls == Calls{"store 1 cat"});
    room.say("OK 2 1 2 1");
    CHECK(room.disk.calls == Calls{"store 1 cat", "read 1"});  // nobody wants it, but a wrong record tells of a child that is out of step
    room.good(1);
    CHECK(room.disk.calls == Calls{"store 1 cat", "read 1", "discard 1", "store 2 dog"});
  }
  SECTION("while the child has it, and its OK was another picture's") {
    room.stored(1);
    room.desk.leave(gone_key, room.hands.clock);
    const auto next = room.ask({"dog"});
    room.say("OK 2 1 2 1");
    room.vision.was_read(1, Error{"its file is missing"});
    CHECK(room.hands.calls.back() == "terminate");
    room.vision.tree_empty();
    CHECK_FALSE(next->has_value());
    room.ready();
    CHECK(room.disk.calls == Calls{"store 1 cat", "read 1", "discard 1", "store 2 dog"});
  }
  SECTION("while the child has it, and hangs") {
    room.stored(1);
    room.desk.leave(gone_key, room.hands.clock);
    const auto next = room.ask({"dog"});
    room.pass(Seconds(2));
    room.vision.tree_empty();
    CHECK(room.hands.calls.back() == "spawn 2");
    CHECK_FALSE(next->has_value());
    room.ready();
    CHECK(room.disk.calls == Calls{"store 1 cat", "discard 1", "store 2 dog"});
  }
  SECTION("while its record is read") {
    room.stored(1);
    room.say("OK 2 1 2 1");
    room.desk.leave(gone_key, room.hands.clock);
    room.good(1);
    CHECK(room.disk.calls == Calls{"store 1 cat", "read 1", "discard 1"});
    CHECK(room.disk.joined.empty());
  }
  CHECK(std::holds_alternative<turn::Cancelled>((*gone)->how));
}

TEST_CASE("A picture that cannot be encoded ends its request; the others of that request are not tried", "[vision]") {
  Room room;
  const auto ending = room.ask({"cat", "dog", "bird"});
  room.ready();
  room.encoded(1);
  room.stored(2);
  room.say("ERR cut in the middle");
  room.pass(milliseconds(200));
  CHECK(error_of(ending).message == "messages[0].content[1] could not be read: cut in the middle");
  CHECK(room.vision.waiting() == 0);
  CHECK(room.disk.calls.back() == "discard 2");
}

TEST_CASE("An exit behind ERR is awaited for as much longer as the daemon was late", "[vision]") {
  Room room;
  const auto ending = room.ask({"cat"});
  room.ready();
  room.stored(1);
  room.say("ERR cut in the middle");
  room.vision.late(Seconds(1));
  room.pass(milliseconds(200));
  CHECK_FALSE(ending->has_value());
  room.pass(Seconds(1));
  CHECK(error_of(ending).message == "messages[0].content[0] could not be read: cut in the middle");
}

TEST_CASE("A start that fails, an exit before READY, ERR instead of READY", "[vision]") {
  Room room;
  const auto ending = room.ask();
  SECTION("spawn") {
    room.vision.spawn_failed("No such file or directory (vision.exe)");
    CHECK(error_of(ending).message == "the vision child could not be executed: No such file or directory (vision.exe)");
  }
  SECTION("exit") {
    room.vision.spawned(77);
    room.hands.words = "no projector";
    room.vision.exited("exited with status 1");
    CHECK(error_of(ending).message == "the vision child exited before READY: exited with status 1; its last words: no projector");
  }
  SECTION("ERR") {
    room.vision.spawned(77);
    room.say("ERR the projector is for another model");
    CHECK(error_of(ending).message == "the vision child said instead of READY: ERR the projector is for another model");
  }
  CHECK(error_of(ending).code == turn::ErrorCode::vision_unavailable);
}

TEST_CASE("Shutting down ends who waits, and nothing starts any more", "[vision]") {
  Room room;
  const auto first = room.ask(), second = room.ask({"dog"});
  room.ready();
  room.stored(1);
  room.vision.unload(Trouble::shutting_down, false);
  CHECK(error_of(first).code == turn::ErrorCode::shutting_down);
  CHECK(error_of(second).code == turn::ErrorCode::shutting_down);
  CHECK(room.hands.calls.back() == "terminate");
  const auto late = room.ask();
  CHECK(error_of(late).code == turn::ErrorCode::shutting_down);
  room.vision.tree_empty();
  CHECK(room.vision.child().state() == ChildState::unloaded);
  CHECK(room.hands.calls.back() == "terminate");
  CHECK_FALSE(room.vision.deadline());
}

TEST_CASE("A disk that hangs is bounded too, and accuses nobody", "[vision]") {
  Room room;
  const auto ending = room.ask();
  room.ready();
  SECTION("while the picture is written") {
    room.pass(Seconds(2));
    CHECK_THAT(error_of(ending).message, Contains("files of messages[0].content[0]") && Contains("2 s (vision.encode_s)"));
    room.stored(1);  // too late
    CHECK(room.disk.calls.back() == "discard 1");
  }
  SECTION("while the record is read") {
    room.stored(1);
    room.say("OK 2 1 2 1");
    room.pass(Seconds(2));
    CHECK_THAT(error_of(ending).message, Contains("files of messages[0].content[0]"));
    room.good(1);
  }
  SECTION("while they are joined") {
    room.encoded(1);
    room.pass(Seconds(2));
    CHECK_THAT(error_of(ending).message, Contains("embeddings") && Contains("vision.encode_s"));
    room.vision.joined(room.last, room.embeddings({2}));  // inert
  }
  SECTION("and a daemon that was late itself forgives it") {
    room.hands.clock += Seconds(60);
    room.vision.late(Seconds(58));
    room.vision.due();
    CHECK_FALSE(ending->has_value());
    room.encoded(1);
  }
  CHECK(room.vision.child().state() == ChildState::ready);
}

TEST_CASE("Files that cannot be written end their request", "[vision]") {
  Room room;
  const auto first = room.ask();
  room.ready();
  room.vision.stored(1, Error{"its file cannot be written: No space left on device"});
  CHECK(error_of(first).message == "messages[0].content[0] could not be given to the vision child: its file cannot be written: No space left on device");
  CHECK(error_of(first).code == turn::ErrorCode::vision_unavailable);
  const auto second = room.ask();
  room.encoded(2);
  room.vision.joined(room.last, Error{"No space left on device"});
  CHECK_THAT(error_of(second).message, Contains("No space left on device"));
}

TEST_CASE("A picture that is known needs no child", "[vision]") {
  Room room(1000);
  room.ask({"cat"});
  room.ready();
  room.encoded(1);
  room.vision.joined(room.last, room.embeddings({2}));
  room.disk.calls.clear();
  room.vision.unload(Trouble::unloaded, false);
  room.vision.tree_empty();
  room.hands.calls.clear();
  SECTION("at all when all are known") {
    room.ask({"cat", "cat"});
    CHECK(room.disk.calls == Calls{"join 2"});
    CHECK(room.disk.joined.size() == 2);
    CHECK(room.hands.calls.empty());
  }
  SECTION("for what is known") {
    room.ask({"cat", "dog"});
    CHECK(room.hands.calls == Calls{"spawn 2"});
    room.ready();
    CHECK(room.disk.calls == Calls{"store 2 dog"});
  }
  SECTION("unless another projector answers") {
    room.ask({"dog"});
    room.vision.spawned(78);
    room.say("READY 8");
    room.ask({"cat"});
    room.encoded(2);
    CHECK(room.disk.calls.back() == "store 3 cat");
  }
}

TEST_CASE("The same picture in two requests that wait is encoded once", "[vision]") {
  Room room(1000);
  room.ask({"cat"});
  const auto first = room.last;
  room.ask({"cat"});
  room.ready();
  room.encoded(1);
  room.vision.joined(first, room.embeddings({2}));
  room.vision.run_pending();
  CHECK(room.disk.calls == Calls{"store 1 cat", "read 1", "discard 1", "join 1", "join 2"});
}

TEST_CASE("The cache is bounded: the least recently used go", "[vision]") {
  const auto picture = [](int64_t bytes) {
    auto made = std::make_shared<EncodedPicture>();
    made->bytes = bytes;
    return made;
  };
  const auto text = [](const std::string& content) { return turn::Picture{std::make_shared<const std::string>(content), "", 7}; };  // no hash is trusted
  PictureCache cache(30);
  cache.add(text("a"), picture(9));
  cache.add(text("b"), picture(9));
  CHECK(cache.bytes() == 20);
  CHECK(cache.find(text("a")));
  cache.add(text("c"), picture(19));
  CHECK(cache.find(text("a")));
  CHECK_FALSE(cache.find(text("b")));
  cache.add(text("huge"), picture(1000));
  CHECK_FALSE(cache.find(text("huge")));
  CHECK(cache.bytes() == 30);
  cache.set_limit(0);
  CHECK_FALSE(cache.find(text("a")));
  CHECK(cache.bytes() == 0);
}
