// A VisionConductor with hands, files and an engine that only write down what they are told; time is moved. For the tests of its decisions.
#pragma once

#include <catch2/catch.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/process/vision_conductor.hpp"
#include "tests/server/process/recorder.hpp"

namespace vision_support {

using namespace process_support;
struct VisionHands final : Recorder {
  void pause_reading(bool) override { FAIL("nobody reads slowly from a vision child"); }
};

struct Disk final : PictureFiles {
  std::vector<std::string> calls;
  std::vector<std::shared_ptr<const EncodedPicture>> joined;
  RecordShape promised;
  void store(JobId job, std::shared_ptr<const std::string> bytes) override { calls.push_back("store " + std::to_string(job) + " " + *bytes); }
  void read(JobId job, const RecordShape& shape) override {
    promised = shape;
    calls.push_back("read " + std::to_string(job));
  }
  void discard(JobId job) override { calls.push_back("discard " + std::to_string(job)); }
  void join(turn::RequestKey key, std::vector<std::shared_ptr<const EncodedPicture>> pictures) override {
    joined = std::move(pictures);
    calls.push_back("join " + std::to_string(key));
  }
};

// An engine that is ready, and nothing more.
struct Port final : turn::TurnPort {
  std::vector<turn::Request> starts;
  void need_engine() override {}
  void start(turn::LeaseId, const turn::Request& request, int64_t) override { starts.push_back(request); }
  void cancel(turn::LeaseId) override {}
  void answered(turn::LeaseId) override {}
  void release(turn::LeaseId) override {}
  void pause_output(bool) override {}
};

inline supervise::ChildLimits limits() {
  supervise::ChildLimits all = unhurried_limits();
  all.name = "vision";
  all.silence_key = "encode_s";
  all.silence = Seconds(2);
  return all;
}

struct Room {
  VisionHands hands;
  Disk disk;
  Port port;
  VisionConductor vision;
  turn::Desk desk;
  turn::RequestKey last = 0;

  explicit Room(int64_t cache_bytes = 0, Duration queue_wait = {}) : vision({limits(), cache_bytes, queue_wait}, hands, disk), desk(turn::DeskLimits{}, port) {
    vision.attach(desk);
    desk.attach_encoder(&vision);
    turn::EngineView view;
    view.phase = turn::EnginePhase::ready;
    view.context = 1000;
    view.generation = 1;
    view.tagged = true;
    view.slots = 8;
    desk.engine_changed(view, hands.clock);
  }
  // Every picture has the same hash: nothing may hang on it.
  Ending ask(const std::vector<std::string>& pictures = {"cat"}, const std::string& client = "c") {
    auto ending = std::make_shared<std::optional<turn::Ending>>();
    turn::Request request;
    request.id = "r";
    request.client = client;
    request.prompt = {1, 2};
    request.image_token = 9;
    for (size_t i = 0; i < pictures.size(); ++i) {
      request.prompt.push_back(9);
      request.pictures.push_back({std::make_shared<const std::string>(pictures[i]), "messages[0].content[" + std::to_string(i) + "]", 7});
    }
    last = desk.submit(std::move(request), std::make_unique<Sink>(ending), hands.clock);
    vision.run_pending();
    return ending;
  }
  void say(std::string_view line) { vision.stdout_line(line, false); }
  void ready() {
    vision.spawned(77);
    say("READY 4");
  }
  void stored(JobId job) { vision.stored(job, protocol::Encode{"/p/" + std::to_string(job), "/o/" + std::to_string(job)}); }
  void good(JobId job, int64_t rows = 2) {
    auto picture = std::make_shared<EncodedPicture>();
    picture->rows = rows;
    picture->bytes = 100;
    vision.was_read(job, std::shared_ptr<const EncodedPicture>(std::move(picture)));
  }
  void encoded(JobId job) {
    stored(job);
    say("OK 2 1 2 1.5");
    good(job);
  }
  std::shared_ptr<const turn::Embeddings> embeddings(std::vector<int64_t> rows) {
    auto made = std::make_shared<turn::Embeddings>();
    made->path = "/e";
    made->rows = std::move(rows);
    return made;
  }
  void pass(Duration time) {
    hands.clock += time;
    const auto deadline = vision.deadline();
    if (deadline && *deadline <= hands.clock) vision.due();
  }
  void died() {
    vision.exited("killed by signal 11 (SIGSEGV)");
    vision.tree_empty();
  }
};

using Calls = std::vector<std::string>;

}  // namespace vision_support
