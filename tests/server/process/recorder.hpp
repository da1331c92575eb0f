// Hands that only write down what they are told, and sinks that keep the one ending of a request; time is moved. For the tests of conductors.
#pragma once

#include <catch2/catch.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/process/hands.hpp"
#include "server/turn/desk.hpp"

namespace process_support {

using namespace vigil;
using namespace vigil::process;
using Catch::Matchers::Contains;
using std::chrono::milliseconds;
using Seconds = std::chrono::seconds;
using supervise::ChildState;
using supervise::Trouble;

struct Recorder : Hands {
  TimePoint clock{Seconds(1000)};
  std::vector<std::string> calls, logs;
  std::string words;
  int runs = 0;
  TimePoint now() const override { return clock; }
  void spawn(supervise::Generation generation) override { calls.push_back("spawn " + std::to_string(generation)); }
  void terminate() override { calls.push_back("terminate"); }
  void kill() override { calls.push_back("kill"); }
  void write(std::string line) override { calls.push_back(line.substr(0, line.size() - 1)); }
  void pause_reading(bool paused) override { calls.push_back(paused ? "pause" : "go on"); }
  supervise::TreeUsage usage() override { return {}; }
  void run_soon() override { ++runs; }
  std::string last_words() const override { return words; }
  void log(const std::string& line) override { logs.push_back(line); }
  void state_changed() override {}
  void started() override {}
  void loaded(double) override {}
  void killed(Trouble) override {}
};

// Of a child that is started when it is needed.
inline supervise::ChildLimits unhurried_limits() {
  supervise::ChildLimits all;
  all.exec = std::chrono::hours(1);
  all.ready = Seconds(5);
  all.stop = Seconds(3);
  all.backoff_first = Seconds(10);
  all.backoff_max = Seconds(60);
  all.eager = false;
  return all;
}

using Ending = std::shared_ptr<std::optional<turn::Ending>>;
struct Sink final : turn::ReplySink {
  explicit Sink(Ending e) : ending(std::move(e)) {}
  turn::Verdict on_token(const protocol::Token&) override { return turn::Verdict::more; }
  void on_end(const turn::Ending& end) override {
    REQUIRE_FALSE(ending->has_value());  // exactly once
    *ending = end;
  }
  Ending ending;
};

inline const turn::RequestError& error_of(const Ending& ending) {
  REQUIRE(ending->has_value());
  REQUIRE(std::holds_alternative<turn::Failed>((*ending)->how));
  return std::get<turn::Failed>((*ending)->how).error;
}

}  // namespace process_support
