// Pictures that are fetched before they are encoded: what reaches the encoder, what is fetched once, who is told of a failure, who leaves.
#include <catch2/catch.hpp>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/fetch/fetching_encoder.hpp"

using namespace vigil;
using namespace vigil::fetch;

namespace {

struct Fetches final : Fetching {
  struct Order {
    std::string url;
    TimePoint deadline;
    std::function<void(Outcome)> done;
  };
  std::map<FetchId, Order> open;
  FetchId last = 0;
  int cancelled = 0;
  TimePoint time = TimePoint(std::chrono::hours(1));
  FetchId fetch(const url::Url& url, TimePoint deadline, std::function<void(Outcome)> done) override {
    open[++last] = {url.origin() + url.target(), deadline, std::move(done)};
    return last;
  }
  void cancel(FetchId id) override { cancelled += static_cast<int>(open.erase(id)); }
  TimePoint now() const override { return time; }
  void come(Outcome outcome) {
    REQUIRE(open.size() == 1);
    const auto done = std::move(open.begin()->second.done);
    open.clear();
    done(std::move(outcome));
  }
};

struct Encoder final : turn::EncoderPort {
  std::vector<std::pair<turn::RequestKey, std::vector<turn::Picture>>> orders;
  std::vector<turn::RequestKey> abandoned;
  void encode(turn::RequestKey key, const std::vector<turn::Picture>& pictures) override { orders.emplace_back(key, pictures); }
  void abandon(turn::RequestKey key) override { abandoned.push_back(key); }
};

uint64_t length(std::string_view bytes) { return bytes.size(); }

struct World {
  Fetches fetches;
  Encoder encoder;
  std::vector<std::pair<turn::RequestKey, turn::RequestError>> failed;
  std::vector<std::string> log;
  FetchingEncoder port{fetches, encoder, [this](turn::RequestKey key, const turn::RequestError& error) { failed.emplace_back(key, error); }, length,
                       [this](const std::string& line) { log.push_back(line); }};
  World() { port.set_options({std::chrono::seconds(30), 1000}); }
};

std::shared_ptr<turn::PictureAddress> at(const std::string& url) { return std::make_shared<turn::PictureAddress>(turn::PictureAddress{url}); }
turn::Picture by(const std::shared_ptr<turn::PictureAddress>& address, const std::string& part) { return {nullptr, part, 7, address}; }
turn::Picture inline_picture(const std::string& text) { return {std::make_shared<const std::string>(text), "inline", 5}; }
Bytes bytes(const std::string& text) { return std::make_shared<const std::string>(text); }

}  // namespace

TEST_CASE("Pictures without an address go straight to the encoder", "[fetch]") {
  World world;
  world.port.encode(1, {inline_picture("a")});
  CHECK(world.encoder.orders.size() == 1);
  world.port.abandon(1);
  CHECK(world.encoder.abandoned == std::vector<turn::RequestKey>{1});
  CHECK(world.fetches.last == 0);
}

TEST_CASE("Addresses are fetched one after another under one deadline, each once, and then encoded in order", "[fetch]") {
  World world;
  const auto cat = at("https://example.org/cat"), dog = at("http://example.org:81/dog?x");
  world.port.encode(1, {by(cat, "a"), inline_picture("in"), by(dog, "b"), by(cat, "c")});
  REQUIRE(world.fetches.open.size() == 1);
  CHECK(world.fetches.open[1].url == "https://example.org/cat");
  const TimePoint deadline = world.fetches.time + std::chrono::seconds(30);
  CHECK(world.fetches.open[1].deadline == deadline);
  world.fetches.time += std::chrono::seconds(20);
  world.fetches.come(bytes("cat!"));
  REQUIRE(world.fetches.open.size() == 1);
  CHECK(world.fetches.open[2].url == "http://example.org:81/dog?x");
  CHECK(world.fetches.open[2].deadline == deadline);
  CHECK(world.encoder.orders.empty());
  world.fetches.come(bytes("dog"));
  REQUIRE(world.encoder.orders.size() == 1);
  const auto& pictures = world.encoder.orders[0].second;
  REQUIRE(pictures.size() == 4);
  CHECK(*pictures[0].bytes == "cat!");
  CHECK(pictures[0].hash == 4);
  CHECK(pictures[0].part == "a");
  CHECK(*pictures[1].bytes == "in");
  CHECK(pictures[1].hash == 5);
  CHECK(*pictures[2].bytes == "dog");
  CHECK(*pictures[3].bytes == "cat!");
  CHECK(world.fetches.last == 2);
  world.port.abandon(1);
  CHECK(world.encoder.abandoned.size() == 1);
}

TEST_CASE("The choices of a request fetch an address once, also one that begins later; another request fetches anew", "[fetch]") {
  World world;
  const auto cat = at("http://h/cat");
  world.port.encode(1, {by(cat, "a")});
  world.port.encode(2, {by(cat, "a")});
  CHECK(world.fetches.open.size() == 1);
  world.fetches.come(bytes("cat"));
  CHECK(world.encoder.orders.size() == 2);
  world.port.encode(3, {by(cat, "a")});
  CHECK(world.encoder.orders.size() == 3);
  CHECK(world.fetches.last == 1);
  world.port.encode(4, {by(at("http://h/cat"), "a")});
  CHECK(world.fetches.last == 2);
}

TEST_CASE("A fetch that fails is told by part and without a word of why; the log has the reason, but no path", "[fetch]") {
  World world;
  const auto cat = at("http://h:81/secret/cat?key=1");
  world.port.encode(1, {inline_picture("in"), by(cat, "messages[0].content[1]")});
  world.port.encode(2, {by(cat, "messages[0].content[1]")});
  world.fetches.come(Failure{Failure::Kind::failed, "connection refused by 10.0.0.1"});
  REQUIRE(world.failed.size() == 2);
  for (const auto& [key, error] : world.failed) {
    CHECK(error.code == turn::ErrorCode::image_invalid);
    CHECK(error.param == "messages[0].content[1]");
    CHECK(error.message ==
          "messages[0].content[1] is a picture that could not be fetched; its address must give a picture of at most 1000 bytes (vision.image_bytes) within 30 s "
          "(vision.url_s). It can be sent as a data: URL in base64.");
  }
  CHECK(world.log[0] == "messages[0].content[1] could not be fetched from http://h:81: connection refused by 10.0.0.1");
  CHECK(world.encoder.orders.empty());
  world.port.encode(3, {by(at("http://h/x"), "p")});
  world.fetches.come(Failure{Failure::Kind::no_room, ""});
  CHECK(world.failed.back().second.code == turn::ErrorCode::queue_full);
  CHECK_THAT(world.failed.back().second.message, Catch::Matchers::Contains("vision.url_total_bytes"));
}

TEST_CASE("Without an encoder what is still fetched ends", "[fetch]") {
  World world;
  world.port.encode(1, {by(at("http://h/cat"), "a")});
  world.port.encode(2, {by(at("http://h/dog"), "a")});
  world.port.end_all({turn::ErrorCode::vision_unavailable, "gone", "", 1});
  CHECK(world.failed.size() == 2);
  CHECK(world.fetches.cancelled == 2);
  world.port.abandon(1);
  world.port.encode(3, {by(at("http://h/cat"), "a")});
  world.fetches.come(bytes("cat"));
  CHECK(world.encoder.orders.size() == 1);
}

TEST_CASE("Who leaves takes its fetch along, unless another choice waits for it", "[fetch]") {
  World world;
  const auto cat = at("http://h/cat");
  world.port.encode(1, {by(cat, "a")});
  world.port.encode(2, {by(cat, "a")});
  world.port.abandon(1);
  CHECK(world.fetches.cancelled == 0);
  world.port.abandon(2);
  CHECK(world.fetches.cancelled == 1);
  CHECK(world.encoder.abandoned.empty());
  world.port.encode(3, {by(cat, "a")});
  world.port.encode(4, {by(cat, "a")});
  world.port.abandon(3);
  world.fetches.come(bytes("cat"));
  REQUIRE(world.encoder.orders.size() == 1);
  CHECK(world.encoder.orders[0].first == 4);
}
