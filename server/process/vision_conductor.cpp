// The glue between the child machine, the pictures' jobs and the desk; see vision_conductor.hpp. Events of the machine run through one queue,
// and jobs are brought on behind it, so that the desk is never entered from inside itself.
#include "server/process/vision_conductor.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace vigil::process {

namespace event = supervise::event;
namespace effect = supervise::effect;
using supervise::ChildState;
using supervise::Trouble;
using turn::ErrorCode;
using turn::RequestError;

namespace {

// As for requests that crash engines (contract, "Retry").
constexpr int deaths_refused = 2;
constexpr Duration deaths_remembered = std::chrono::minutes(10);

constexpr const char* switched_off = "it was switched off (vision.mmproj, vision.exe)";

}  // namespace

VisionConductor::VisionConductor(VisionLimits limits, Hands& hands, PictureFiles& files)
    : ChildMind(std::move(limits.child), hands), files_(files), cache_(limits.cache_bytes), queue_wait_(limits.queue_wait) {}

// ---- what the machine decided

void VisionConductor::load_failed(const effect::LoadFailed& failed) { fail_unfinished(error_for(failed.why, failure_text(failed), "")); }

// The child is dead or being killed. Only the picture that it had ends with it; those that wait get the next one.
void VisionConductor::lost(const effect::Lost& loss) {
  if (!current_) return;
  if (current_->step == Step::refused) return refuse(loss.text);
  if (current_->step != Step::sent) return;  // its file is still being written, or the record is there already
  const auto key = current_->key;
  const RequestError error = error_for(loss.why, loss.text, current_->shown.part);
  if (loss.why == Trouble::crashed || loss.why == Trouble::silent) deaths_.remember(current_->shown, deaths_remembered, hands_.now());
  left_by_dying_.push_back(current_->id);
  current_.reset();
  if (key != 0) fail(key, error);
}

// What the jobs' state asks for now. Everything here can be asked again without harm.
void VisionConductor::settle() {
  count_waiting();
  std::vector<turn::RequestKey> complete, refused;
  for (auto& [key, order] : orders_) {
    if (order.refused) {
      refused.push_back(key);
    } else if (order.missing == 0 && !order.joining) {
      complete.push_back(key);
    }
  }
  for (const auto key : refused) {
    const RequestError error = *orders_.at(key).refused;
    fail(key, error);
  }
  for (const auto key : complete) {
    Order& order = orders_.at(key);
    const auto& all = order.encoded;
    const bool alike = std::all_of(all.begin(), all.end(), [&](const Encoded& one) { return one.program == all.front().program; });
    if (!alike && encode_anew(key, order)) continue;  // two programs' rows do not belong into one prompt
    order.joining = true;
    order.turn_by.reset();
    order.until = file_limit();
    std::vector<std::shared_ptr<const EncodedPicture>> pictures;
    for (const Encoded& one : all) pictures.push_back(one.picture);
    files_.join(key, std::move(pictures));
  }
  if (shutting_down_) {
    fail_unfinished(error_for(Trouble::shutting_down, "the server is shutting down", ""));
  } else if (off_) {
    fail_unfinished(error_for(Trouble::unloaded, switched_off, ""));
  } else if (child_.state() == ChildState::backoff) {
    fail_unfinished(error_for(Trouble::crash_loop, child_.reason(), ""));
  } else if (child_.state() == ChildState::ready && !restart_wanted_) {
    begin_next();
  } else if (child_.state() == ChildState::ready) {
    const bool has_one = current_ && current_->step != Step::storing && current_->step != Step::stored;
    if (!has_one) give(event::Stop{Trouble::unloaded, false});  // who waits gets the next one
  } else if ((child_.state() == ChildState::unloaded || child_.state() == ChildState::failed) && (!turns_.empty() || (current_ && current_->step == Step::stored))) {
    give(event::Start{});
  }
}

// ---- one picture after the other

void VisionConductor::begin_next() {
  if (current_ && current_->step == Step::stored) return send();
  while (!current_) {
    const auto key = turns_.pop();
    if (!key) return;
    Order& order = orders_.at(*key);
    const std::string client = order.client;
    bool began = false;
    if (!order.refused) {  // else it is about to end
      encode_anew(*key, order);
      tell_rows(*key);
      if (orders_.count(*key) != 0) began = take_turn(*key, order);  // else what it has does not fit
    }
    if (began && !order.waiting.empty()) turns_.push(client, *key);
    if (!began) {
      turns_.give_back(client);
      hands_.run_soon();  // complete, or refused
    }
  }
}

bool VisionConductor::take_turn(turn::RequestKey key, Order& order) {
  while (!order.waiting.empty()) {
    const size_t n = *order.waiting.begin();
    order.waiting.erase(n);
    const turn::Picture& picture = order.pictures[n];
    if (auto known = cache_.find(picture)) {  // it came while this one waited
      take(order, n, {std::move(known), program_});
    } else if (auto refusal = refusal_of(picture)) {  // the child died of it while this one waited
      order.refused = std::move(refusal);
      order.waiting.clear();
    } else {
      order.turn_by.reset();
      current_.emplace();
      static_cast<Job&>(*current_) = {next_job_++, key, n};
      current_->shown = picture;
      current_->until = file_limit();
      files_.store(current_->id, picture.bytes);
      return true;
    }
  }
  return false;
}

void VisionConductor::wait(turn::RequestKey key, Order& order, size_t picture) {
  if (order.waiting.empty()) turns_.push(order.client, key);
  order.waiting.insert(picture);
}

void VisionConductor::take(Order& order, size_t picture, Encoded encoded) {
  order.encoded[picture] = std::move(encoded);
  --order.missing;
}

void VisionConductor::tell_rows(turn::RequestKey key) {
  int64_t pictures = 0, rows = 0;
  for (const Encoded& one : orders_.at(key).encoded) {
    if (!one.picture) continue;
    ++pictures;
    rows += one.picture->rows;
  }
  desk_->encoded_some(key, pictures, rows, hands_.now());
}

void VisionConductor::count_waiting() {
  const TimePoint now = hands_.now();
  if (child_.state() != ChildState::ready) {
    if (!unready_since_) unready_since_ = now;
  } else if (const auto since = std::exchange(unready_since_, std::nullopt)) {
    for (auto& [key, order] : orders_) {
      if (order.turn_by) *order.turn_by += now - std::max(*since, order.came);
    }
  }
}

bool VisionConductor::encode_anew(turn::RequestKey key, Order& order) {
  bool any = false;
  for (size_t i = 0; i < order.encoded.size(); ++i) {
    if (!order.encoded[i].picture || order.encoded[i].program == program_) continue;
    order.encoded[i] = {};
    ++order.missing;
    wait(key, order, i);
    any = true;
  }
  return any;
}

void VisionConductor::stored(JobId job, const Result<protocol::Encode>& paths) {
  if (!current_ || current_->id != job || current_->step != Step::storing) {
    files_.discard(job);  // it came too late, and its request was told so
  } else if (!paths) {
    const auto key = current_->key;
    const RequestError error{ErrorCode::vision_unavailable, current_->shown.part + " could not be given to the vision child: " + paths.error(), "", retry_later_s};
    end_current();
    if (key != 0) fail(key, error);
  } else {
    current_->paths = *paths;
    current_->step = Step::stored;
    current_->until.reset();
    if (current_->key == 0) end_current();  // its client left
  }
  run();
}

void VisionConductor::send() {
  current_->step = Step::sent;
  current_->program = program_;  // one that is to be replaced is sent nothing more
  current_->generation = child_.generation();
  hands_.write(protocol::encode(protocol::VisionCommand{current_->paths}));
  give(event::LeaseOpened{current_->id});
}

void VisionConductor::stdout_line(std::string_view text, bool overlong) {
  auto parsed = overlong ? Result<protocol::VisionEvent>(Error{"a line over " + std::to_string(protocol::max_line_from_child_bytes) + " bytes"})
                         : protocol::parse_vision_line(text);
  if (parsed) {
    line(*parsed, text);
  } else {
    // The first ones tell what is wrong; a flood is counted.
    if (std::has_single_bit(++bad_lines_)) hands_.log("bad line (" + std::to_string(bad_lines_) + " so far): " + parsed.error());
    give(event::BadLine{parsed.error()});
  }
  run();
}

void VisionConductor::line(const protocol::VisionEvent& what, std::string_view text) {
  if (const auto* ready = std::get_if<protocol::VisionReady>(&what)) {
    if (child_.state() != ChildState::starting) return stray(text);
    if (width_ != ready->width) {  // another projector
      cache_.clear();
      ++program_;
    }
    width_ = ready->width;
    protocol::Ready loaded;
    loaded.context = ready->width;
    give(event::Line{std::nullopt, loaded});
  } else if (const auto* ok = std::get_if<protocol::VisionOk>(&what)) {
    if (!current_ || current_->step != Step::sent || child_.state() != ChildState::ready) return stray(text);
    said_ok(*ok);
  } else if (const auto* error = std::get_if<protocol::EngineError>(&what)) {
    if (child_.state() == ChildState::starting) return give(event::Line{std::nullopt, *error});
    if (!current_ || current_->step != Step::sent || child_.state() != ChildState::ready) return stray(text);
    give(event::LeaseClosed{current_->id});
    current_->step = Step::refused;
    current_->refusal = error->text.empty() ? "the vision child gave no reason" : error->text;
    current_->until = hands_.now() + error_awaits_exit;
  }
  // INFO re-arms nothing: vision.ready_s and vision.encode_s bound a whole load and a whole picture.
}

void VisionConductor::said_ok(const protocol::VisionOk& ok) {
  give(event::LeaseClosed{current_->id});
  current_->step = Step::reading;  // also when nobody wants it any more: a wrong record tells that the child is out of step
  current_->until = file_limit();
  files_.read(current_->id, RecordShape{ok.n, ok.nx, ok.ny, width_});
}

void VisionConductor::was_read(JobId job, const Result<std::shared_ptr<const EncodedPicture>>& picture) {
  if (!current_ || current_->id != job || current_->step != Step::reading) {
    files_.discard(job);
    return run();
  }
  const Current done = *current_;
  const bool same_child = done.generation == child_.generation();
  if (picture) {
    end_current();
    // A right record is what proves the child; READY and OK alone do not, and a record that another one wrote says nothing of this one.
    if (same_child) give(event::LeaseAnswered{});
    if (done.program == program_) cache_.add(done.shown, *picture);
    if (const auto found = orders_.find(done.key); found != orders_.end()) take(found->second, done.picture, {*picture, done.program});
    return run();
  }
  current_.reset();
  if (same_child && child_.state() == ChildState::ready) {
    // It may be out of step and answer for another picture than it works at, for ever; and still write what it was told to.
    hands_.log("said OK, but the record is wrong (" + picture.error() + "): it is replaced");
    restart_wanted_ = true;
    left_by_dying_.push_back(done.id);
  } else {
    files_.discard(done.id);
  }
  if (done.key != 0) {
    fail(done.key, {ErrorCode::vision_unavailable, "the vision child said OK for " + done.shown.part + ", but its record is wrong: " + picture.error(), "",
                    retry_soon_s});
  }
  run();
}

void VisionConductor::joined(turn::RequestKey key, const Result<std::shared_ptr<const turn::Embeddings>>& embeddings) {
  const auto found = orders_.find(key);
  if (found == orders_.end() || !found->second.joining) return;
  if (embeddings) {
    orders_.erase(found);
    desk_->encoded(key, *embeddings, hands_.now());
  } else {
    fail(key, {ErrorCode::vision_unavailable, "the embeddings of the pictures could not be given to the engine: " + embeddings.error(), "",
               retry_later_s});
  }
  run();
}

void VisionConductor::end_current() {
  files_.discard(current_->id);
  current_.reset();
}

// ---- endings

void VisionConductor::fail(turn::RequestKey key, const RequestError& error) {
  if (orders_.count(key) == 0) return;
  abandon(key);
  desk_->encode_failed(key, error, hands_.now());
}

void VisionConductor::fail_unfinished(const RequestError& error) {
  std::vector<turn::RequestKey> keys;
  for (const auto& [key, order] : orders_) {
    if (order.missing > 0) keys.push_back(key);
  }
  for (const auto key : keys) fail(key, error);
}

void VisionConductor::stray(std::string_view text) {
  give(event::BadLine{"stray"});
  if (std::has_single_bit(++strays_)) {
    hands_.log("a line that belongs to no picture (" + std::to_string(strays_) + " so far): " + protocol::printable(text));
  }
}

// ---- orders

void VisionConductor::load() {
  give(event::Start{});
  run();
}

void VisionConductor::unload(Trouble why, bool at_once) {
  shutting_down_ = why == Trouble::shutting_down;
  fail_unfinished(error_for(why, shutting_down_ ? "the server is shutting down" : "it was unloaded", ""));
  give(event::Stop{why, at_once});
  run();
}

void VisionConductor::switch_off() {
  off_ = true;
  fail_unfinished(error_for(Trouble::unloaded, switched_off, ""));
  give(event::Stop{Trouble::unloaded, false});
  run();
}

void VisionConductor::set_limits(const VisionLimits& limits) {
  cache_.set_limit(limits.cache_bytes);
  queue_wait_ = limits.queue_wait;
  give(event::Limits{limits.child});
  run();
}

void VisionConductor::settings_changed() {
  cache_.clear();
  ++program_;
  restart_wanted_ = child_.state() == ChildState::ready || child_.state() == ChildState::starting;
  run();
}

void VisionConductor::encode(turn::RequestKey key, const std::vector<turn::Picture>& pictures) {
  Order& order = orders_[key];
  order.client = desk_->client_of(key);
  order.pictures = pictures;
  order.encoded.resize(pictures.size());
  order.came = hands_.now();
  if (queue_wait_ > Duration::zero()) order.turn_by = order.came + queue_wait_;
  for (size_t i = 0; i < pictures.size(); ++i) {
    order.encoded[i] = {cache_.find(pictures[i]), program_};
    if (order.encoded[i].picture || order.refused) continue;
    order.refused = refusal_of(pictures[i]);
    ++order.missing;
    wait(key, order, i);
  }
  hands_.run_soon();
}

size_t VisionConductor::waiting() const {
  size_t all = 0;
  for (const auto& [key, order] : orders_) all += order.waiting.size();
  return all;
}

std::optional<RequestError> VisionConductor::refusal_of(const turn::Picture& picture) const {
  if (!deaths_.refuses(picture, deaths_refused, deaths_remembered, hands_.now())) return std::nullopt;
  return RequestError{ErrorCode::image_invalid,
                      picture.part + " is refused for some minutes: the vision child died " + std::to_string(deaths_refused) +
                          " times while it encoded this very picture.",
                      picture.part, retry_soon_s};
}

void VisionConductor::abandon(turn::RequestKey key) {
  orders_.erase(key);
  turns_.remove(key);
  if (!current_ || current_->key != key) return;
  current_->key = 0;
  // What the child was sent is drained under vision.encode_s; a file that it does not know of goes at once.
  if (current_->step == Step::stored) {
    end_current();
    hands_.run_soon();
  }
}

// ---- happenings

void VisionConductor::tree_empty() {
  for (const JobId job : std::exchange(left_by_dying_, {})) files_.discard(job);
  ChildMind::tree_empty();
}

// ---- time

std::optional<TimePoint> VisionConductor::file_limit() const {
  const Duration limit = child_.limits().silence;
  if (limit <= Duration::zero()) return std::nullopt;
  return hands_.now() + limit;
}

std::optional<TimePoint> VisionConductor::deadline() const {
  auto first = child_.deadline();
  const auto consider = [&](const std::optional<TimePoint>& at) {
    if (at) first = first ? std::min(*first, *at) : *at;
  };
  if (current_) consider(current_->until);
  for (const auto& [key, order] : orders_) {
    consider(order.until);
    if (!unready_since_) consider(order.turn_by);
  }
  return first;
}

// The disk's answers may lie behind this very moment.
void VisionConductor::late(Duration by) {
  if (current_ && current_->until) current_->until = current_->step == Step::refused ? std::optional(*current_->until + by) : file_limit();
  for (auto& [key, order] : orders_) {
    if (order.until) order.until = file_limit();
  }
  ChildMind::late(by);
}

void VisionConductor::due() {
  const TimePoint now = hands_.now();
  const std::string limit = supervise::limit_text(child_.limits(), child_.limits().silence_key, child_.limits().silence);
  if (current_ && current_->until && *current_->until <= now) {
    if (current_->step == Step::refused) {
      refuse("");
    } else {
      const auto key = current_->key;
      const RequestError error{ErrorCode::vision_unavailable, "the files of " + current_->shown.part + " could not be written or read within " + limit, "",
                               retry_later_s};
      end_current();
      if (key != 0) fail(key, error);
    }
  }
  std::vector<turn::RequestKey> late;
  for (const auto& [key, order] : orders_) {
    if (order.until && *order.until <= now) late.push_back(key);
  }
  for (const auto key : late) {
    fail(key, {ErrorCode::vision_unavailable, "the embeddings of the pictures could not be written within " + limit, "", retry_later_s});
  }
  std::vector<turn::RequestKey> passed_over;
  for (const auto& [key, order] : orders_) {
    if (!unready_since_ && order.turn_by && *order.turn_by <= now) passed_over.push_back(key);
  }
  for (const auto key : passed_over) {
    fail(key, {ErrorCode::queue_timeout, "the request's pictures waited for their turn longer than queue.wait_s allows (" +
                                             std::to_string(static_cast<int64_t>(seconds(queue_wait_))) + " s)", "", retry_later_s});
  }
  run();
  judge_if_due();
}

}  // namespace vigil::process
