// The rules of liveness. Every clock here is "the last time of something"; lateness and pauses move all of them alike.
#include "server/supervise/liveness.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace vigil::supervise {

using std::chrono::milliseconds;
using protocol::EngineEvent;

namespace {
// Below this share of one core a child counts as doing nothing (contract).
constexpr double flat_cpu_share = 0.01;
constexpr int beats_missed = 3;
// While a request is open the daemon looks at least this often, whatever it judges by: so it knows how late it is itself.
constexpr Duration shortest_look = milliseconds(50), longest_look = std::chrono::seconds(1);
}  // namespace

std::string limit_text(const ChildLimits& limits, std::string_view key, Duration value) {
  char number[32];
  const double s = seconds(value);
  std::snprintf(number, sizeof number, s == std::floor(s) ? "%.0f" : "%.3g", s);
  return std::string(number) + " s (" + limits.name + "." + std::string(key) + ")";
}

void LivenessWatch::started(const protocol::Ready& ready) {
  leases_.clear();
  samples_.clear();
  paused_since_.reset();
  step_.reset();
  gpu_ = ready.gpu;
  tagged_ = ready.ids;
  beat_.reset();
  if (ready.beat_ms) beat_ = milliseconds(*ready.beat_ms);
}

void LivenessWatch::lease_opened(LeaseId id, TimePoint now) {
  // Only the first open request starts the clocks: others that arrive do not keep a hung child alive.
  if (leases_.empty()) {
    last_output_ = last_beat_ = last_step_ = now;
    samples_.clear();
  }
  leases_[id].last_line = leases_[id].last_sign = now;
}

void LivenessWatch::lease_cancelled(LeaseId id, TimePoint now) {
  const auto lease = leases_.find(id);
  if (lease != leases_.end() && !lease->second.cancelled_at) lease->second.cancelled_at = now;
}

void LivenessWatch::lease_closed(LeaseId id) { leases_.erase(id); }

void LivenessWatch::line(std::optional<LeaseId> id, const EngineEvent& event, const ChildLimits& limits, TimePoint now) {
  output(now);
  if (const auto* beat = std::get_if<protocol::Beat>(&event)) {
    last_beat_ = std::max(last_beat_, now);
    if (!step_ || *step_ != beat->step) last_step_ = std::max(last_step_, now);
    step_ = beat->step;
    if (beat->active) account(*beat->active);
    return;
  }
  const auto found = id ? leases_.find(*id) : leases_.end();
  if (found == leases_.end()) return;
  Lease& lease = found->second;
  lease.last_sign = std::max(lease.last_sign, now);
  lease.accounts_without = 0;
  if (const auto* progress = std::get_if<protocol::PromptProgress>(&event)) {
    if (progress->read <= lease.prompt_read) return;
    lease.prompt_read = progress->read;
  }
  Duration allowance{};
  if (const auto* wait = std::get_if<protocol::Wait>(&event)) {
    if (lease.waited) return;
    lease.waited = true;
    allowance = std::min(from_seconds(std::min(wait->seconds, 1e6)), limits.silence);
  }
  lease.last_line = std::max(lease.last_line, now);
  lease.allowance = allowance;
}

void LivenessWatch::account(const std::vector<LeaseId>& active) {
  for (auto& [id, lease] : leases_) {
    // An engine without request ids can only say whether it works at all.
    const bool known = tagged_ ? std::find(active.begin(), active.end(), id) != active.end() : !active.empty();
    lease.accounts_without = known ? 0 : lease.accounts_without + 1;
  }
}

std::optional<LivenessWatch::Forgotten> LivenessWatch::forgotten(TimePoint now) {
  if (paused_since_) return std::nullopt;
  for (auto& [id, lease] : leases_) {
    if (lease.accounts_without < accounts_without || now - lease.last_sign < account_quiet) continue;
    const std::string evidence = std::to_string(lease.accounts_without) + " accounts in a row (BEAT active=) do not name it, and there was no line for it for " +
                                 std::to_string(std::chrono::duration_cast<std::chrono::seconds>(now - lease.last_sign).count()) + " s";
    lease.accounts_without = 0;  // said once
    return Forgotten{id, evidence};
  }
  return std::nullopt;
}

void LivenessWatch::output(TimePoint now) { last_output_ = std::max(last_output_, now); }

void LivenessWatch::usage(const TreeUsage& usage, const ChildLimits& limits, TimePoint now) {
  if (leases_.empty()) return;
  samples_.push_back({now, usage});
  const TimePoint oldest = now - std::max(window(limits), limits.stall);
  while (samples_.size() >= 2 && samples_[1].at <= oldest) samples_.pop_front();
}

template <typename Function>
void LivenessWatch::for_each_clock(Function&& function) {
  function(last_output_);
  function(last_beat_);
  function(last_step_);
  for (auto& [id, lease] : leases_) {
    function(lease.last_line);
    function(lease.last_sign);
    if (lease.cancelled_at) function(*lease.cancelled_at);
  }
}

void LivenessWatch::paused(bool paused, TimePoint now) {
  if (paused == paused_since_.has_value()) return;
  if (paused) {
    paused_since_ = now;
    return;
  }
  const Duration length = now - *paused_since_;
  paused_since_.reset();
  samples_.clear();  // usage during the pause says nothing
  for_each_clock([&](TimePoint& clock) { clock = std::min(clock + length, now); });
}

void LivenessWatch::late(Duration by, TimePoint now) {
  for_each_clock([&](TimePoint& clock) { clock = std::min(clock + by, now); });
  // Who stood still with us used no CPU time meanwhile: that time may not thin out its share.
  for (Sample& sample : samples_) sample.at = std::min(sample.at + by, now);
}

Duration LivenessWatch::window(const ChildLimits& limits) const {
  if (beat_) return limits.step > Duration::zero() ? std::max(beats_missed * *beat_, limits.step) : limits.stall;
  return gpu_ ? Duration::zero() : limits.stall;
}

TimePoint LivenessWatch::next_sample(const ChildLimits& limits) const {
  const Duration length = window(limits);
  Duration every = length > Duration::zero() ? length / 10 : longest_look;
  if (beat_) every = std::min(every, *beat_);  // by beats a lateness of three of them is judged
  every = std::clamp<Duration>(every, shortest_look, longest_look);
  return (samples_.empty() ? quiet_since() : std::max(quiet_since(), samples_.back().at)) + every;
}

const LivenessWatch::Sample* LivenessWatch::sample_before(TimePoint at) const {
  const Sample* newest = nullptr;
  for (const Sample& sample : samples_) {
    if (sample.at <= at) newest = &sample;
  }
  return newest;
}

std::optional<LivenessWatch::Verdict> LivenessWatch::judge(const ChildLimits& limits, TimePoint now) const {
  if (leases_.empty() || paused_since_) return std::nullopt;
  if (limits.cancel > Duration::zero()) {
    for (const auto& [id, lease] : leases_) {
      if (lease.cancelled_at && now - *lease.cancelled_at >= limits.cancel) {
        return Verdict{Trouble::cancel_unanswered, "a cancelled request was not given up within " + limit_text(limits, "cancel_s", limits.cancel), {id}};
      }
    }
  }
  if (auto verdict = beat_ ? judge_beats(limits, now) : judge_usage(limits, now)) return verdict;
  if (limits.silence > Duration::zero()) {
    for (const auto& [id, lease] : leases_) {
      if (now - lease.last_line >= limits.silence + lease.allowance) {
        return Verdict{Trouble::silent, "no line for this request within " + limit_text(limits, limits.silence_key, limits.silence), {id}};
      }
    }
  }
  return std::nullopt;
}

std::optional<LivenessWatch::Verdict> LivenessWatch::judge_usage(const ChildLimits& limits, TimePoint now) const {
  const Duration length = window(limits);
  if (length == Duration::zero() || now - last_output_ < length || samples_.empty()) return std::nullopt;
  const Sample* base = sample_before(now - length);
  const Sample& latest = samples_.back();
  if (!base || latest.at <= base->at) return std::nullopt;
  const double share = seconds(latest.usage.cpu - base->usage.cpu) / seconds(latest.at - base->at);
  if (share >= flat_cpu_share) return std::nullopt;
  return Verdict{Trouble::stalled, "no output and no CPU time for " + limit_text(limits, "stall_s", limits.stall), {}};
}

std::optional<LivenessWatch::Verdict> LivenessWatch::judge_beats(const ChildLimits& limits, TimePoint now) const {
  if (now - last_beat_ >= beats_missed * *beat_) {
    return Verdict{Trouble::stalled, "three beats of " + std::to_string(std::chrono::duration_cast<milliseconds>(*beat_).count()) +
                                         " ms (READY's beat) are missing", {}};
  }
  if (limits.stall > Duration::zero() && now - last_step_ >= limits.stall) {
    return Verdict{Trouble::stalled, "the compute step did not move for " + limit_text(limits, "stall_s", limits.stall), {}};
  }
  const Duration length = window(limits);
  if (limits.step == Duration::zero() || now - last_step_ < length || samples_.empty()) return std::nullopt;
  const Sample* base = sample_before(now - length);
  const Sample& latest = samples_.back();
  if (!base || latest.at <= base->at) return std::nullopt;
  if (latest.usage.major_faults != base->usage.major_faults || latest.usage.io_bytes != base->usage.io_bytes) return std::nullopt;
  return Verdict{Trouble::stalled, "the compute step did not move, and nothing was read from disk, for " + limit_text(limits, "step_s", length), {}};
}

std::optional<TimePoint> LivenessWatch::deadline(const ChildLimits& limits) const {
  if (leases_.empty() || paused_since_) return std::nullopt;
  std::optional<TimePoint> first;
  const auto consider = [&](TimePoint at) { first = first ? std::min(*first, at) : at; };
  if (window(limits) > Duration::zero()) {
    const TimePoint due = quiet_since() + window(limits);
    // Once that is past and nothing was said, only a new sample can change the judgement.
    if (samples_.empty() || due > samples_.back().at) consider(due);
  }
  if (beat_) {
    consider(last_beat_ + beats_missed * *beat_);
    if (limits.stall > Duration::zero()) consider(last_step_ + limits.stall);
  }
  for (const auto& [id, lease] : leases_) {
    if (limits.silence > Duration::zero()) consider(lease.last_line + limits.silence + lease.allowance);
    if (limits.cancel > Duration::zero() && lease.cancelled_at) consider(*lease.cancelled_at + limits.cancel);
  }
  if (first) consider(next_sample(limits));
  return first;
}

}  // namespace vigil::supervise
