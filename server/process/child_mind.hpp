// What the minds of all children have in common: the machine, the queue through which its events and effects run, the orders to the hands that
// follow from an effect alone. Pure. Not here: what an effect means to requests (conductor.hpp, vision_conductor.hpp).
#pragma once

#include <deque>
#include <string>
#include <variant>

#include "server/process/hands.hpp"

namespace vigil::process {

// An ERR ends its request when the child exits or after this long, whichever comes first (contract); nothing is sent to the child meanwhile.
inline constexpr Duration error_awaits_exit = std::chrono::milliseconds(200);

class ChildMind : public Mind {
 public:
  // ---- Mind
  void spawned(int64_t pid) override;
  void spawn_failed(const std::string& reason) override;
  void stderr_output() override;
  void stdout_closed() override;
  void exited(const std::string& how) override;
  void tree_empty() override;
  void late(Duration by) override;
  void run_pending() override { run(); }
  const supervise::Child& child() const override { return child_; }

 protected:
  ChildMind(supervise::ChildLimits limits, Hands& hands) : child_(std::move(limits)), hands_(hands) {}

  void give(const supervise::Event& event) { pending_.emplace_back(event); }  // to the machine, in its turn
  void run();                                                  // the queue, unless it is being run already
  bool nothing_pending() const { return pending_.empty(); }
  void judge_if_due();                                         // the machine's own deadline, with a fresh sample
  std::string with_last_words(std::string text) const;
  std::string failure_text(const supervise::effect::LoadFailed& failed) const;

  // ---- what the effects mean to requests; called in their order, never from inside the desk
  virtual void before_spawn() {}
  virtual void state_told() {}                                 // state(), ready() ... are new; the hands hear of it after this
  virtual void state_settled() {}                              // the hands have heard of it
  virtual void load_failed(const supervise::effect::LoadFailed& failed) = 0;
  virtual void lost(const supervise::effect::Lost& lost) = 0;
  virtual void forgotten(const supervise::effect::LeaseForgotten&) {}
  // The queue is empty: what the mind's own state asks for now. Whatever it gives runs next.
  virtual void settle() = 0;
  // Better last words than those of stderr; empty when there are none.
  virtual std::string own_last_words() const { return {}; }

  supervise::Child child_;
  Hands& hands_;

 private:
  void act(const supervise::Effect& effect);

  // What waits for its turn: machine events and their effects, in order. Port calls come from inside the desk, so nothing that calls the
  // desk may run before they return.
  std::deque<std::variant<supervise::Event, supervise::Effect>> pending_;
  bool running_ = false;
  TimePoint started_at_{};
  supervise::Generation loaded_ = 0;                           // the last generation that was seen ready
};

}  // namespace vigil::process
