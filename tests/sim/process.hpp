// A scripted child process in the virtual world, whatever its protocol: it starts well or badly, prints bytes into its pipes, reacts to signals,
// dies. Not here: what it is asked and answers (engine.hpp, vision_child.hpp); when the daemon reads what was printed (host.cpp).
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "server/supervise/liveness.hpp"
#include "tests/sim/scheduler.hpp"
#include "tests/sim/script.hpp"

namespace vigil::sim {

// What a process does to the machine it runs on. None of these may reach the daemon before the call returns to the process, but for output.
class ProcessHost {
 public:
  virtual ~ProcessHost() = default;
  virtual void on_executed() = 0;
  virtual void on_not_executed(const std::string& why) = 0;
  virtual void on_output(std::string_view bytes) = 0;
  virtual void on_error_output(std::string_view bytes) = 0;
  virtual void on_output_closed() = 0;
  virtual void on_exit(const std::string& how) = 0;   // the leader is dead
  virtual void on_tree_changed() = 0;                 // perhaps empty now
  virtual void on_violation(const std::string& what) = 0;
};

class Process : public std::enable_shared_from_this<Process> {
 public:
  Process(Scheduler& clock, Random dice, ProcessScript script, ProcessHost& host);
  virtual ~Process() = default;
  void begin();
  void terminate();
  void kill();
  void crash(const std::string& how) { die(how); }    // from outside: the OOM killer
  void machine_stops();                               // all of it, this process too
  void machine_goes_on(Duration stood_still);
  bool tree_empty() const { return !leader_ && !grandchild_; }
  bool leader_lives() const { return leader_; }
  virtual supervise::TreeUsage usage() { return {}; }

  // The truth, for judging judgements.
  bool healthy() const { return healthy_; }           // so far it did nothing that a limit may end
  void not_to_blame() { healthy_ = false; }           // the world's own failure made it useless

 protected:
  virtual void ready() = 0;                           // its load is done: it says READY
  virtual void account() {}                           // what it burns is about to change
  virtual void woke() {}                              // the machine goes on
  void print_bytes(std::string bytes);
  void print_line(const std::string& text) { print_bytes(text + "\n"); }
  void say_again(Duration every, const std::string& text);
  void chatter(Duration every);
  void close_output();
  void leave_grandchild() { grandchild_ = true; }     // one that a death does not take along
  void die(const std::string& how);
  template <typename Function>
  void later(Duration delay, Function&& function);

  Scheduler& clock_;
  Random dice_;
  ProcessHost& host_;
  bool leader_ = false, printing_ = true, healthy_ = true, machine_stopped_ = false;
  std::string unprinted_;                             // the second half of a line in pieces

 private:
  void load_fails();
  template <typename Function>
  void fire(Function& function);

  ProcessScript start_;
  bool grandchild_ = false, terminated_ = false, kill_pending_ = false;
  TimePoint unkillable_until_{};
  std::deque<std::pair<TimePoint, std::function<void()>>> woken_late_;  // what came due while the machine stood still
  uint64_t pieces_ = 0;
};

template <typename Function>
void Process::later(Duration delay, Function&& function) {
  clock_.in(delay, [self = weak_from_this(), function = std::forward<Function>(function)]() mutable {
    if (const auto process = self.lock(); process && process->leader_) process->fire(function);
  });
}

template <typename Function>
void Process::fire(Function& function) {
  if (machine_stopped_) woken_late_.emplace_back(clock_.now(), function);
  else function();
}

}  // namespace vigil::sim
