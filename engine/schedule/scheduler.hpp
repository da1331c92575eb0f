// Whose turn it is: each step takes the next token of every answer that is being generated, and beside them a part of the prompts that are still
// being read. For one thread; requests come and are stopped through the queue. Not here: what an answer says (answer.hpp), where KV blocks come
// from (cache/conversations.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/cache/conversations.hpp"
#include "engine/sample/grammar_shelf.hpp"
#include "engine/schedule/answer.hpp"
#include "engine/schedule/draft.hpp"
#include "engine/schedule/request_queue.hpp"
#include "engine/schedule/runtime.hpp"
#include "engine/schedule/step_sizer.hpp"

namespace vigil::schedule {

class Scheduler {
 public:
  using Clock = std::function<TimePoint()>;
  using Emit = std::function<void(std::optional<protocol::RequestTag>, protocol::EngineEvent)>;

  // `emit` gets RESUME, PP, T, V and exactly one of DONE and ERR for every request taken from the queue. When it hears the latter the queue has
  // already forgotten the request.
  Scheduler(Runtime& runtime, RequestQueue& queue, double step_ms, Clock clock, Emit emit);

  bool idle() const { return places_.empty(); }
  // Ends what was stopped, takes what waits while slots are free, computes one step and says what came of it.
  void step();
  const cache::Conversations& conversations() const { return conversations_; }
  const GuessTally& tally() const { return tally_; }  // of the answers that have ended

 private:
  using Number = RequestQueue::Number;
  struct Place {
    Number number = 0;
    std::unique_ptr<Answer> answer;
    // An older request that is reading a prompt which begins like this one: until it has come to `leader_length`, this one waits.
    Number leader = 0;
    int64_t leader_length = 0;
    std::optional<uint64_t> suspended;  // its blocks were taken for an older one: the number of endings by then
    bool idle = false;                  // no part in this step
  };
  struct Share {
    Place* place;
    Part part;
  };

  void end_stopped();
  void admit();
  void seat(RequestQueue::Taken taken);
  void follow(Place& place);     // chooses the leader
  std::vector<Draft::Wish> let_draft_read();
  void guess(std::vector<Draft::Wish> wishes);
  void plan();
  void plan_reading(std::vector<Place*>& readers);
  void settle_waits();
  bool add_generating(Place& place);
  bool add_reading(Place& place, int64_t count);
  bool make_room(Place& place, int64_t count);
  Place* youngest_behind(const Place& place);
  void suspend(Place& place);
  void deliver(const Share& share, TimePoint now);
  void end(Place& place, protocol::EngineEvent last_line);
  Place* find(Number number);

  Runtime& runtime_;
  RequestQueue& queue_;
  const Clock clock_;
  const Emit emit_;
  sample::MaskShelf masks_;
  cache::Conversations conversations_;
  StepSizer sizer_;
  std::optional<Draft> draft_;
  GuessTally tally_;
  std::vector<std::unique_ptr<Place>> places_;  // the oldest first
  std::vector<Share> shares_;                   // of the step that is planned
  uint64_t endings_ = 0, turns_ = 0;
};

}  // namespace vigil::schedule
