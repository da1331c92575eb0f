// One mutex; nothing is done under it but moving requests and setting flags.
#include "engine/schedule/request_queue.hpp"

#include <algorithm>

namespace vigil::schedule {

void RequestQueue::abort_by(std::atomic<bool>& abort) {
  const std::lock_guard lock(mutex_);
  abort_ = &abort;
  judge();
}

RequestQueue::Added RequestQueue::push(Request request) {
  const std::lock_guard lock(mutex_);
  if (request.tag) {
    const auto same = [&](const auto& other) { return other.tag == request.tag; };
    if (std::any_of(waiting_.begin(), waiting_.end(), same) || std::any_of(running_.begin(), running_.end(), same)) return Added::duplicate;
  }
  if (waiting_.size() >= limit_) return Added::full;
  waiting_.push_back(std::move(request));
  changed_.notify_all();
  return Added::queued;
}

bool RequestQueue::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || !waiting_.empty(); });
  return !closed_;
}

bool RequestQueue::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

std::optional<RequestQueue::Taken> RequestQueue::take() {
  const std::lock_guard lock(mutex_);
  if (closed_ || waiting_.empty()) return std::nullopt;
  Taken taken{++last_number_, std::move(waiting_.front())};
  waiting_.pop_front();
  running_.push_back({taken.number, taken.request.tag});
  changed_.notify_all();
  return taken;
}

bool RequestQueue::stopped(Number number) const {
  const std::lock_guard lock(mutex_);
  return closed_ || std::any_of(running_.begin(), running_.end(), [&](const Running& one) { return one.number == number && one.stopped; });
}

void RequestQueue::begin_step(std::span<const Number> members) {
  const std::lock_guard lock(mutex_);
  for (Running& one : running_) one.in_step = std::find(members.begin(), members.end(), one.number) != members.end();
  judge();
}

void RequestQueue::end_step() { begin_step({}); }

void RequestQueue::finished(Number number) {
  const std::lock_guard lock(mutex_);
  std::erase_if(running_, [&](const Running& one) { return one.number == number; });
  judge();
  changed_.notify_all();
}

void RequestQueue::judge() {
  bool any = false, all = true;
  for (const Running& one : running_) {
    any |= one.in_step;
    all &= one.stopped || !one.in_step;
  }
  if (abort_ != nullptr) abort_->store(closed_ || (any && all));
}

RequestQueue::StopResult RequestQueue::stop(std::optional<protocol::RequestTag> tag) {
  const std::lock_guard lock(mutex_);
  for (Running& one : running_) {
    if (tag ? one.tag != tag : one.stopped) continue;
    one.stopped = true;
    judge();
    return {Stopped::running, one.tag};
  }
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), [&](const Request& request) { return !tag || request.tag == tag; });
  if (found == waiting_.end()) return {};
  const StopResult result{Stopped::waiting, found->tag};
  waiting_.erase(found);
  return result;
}

void RequestQueue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  waiting_.clear();
  judge();
  changed_.notify_all();
}

bool RequestQueue::active() const {
  const std::lock_guard lock(mutex_);
  return !running_.empty();
}

std::vector<protocol::RequestTag> RequestQueue::tags() const {
  const std::lock_guard lock(mutex_);
  std::vector<protocol::RequestTag> tags;
  for (const Running& one : running_) {
    if (one.tag) tags.push_back(*one.tag);
  }
  for (const Request& request : waiting_) {
    if (request.tag) tags.push_back(*request.tag);
  }
  return tags;
}

bool RequestQueue::wait_active() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || !running_.empty(); });
  return !closed_;
}

bool RequestQueue::still_active_after(Duration period) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, period, [&] { return closed_ || running_.empty(); });
}

}  // namespace vigil::schedule
