// What must hold of pictures and their child whenever the daemon is not in the middle of something, and when the world is over.
#include <algorithm>

#include "tests/sim/vision_oracle.hpp"

namespace vigil::sim {

using std::chrono::milliseconds;
using supervise::ChildState;

namespace {
constexpr Duration error_waits = milliseconds(200);
constexpr Duration look_apart = milliseconds(10);     // two judgements of liveness are at least so far apart
}  // namespace

void VisionOracle::check(const turn::Snapshot& view, const supervise::Child& child, const Seen& seen) {
  if (child.state() != state_) fail("the child is " + std::string(supervise::to_string(child.state())) + ", by what it said it is " + std::string(supervise::to_string(state_)));
  if (child.failures() != failures_) {
    fail("the child has failed " + std::to_string(failures_) + " times in a row, " + std::to_string(child.failures()) + " are counted");
  }
  if (seen.orders != live_.size() || view.encoding != static_cast<int64_t>(live_.size())) {
    fail(std::to_string(live_.size()) + " requests wait for pictures; the conductor keeps " + std::to_string(seen.orders) + ", the status shows " + std::to_string(view.encoding));
  }
  check_orders(seen);
  check_jobs(seen);
  if (settled()) check_limits();
}

void VisionOracle::check_orders(const Seen& seen) {
  size_t missing = 0;
  bool unfinished = false;
  for (const auto& [key, order] : live_) {
    if (!order.unfinished()) continue;
    unfinished = true;
    missing += order.pictures.size();
    if (order.file_failed || order.record_wrong) fail(name(order) + " waits on, and its picture has failed");
    const auto& all = order.encoded;
    const bool complete = std::all_of(all.begin(), all.end(), [&](const auto& one) { return one && one->program == all[0]->program && one->width == all[0]->width; });
    if (complete) fail("the pictures of " + name(order) + " are all there, and nothing happens");
  }
  if (seen.waiting > missing) fail("pictures are kept that nobody waits for");
  const bool active = std::any_of(jobs_.begin(), jobs_.end(), [](const auto& entry) { return entry.second.step != Step::dying; });
  const bool without = state_ == ChildState::unloaded || state_ == ChildState::failed;
  if (without && (seen.waiting > 0 || at(Step::stored) != jobs_.end())) fail("pictures wait, and no child is started");
  if (unfinished && !active && (without || state_ == ChildState::ready)) fail("pictures wait, and nothing happens");
  if (unfinished && state_ == ChildState::backoff) fail("pictures wait for the end of a back-off");
  if (closed_ && !live_.empty()) fail("pictures wait although the daemon shuts down");
  const bool bounded_by_child = state_ == ChildState::starting || state_ == ChildState::stopping || state_ == ChildState::backoff;
  if ((!live_.empty() || bounded_by_child || active) && !(seen.bounded && seen.armed)) fail("pictures wait without a timer");
}

void VisionOracle::check_jobs(const Seen&) {
  if (at(Step::answered) != jobs_.end()) fail("a picture was answered, and nothing happens");
  if (state_ != ChildState::ready) return;
  const auto stored = at(Step::stored);
  if (stored != jobs_.end() && !restart_) fail(name(stored->first) + " is written, the child is ready, and nothing happens");
  const bool with_child = at(Step::sent) != jobs_.end() || at(Step::refused) != jobs_.end() || at(Step::reading) != jobs_.end();
  if (restart_ && !with_child) fail("a program that was to be replaced goes on");
}

void VisionOracle::check_limits() {
  const auto over_limit = [&](const Mark& since, Duration limit, const std::string& what) {
    if (limit > Duration::zero() && lived(since) > limit) fail(what);
  };
  const bool stops = !excused.stop_time;
  switch (state_) {
    case ChildState::starting: over_limit(state_since_, most_.ready, "a load lasts longer than vision.ready_s"); break;
    case ChildState::stopping: over_limit(state_since_, stops ? most_.stop + stop_extra : Duration::zero(), "a stop lasts too long"); break;
    case ChildState::backoff: over_limit(state_since_, backoff_most_, "a back-off lasts longer than its cap"); break;
    default: break;
  }
  if (exit_told_ && (state_ == ChildState::starting || state_ == ChildState::ready)) fail("the child is dead, and the daemon goes on as if it were not");
  if (output_closed_ && (state_ == ChildState::starting || state_ == ChildState::ready)) over_limit(*output_closed_, error_waits + look_apart, "the end of its output was no death");
  const auto anew = [&](const Mark& since) { return since.at > forgiven_.at ? since : forgiven_; };  // files only
  const Duration once_more = late_from_ ? most_.silence : Duration::zero();
  for (const auto& [id, job] : jobs_) {
    switch (job.step) {
      case Step::storing:
      case Step::reading: over_limit(anew(job.since), most_.silence + once_more, "the files of " + name(id) + " take longer than vision.encode_s"); break;
      case Step::sent: over_limit(job.since, most_.silence + look_apart, name(id) + " is with the child for longer than vision.encode_s"); break;
      case Step::refused: over_limit(job.since, error_waits, "the ERR for " + name(id) + " did not end it"); break;
      default: break;
    }
  }
  for (const auto& [key, order] : live_) {
    if (!order.had_turn && !order.joining && state_ == ChildState::ready && most_wait_ > Duration::zero() &&
        ready_time() - order.ready_before - (still_total() - order.came.still) > most_wait_) {
      fail(name(order) + " waits for its first turn for longer than queue.wait_s");
    }
    if (order.joining) over_limit(anew(*order.joining), most_.silence + once_more, "joining the pictures of " + name(order) + " takes longer than vision.encode_s");
    if (!excused.stop_time) over_limit(order.came, order.bound, name(order) + " waits for its pictures for longer than all limits together allow");
  }
}

void VisionOracle::check_end(const Disk& disk, const Seen& seen) const {
  for (const auto& [key, order] : live_) fail(name(order) + " waits for its pictures for ever");
  for (const auto& [id, job] : jobs_) fail("the files of " + name(id) + " were never discarded");
  if (seen.orders != 0 || seen.waiting != 0) fail("orders are kept that nobody waits for");
  const bool still = state_ == ChildState::unloaded || state_ == ChildState::failed || state_ == ChildState::ready;
  if (still && seen.bounded) fail("a timer is left, and nothing is to happen");
  if (excused.files) return;
  for (const auto& [path, file] : *disk.files()) {
    if (!path.ends_with(".record")) fail("a file was left: " + path);
  }
}

}  // namespace vigil::sim
