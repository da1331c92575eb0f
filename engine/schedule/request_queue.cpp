// One mutex; nothing is done under it but moving requests and setting flags.
#include "engine/schedule/request_queue.hpp"

#include <algorithm>

namespace vigil::schedule {

RequestQueue::Added RequestQueue::push(Request request) {
  const std::lock_guard lock(mutex_);
  if (request.tag) {
    const bool waits = std::any_of(waiting_.begin(), waiting_.end(), [&](const Request& other) { return other.tag == request.tag; });
    if (waits || (running_ && running_tag_ == request.tag)) return Added::duplicate;
  }
  if (waiting_.size() >= limit_) return Added::full;
  waiting_.push_back(std::move(request));
  changed_.notify_all();
  return Added::queued;
}

std::optional<Request> RequestQueue::take(std::atomic<bool>& abort) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || !waiting_.empty(); });
  if (closed_) return std::nullopt;
  Request request = std::move(waiting_.front());
  waiting_.pop_front();
  running_ = true;
  running_tag_ = request.tag;
  abort_ = &abort;
  abort.store(false);  // under the lock: a stop for this request comes after, one for the last came before
  changed_.notify_all();
  return request;
}

void RequestQueue::finished() {
  const std::lock_guard lock(mutex_);
  running_ = false;
  abort_ = nullptr;
  changed_.notify_all();
}

RequestQueue::StopResult RequestQueue::stop(std::optional<protocol::RequestTag> tag) {
  const std::lock_guard lock(mutex_);
  if (running_ && (!tag || running_tag_ == tag)) {
    abort_->store(true);
    return {Stopped::running, running_tag_};
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
  if (running_) abort_->store(true);
  changed_.notify_all();
}

bool RequestQueue::active() const {
  const std::lock_guard lock(mutex_);
  return running_;
}

std::vector<protocol::RequestTag> RequestQueue::tags() const {
  const std::lock_guard lock(mutex_);
  std::vector<protocol::RequestTag> tags;
  if (running_ && running_tag_) tags.push_back(*running_tag_);
  for (const Request& request : waiting_) {
    if (request.tag) tags.push_back(*request.tag);
  }
  return tags;
}

bool RequestQueue::wait_active() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || running_; });
  return !closed_;
}

bool RequestQueue::still_active_after(Duration period) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, period, [&] { return closed_ || !running_; });
}

}  // namespace vigil::schedule
