// The pictures of a world: what clients send, the vision child, its operator's orders, and what must be left of it in the end.
#include <utility>

#include "tests/sim/world.hpp"

namespace vigil::sim {

using std::chrono::milliseconds;

void World::make_vision(Pictures pictures) {
  const bool drawn = dice_.chance(20);
  has_pictures_ = drawn || pictures != Pictures::drawn;
  oracle_.embeddings_wrong = [this](const Call& call) { return embeddings_wrong(call); };
  if (!has_pictures_ || pictures == Pictures::none) return;
  draw_vision_limits();
  VisionDriver::World around;
  around.host.note = [this](const std::string& what) { note(what); };
  around.host.violation = [this](const std::string& what) { fail(what); };
  around.host.frozen = [this] { return frozen_until_.has_value(); };
  around.host.traced = trace_ == Trace::on;
  around.host.name = "vision child";
  around.host.prefix = "vision: ";
  around.script = [this] {
    ++result_.vision_starts;
    return faults_over_ ? VisionScript::healthy(vision_dice_) : VisionScript::draw(vision_dice_);
  };
  around.asking = [this] { return submitting_; };
  around.calm = [this] { return faults_over_; };
  around.encoded = [this](size_t index, const turn::Embeddings& embeddings) {
    Call& call = *oracle_.calls()[index];
    int64_t rows = 0;
    for (const int64_t one : embeddings.rows) rows += one;
    call.embeddings = embeddings.path;
    ++result_.seen;
    oracle_.encoded(call, call.prompt + rows - static_cast<int64_t>(call.pictures.size()));
  };
  around.joins = pictures != Pictures::doomed;
  vision_ = std::make_unique<VisionDriver>(clock_, vision_dice_, plan_, std::move(around), vision_limits_);
  vision_->attach(*desk_);
  desk_->attach_encoder(vision_.get());
}

// As server/vision.cpp makes them of the configuration: what is not named here is off.
void World::draw_vision_limits() {
  supervise::ChildLimits& child = vision_limits_.child;
  child.name = "vision";
  child.silence_key = "encode_s";
  child.exec = std::chrono::hours(24 * 365);
  child.ready = milliseconds(vision_dice_.between(4500, 9000));
  // Above what a healthy child needs (vision_child.cpp) and what a daemon that looks once a second may not notice of its own standing still.
  child.silence = milliseconds(vision_dice_.between(3200, 6000));
  child.stop = milliseconds(vision_dice_.between(500, 2000));
  child.backoff_first = milliseconds(vision_dice_.between(200, 1000));
  child.backoff_max = milliseconds(vision_dice_.between(1500, 8000));
  child.eager = false;
  vision_limits_.cache_bytes = vision_dice_.chance(30) ? 0 : vision_dice_.chance(50) ? vision_dice_.between(100, 350) : 1 << 20;
  vision_limits_.queue_wait = milliseconds(vision_dice_.chance(10) ? 0 : vision_dice_.between(3000, 20000));
}

void World::plan_vision() {
  const auto some = [&](int percent, int64_t most, auto&& order) {
    for (int64_t n = vision_dice_.chance(percent) ? vision_dice_.between(1, most) : 0; n > 0; --n) vision_later(0, 50000, order);
  };
  if (vision_dice_.chance(50)) vision_later(0, 0, [this] { if (!stop_children_) vision_->load(); });
  some(15, 2, [this] { if (!stop_children_) vision_->unload(supervise::Trouble::unloaded, vision_dice_.chance(30)); });
  some(25, 3, [this] { if (!stop_children_) vision_->change_program(); });
  some(15, 2, [this] {
    if (auto* process = vision_->process()) process->crash("killed by signal 9 (SIGKILL)");
  });
}

std::vector<turn::Picture> World::pictures(Call& call, int64_t count) {
  static constexpr const char* common[] = {"ant", "bee", "cat", "dog", "elk"};
  std::vector<turn::Picture> all;
  for (int64_t n = 0; n < count; ++n) {
    std::string bytes = vision_dice_.chance(60) ? common[vision_dice_.between(0, 4)] : "picture " + std::to_string(call.index) + "." + std::to_string(n);
    if (vision_dice_.chance(4)) bytes = std::string(poison) + " " + std::to_string(vision_dice_.between(0, 1));
    if (vision_dice_.chance(4)) bytes = std::string(broken) + " " + std::to_string(vision_dice_.between(0, 2));
    call.pictures.push_back(bytes);
    all.push_back({std::make_shared<const std::string>(bytes), "messages[0].content[" + std::to_string(n) + "]", std::hash<std::string>{}(bytes)});
  }
  return all;
}

std::string World::embeddings_wrong(const Call& call) const {
  if (!vision_) return "come from nowhere";
  const File* file = vision_->disk().find(call.embeddings);
  if (!file) return "are gone";
  if (file->size() != call.pictures.size()) return "are of another number of pictures";
  int64_t rows = 8 - static_cast<int64_t>(call.pictures.size());
  for (size_t n = 0; n < file->size(); ++n) {
    if ((*file)[n].picture != call.pictures[n]) return "are not those of its pictures in order";
    rows += (*file)[n].rows;
  }
  return rows == call.prompt ? "" : "have another number of rows than its prompt has image tokens";
}

// With the last owner of a record goes its file.
void World::end_vision() {
  if (!vision_ || result_.violation) return;
  const auto files = vision_->disk().files();
  const bool may_stay = vision_->oracle().excused.files;
  desk_.reset();
  vision_.reset();
  if (!files->empty() && !may_stay) fail("a file outlives the daemon: " + files->begin()->first);
}

}  // namespace vigil::sim
