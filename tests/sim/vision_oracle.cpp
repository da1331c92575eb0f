// Judges the vision child's life and each picture's way: what is told, in the order in which it is told. What must hold at rest: vision_rest.cpp.
#include "tests/sim/vision_oracle.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace vigil::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;
using supervise::ChildState;
using supervise::Trouble;
using turn::ErrorCode;

namespace {
constexpr Duration output_waits = milliseconds(200);  // for the exit that may follow the end of output
constexpr Duration kill_again = seconds(5);
constexpr std::ptrdiff_t deaths_enough = 2;
constexpr Duration deaths_remembered = std::chrono::minutes(10);
}  // namespace

// ---- what the world does

void VisionOracle::limits(const process::VisionLimits& all) {
  const supervise::ChildLimits& limits = all.child;
  const bool first = limits_.ready == Duration::zero();
  // 0 is no limit: the longest of all.
  const bool bounded = all.queue_wait > Duration::zero();
  if (first || (bounded && (all.queue_wait < least_wait_ || least_wait_ == Duration::zero()))) least_wait_ = all.queue_wait;
  if (first || !bounded || (most_wait_ > Duration::zero() && all.queue_wait > most_wait_)) most_wait_ = all.queue_wait;
  limits_ = limits;
  if (first) least_ = most_ = limits;
  for (const auto field : {&supervise::ChildLimits::ready, &supervise::ChildLimits::silence, &supervise::ChildLimits::stop}) {
    least_.*field = std::min(least_.*field, limits.*field);
    most_.*field = std::max(most_.*field, limits.*field);
  }
  disturbed_ = clock_.now();
}

void VisionOracle::unload_ordered(Trouble why) {
  unload_at_ = clock_.now();
  if (why == Trouble::shutting_down) closed_ = true;
  if (state_ == ChildState::stopping) unload_asked_ = true;
  load_ordered_ = false;
}

void VisionOracle::settings_changed(uint64_t number) {
  wanted_program_ = number;
  if (state_ == ChildState::ready || state_ == ChildState::starting) restart_ = true;
  pictures_anew();
}

// Another program, another width: what was encoded before may have to be encoded again.
void VisionOracle::pictures_anew() {
  passed_.clear();                                      // who waits may be another now
  for (auto& [key, order] : live_) order.passed.clear();
  size_t pictures = 0;
  for (const auto& [key, order] : live_) pictures += order.pictures.size();
  for (auto& [key, order] : live_) order.bound += static_cast<int64_t>(pictures) * a_picture();
}

// A daemon that was late gives every file its whole time anew.
void VisionOracle::forgive(Duration stood_still) {
  still_ += stood_still;
  disturbed_ = clock_.now();
  forgiven_ = mark();
  for (auto& [key, order] : live_) order.bound += most_.silence;
}

void VisionOracle::forgive_from_now(Duration delay) {
  late_from_ = clock_.now();
  late_for_ = delay;
  for (auto& [key, order] : live_) order.bound += most_.silence;
}

// ---- the desk

Duration VisionOracle::a_picture() const { return 3 * most_.silence + most_.ready + most_.stop + stop_extra + milliseconds(300); }

void VisionOracle::asked(turn::RequestKey key, size_t call, const std::string& client, const std::vector<turn::Picture>& pictures) {
  Order order;
  order.call = call;
  order.client = client;
  order.ready_before = ready_time();
  if (std::none_of(live_.begin(), live_.end(), [&](const auto& entry) { return entry.second.client == client && waits(entry.first, entry.second); })) passed_.erase(client);
  order.program = wanted_program_;
  order.came = mark();
  for (const auto& picture : pictures) {
    order.pictures.push_back(*picture.bytes);
    order.bytes.push_back(picture.bytes.get());
  }
  order.encoded.resize(pictures.size());
  size_t ahead = pictures.size() + 1;                   // and the one of somebody who has left
  for (const auto& [other, one] : live_) ahead += one.pictures.size();
  order.bound = static_cast<int64_t>(ahead) * a_picture() + most_.silence;
  if (late_from_) order.bound += most_.silence;
  if (!live_.emplace(key, std::move(order)).second) fail("two requests with one key");
}

Duration VisionOracle::ready_time() const { return ready_time_ + (state_ == ChildState::ready ? clock_.now() - state_since_.at : Duration::zero()); }

bool VisionOracle::waits(turn::RequestKey key, const Order& order) const {
  if (!order.unfinished() || order.refused || order.file_failed || order.record_wrong || poisoned(order)) return false;
  for (size_t n = 0; n < order.pictures.size(); ++n) {
    const bool with_child = std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& entry) { return entry.second.key == key && entry.second.picture == n; });
    // What an older program encoded may do, if the rest is its work too.
    if (!with_child && !order.encoded[n] && known_.count({order.pictures[n], program_}) == 0) return true;
  }
  return false;
}

// Round-robin: while a client waits, no other has two turns; while a request does, no other of its client.
void VisionOracle::take_turn(turn::RequestKey key, Order& order) {
  for (auto& [other_key, other] : live_) {
    if (other_key == key || other.client != order.client || !waits(other_key, other)) continue;
    if (++other.passed[key] > 1) fail(name(other) + " is passed over twice by " + name(order) + " of the same client");
  }
  std::set<std::string> clients;
  for (const auto& [other_key, other] : live_) {
    if (other.client != order.client && waits(other_key, other)) clients.insert(other.client);
  }
  for (const std::string& client : clients) {
    if (++passed_[client][order.client] > 1) fail("client " + client + " waits with pictures and is passed over twice by client " + order.client);
  }
  passed_.erase(order.client);
  order.passed.clear();
  order.had_turn = true;
}

std::optional<size_t> VisionOracle::call_of(turn::RequestKey key) const {
  const auto found = live_.find(key);
  return found == live_.end() ? std::nullopt : std::optional(found->second.call);
}

void VisionOracle::over(turn::RequestKey key) {
  const auto found = live_.find(key);
  if (found == live_.end() && joined_ == key) return;   // its desk had no use for it after all
  if (found == live_.end()) return fail("pictures are given up that nobody waits for");
  last_over_.emplace(key, std::move(found->second));
  live_.erase(found);
}

std::ptrdiff_t VisionOracle::deaths(const std::string& picture) const {
  const auto found = deaths_.find(picture);
  if (found == deaths_.end()) return 0;
  return std::count_if(found->second.begin(), found->second.end(), [&](TimePoint at) { return clock_.now() - at < deaths_remembered; });
}

bool VisionOracle::poisoned(const Order& order) const {
  return std::any_of(order.pictures.begin(), order.pictures.end(), [&](const auto& one) { return deaths(one) >= deaths_enough; });
}

// A load that fails ends everyone who still needs a picture.
bool VisionOracle::loads_in_vain() const {
  if (state_ != ChildState::starting) return false;
  return not_executed_ || exit_told_ || said_error_ || by_the_clock(state_since_) >= least_.ready || (output_closed_ && by_the_clock(*output_closed_) >= output_waits);
}

void VisionOracle::failed(size_t call, const turn::RequestError& error) {
  if (error.code != ErrorCode::vision_unavailable && error.code != ErrorCode::image_invalid && error.code != ErrorCode::queue_timeout) return;
  if (!last_over_ || last_over_->second.call != call) return fail("a request fails for its pictures, and none of its were to be encoded: " + error.message);
  const auto& [key, order] = *last_over_;
  const bool unloaded = unload_at_ == clock_.now() || (state_ == ChildState::stopping && unload_asked_);
  bool just = false;
  if (error.code == ErrorCode::queue_timeout) {
    just = !order.had_turn && state_ == ChildState::ready && least_wait_ > Duration::zero() && ready_time() - order.ready_before >= least_wait_;
  } else if (error.code == ErrorCode::image_invalid) {
    just = order.refused || poisoned(order);
  } else if (order.refused) {
    just = unloaded;                                    // else the picture is to blame, and its client must be told so
  } else {
    const auto sent = at(Step::sent);
    const bool lost = sent != jobs_.end() && sent->second.key == key &&
                      (exit_told_ || by_the_clock(sent->second.since) >= least_.silence || (output_closed_ && by_the_clock(*output_closed_) >= output_waits));
    const bool joined_late = order.joining && by_the_clock(*order.joining) >= least_.silence;
    const bool unkillable = state_ == ChildState::stopping && by_the_clock(state_since_) >= kill_again;
    just = unloaded || lost || joined_late || unkillable || order.file_failed || order.record_wrong || loads_in_vain() || state_ == ChildState::backoff;
  }
  if (!just) fail(name(order) + " ends for its pictures, and nothing explains that: " + error.message);
}

// ---- the child's life

void VisionOracle::spawn(supervise::Generation generation, const Process& process, uint64_t program) {
  if (process_ && !process_->tree_empty()) fail("a process was started while the one before still lived");
  if (closed_) fail("a process was started although the daemon shuts down");
  const bool wanted = std::any_of(live_.begin(), live_.end(), [](const auto& entry) { return entry.second.unfinished(); });
  if (!wanted && !load_ordered_) fail("a process was started that nobody wanted");
  if (program != wanted_program_) fail("a program was started that was to be replaced");
  if (at(Step::dying) != jobs_.end()) fail("a process was started before the files of the one before were discarded");
  process_ = &process;
  generation_ = generation;
  program_ = program;
  state_ = ChildState::starting;
  state_since_ = mark();
  exit_told_ = not_executed_ = said_error_ = accused_ = restart_ = unload_asked_ = load_ordered_ = false;
  output_closed_.reset();
}

void VisionOracle::output_closed() {
  if (state_ == ChildState::starting || state_ == ChildState::ready) output_closed_ = mark();
}

void VisionOracle::state(ChildState state, const supervise::Child&) {
  const ChildState before = state_;
  if (before == state) return;
  if (state == ChildState::ready) return fail("a child is ready that did not say so");
  if (before == ChildState::starting || before == ChildState::ready) {
    run_over(before);
  } else if (before == ChildState::backoff) {
    const bool unloaded = state == ChildState::unloaded && unload_at_ == clock_.now();
    if (by_the_clock(state_since_) < backoff_least_ && !unloaded) fail("a back-off was cut short");
  } else if (before == ChildState::stopping && !unload_asked_) {
    const ChildState next = failures_ >= 2 ? ChildState::backoff : ChildState::failed;
    if (state != next) fail("after " + std::to_string(failures_) + " failures in a row the child became " + std::string(supervise::to_string(state)));
  } else if (state != ChildState::unloaded) {
    fail("a child that was to be unloaded became " + std::string(supervise::to_string(state)));
  }
  if (state == ChildState::backoff) {
    const double s = vigil::seconds(limits_.backoff_first) * std::pow(2.0, std::min(failures_ - 2, 40));
    backoff_least_ = std::min(from_seconds(s), limits_.backoff_max);
    backoff_most_ = std::min(std::chrono::duration_cast<Duration>(backoff_least_ * 1.1), limits_.backoff_max);
  }
  ready_time_ = ready_time();
  state_ = state;
  state_since_ = mark();
}

void VisionOracle::run_over(ChildState before) {
  const bool output_over = output_closed_ && by_the_clock(*output_closed_) >= output_waits;
  const bool died = exit_told_ || not_executed_ || accused_ || output_over || (before == ChildState::starting && said_error_);
  const bool replaced = restart_ && before == ChildState::ready;
  if (!died && !replaced && unload_at_ != clock_.now()) fail("a child was stopped, and nobody had asked for that");
  const auto sent = at(Step::sent);
  if (died) {
    ++failures_;
    if (sent != jobs_.end()) deaths_[sent->second.content].push_back(clock_.now());
  } else {
    unload_asked_ = true;
    if (replaced && unload_at_ != clock_.now() && sent != jobs_.end()) fail("a program was replaced while a picture was with it");
  }
  if (sent == jobs_.end()) return;
  if (live_.count(sent->second.key) != 0) fail(name(live_.at(sent->second.key)) + " goes on, and the child is gone that had its picture");
  step(sent->second, Step::dying);
}

void VisionOracle::killed(Trouble why, const std::string& reason) {
  if (why == Trouble::unloaded) return;                 // stop_s was over
  accused_ = true;
  if (excused.accusations || !process_) return;
  if (why == Trouble::not_ready) {
    if (by_the_clock(state_since_) < least_.ready) fail("a load was ended before its limit: " + reason);
    if (process_->healthy() && still_total() == state_since_.still) fail("a healthy load was ended: " + reason);
  } else if (why == Trouble::silent) {
    const auto sent = at(Step::sent);
    if (sent == jobs_.end() || by_the_clock(sent->second.since) < least_.silence) fail("a child was called silent too soon: " + reason);
    if (process_->healthy()) fail("a healthy child was accused: " + reason);
  } else {
    fail("a child was ended for what it is not judged by: " + reason);
  }
}

void VisionOracle::line(std::string_view text, bool overlong) {
  if (overlong) return;
  const auto line = protocol::parse_vision_line(text);
  if (!line) return;
  const auto sent = state_ == ChildState::ready ? at(Step::sent) : jobs_.end();
  if (const auto* ready = std::get_if<protocol::VisionReady>(&*line)) {
    if (state_ != ChildState::starting) return;
    if (width_ != ready->width) {
      known_.clear();
      pictures_anew();
    }
    width_ = ready->width;
    state_ = ChildState::ready;
    state_since_ = mark();
  } else if (const auto* ok = std::get_if<protocol::VisionOk>(&*line)) {
    if (sent == jobs_.end()) return;
    sent->second.rows = ok->n;
    step(sent->second, Step::answered);
  } else if (std::holds_alternative<protocol::EngineError>(*line)) {
    if (state_ == ChildState::starting) said_error_ = true;
    if (sent == jobs_.end()) return;
    step(sent->second, Step::refused);
    if (const auto order = live_.find(sent->second.key); order != live_.end()) order->second.refused = true;
  }
}

// ---- one picture's way

void VisionOracle::step(Job& job, Step step) {
  job.step = step;
  job.since = mark();
}

VisionOracle::Jobs::iterator VisionOracle::at(Step step) {
  return std::find_if(jobs_.begin(), jobs_.end(), [step](const auto& entry) { return entry.second.step == step; });
}

bool VisionOracle::Order::needs(size_t picture, uint64_t newest, int64_t width) const {
  const auto& one = encoded[picture];
  return !one || one->program != newest || one->width != width;
}

// Pictures are encoded one at a time, those of a request in order; who is passed over must be known already, or be refused.
void VisionOracle::store_ordered(process::JobId id, const std::string& bytes) {
  if (state_ != ChildState::ready || restart_) fail("a picture's turn comes while no child is ready for it");
  for (const auto& [other, job] : jobs_) {
    if (job.step != Step::dying) fail("the turn of " + name(id) + " comes while " + name(other) + " has it");
  }
  for (auto& [key, order] : live_) {
    const auto place = std::find(order.bytes.begin(), order.bytes.end(), &bytes);
    if (place == order.bytes.end()) continue;
    const auto n = static_cast<size_t>(place - order.bytes.begin());
    if (!order.needs(n, wanted_program_, width_)) fail(name(order) + " has its picture encoded twice");
    for (size_t earlier = 0; earlier < n; ++earlier) {
      const bool known = known_.count({order.pictures[earlier], program_}) != 0;
      if (order.needs(earlier, wanted_program_, width_) && !known && !poisoned(order)) fail(name(order) + " has a later picture encoded before " + order.pictures[earlier]);
    }
    take_turn(key, order);
    Job job;
    job.key = key;
    job.picture = n;
    job.content = bytes;
    job.since = mark();
    if (!jobs_.emplace(id, job).second) fail("two pictures with one number");
    return;
  }
  fail("a picture is written that nobody waits for");
}

void VisionOracle::was_stored(process::JobId id, bool well) {
  const auto job = jobs_.find(id);
  if (job == jobs_.end() || job->second.step != Step::storing) return;  // it comes too late
  if (well) return step(job->second, Step::stored);
  if (const auto order = live_.find(job->second.key); order != live_.end()) order->second.file_failed = true;
}

void VisionOracle::command(const protocol::Encode& order, const Disk& disk) {
  const process::JobId id = std::strtoull(order.image_path.c_str() + std::string_view("/pictures/").size(), nullptr, 10);
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.step != Step::stored) return fail("ENC for " + name(id) + ", whose turn it is not");
  Job& job = found->second;
  if (state_ != ChildState::ready) fail("ENC to a child that is not ready");
  if (restart_) fail("ENC to a program that is to be replaced");
  if (at(Step::sent) != jobs_.end()) fail("ENC while the child has a picture");
  if (live_.count(job.key) == 0) fail("ENC for a request that is over");
  if (deaths(job.content) >= deaths_enough) fail("ENC for a picture that has killed the child again and again");
  const File* file = disk.find(order.image_path);
  if (!file || file->front().picture != job.content || !file->front().whole) fail("ENC names another picture than that of its request");
  job.generation = generation_;
  job.program = program_;
  step(job, Step::sent);
}

void VisionOracle::read_ordered(process::JobId id, const process::RecordShape& promised) {
  const auto job = jobs_.find(id);
  if (job == jobs_.end() || job->second.step != Step::answered) return fail("the record of " + name(id) + " is read, and no child said OK for it");
  if (promised.rows != job->second.rows || promised.width != width_) fail("another record is read than the one that was promised");
  step(job->second, Step::reading);
}

void VisionOracle::was_read(process::JobId id, const Part* record) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.step != Step::reading) return;
  Job& job = found->second;
  const auto order = live_.find(job.key);
  if (!record) {
    if (order != live_.end()) order->second.record_wrong = true;
    if (state_ == ChildState::ready && job.generation == generation_) {
      restart_ = true;                                  // it may be out of step: nothing that it says can be trusted
      step(job, Step::dying);
    }
    return;
  }
  step(job, Step::read);
  // Whoever encoded it is proved by it; nobody else is.
  if (state_ == ChildState::ready && job.generation == generation_) failures_ = 0;
  known_.insert({job.content, job.program});
  if (order != live_.end()) order->second.encoded[job.picture] = Encoded{job.program, record->width};
}

void VisionOracle::discard_ordered(process::JobId id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;                     // once more, for what came too late
  const Job& job = found->second;
  if (job.step == Step::sent) fail("the files of " + name(id) + " are discarded while the child works at it");
  if (job.step == Step::dying && !process_->tree_empty()) fail("the files of " + name(id) + " are discarded while a process may still write them");
  const bool slow = (job.step == Step::storing || job.step == Step::reading) && by_the_clock(job.since) >= least_.silence;
  if (const auto order = live_.find(job.key); slow && order != live_.end()) order->second.file_failed = true;
  jobs_.erase(found);
}

void VisionOracle::join_ordered(turn::RequestKey key, const std::vector<const Part*>& pictures) {
  const auto found = live_.find(key);
  if (found == live_.end()) return fail("the pictures of a request that is over are joined");
  Order& order = found->second;
  if (order.joining) fail("the pictures of " + name(order) + " are joined twice");
  order.joining = mark();
  if (pictures.size() != order.pictures.size()) return fail(name(order) + " has another number of pictures");
  for (size_t n = 0; n < pictures.size(); ++n) {
    if (!pictures[n]) return fail("a picture of " + name(order) + " is joined before it is encoded");
    if (pictures[n]->picture != order.pictures[n]) fail(name(order) + " gets the picture of another");
    if (pictures[n]->program < order.program) fail(name(order) + " gets what an older program made of its picture");
    if (pictures[n]->program != pictures[0]->program || pictures[n]->width != pictures[0]->width) fail("the pictures of " + name(order) + " were encoded by different programs");
  }
}

void VisionOracle::was_joined(turn::RequestKey key, const turn::Embeddings* embeddings) {
  const auto found = live_.find(key);
  if (found == live_.end()) return;                     // it comes too late
  if (!embeddings) {
    found->second.file_failed = true;
    return;
  }
  const size_t call = found->second.call;
  live_.erase(found);
  joined_ = key;
  encoded_(call, *embeddings);
}

}  // namespace vigil::sim
