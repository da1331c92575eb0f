// The pure half of an engine's driver: joins one supervise::Child and one turn::Desk. Lines become leases' events, the machine's effects
// become orders to Hands, troubles become error codes, an ERR is held until its exit or 200 ms. No Asio, no clock, no pipes: the
// simulation runs this very code. The impure half (child_host.cpp) implements Hands and reports what happens.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/process/hands.hpp"
#include "server/supervise/child.hpp"
#include "server/turn/desk.hpp"

namespace vigil::process {

class Conductor final : public turn::TurnPort, public Mind {
 public:
  Conductor(supervise::ChildLimits limits, Hands& hands);
  void attach(turn::Desk& desk) { desk_ = &desk; }

  // ---- what the daemon orders
  void load(bool by_hand);
  // /v1/load: as load(true); `done` is called once, later: with nothing at READY, else with why not. While an unload waits for running
  // requests, the load comes after it.
  using LoadDone = std::function<void(const std::optional<turn::RequestError>&)>;
  void load_and_tell(LoadDone done);
  void unload(supervise::Trouble why, bool at_once);          // over when child().state() is unloaded
  // /v1/unload: running requests may end, a load in progress may not, who waits ends now. `done` is called once, when no process is left.
  void unload_when_idle(std::function<void()> done);
  void set_limits(const supervise::ChildLimits& limits);
  void settings_changed();                                    // Hands::vocabulary() may be another now

  // ---- Mind
  void spawned(int64_t pid) override;
  void spawn_failed(const std::string& reason) override;
  void stdout_line(std::string_view line, bool overlong) override;
  void stderr_output() override;
  void stdout_closed() override;
  void exited(const std::string& how) override;
  void tree_empty() override;
  void late(Duration by) override;
  void due() override;
  void run_pending() override;
  std::optional<TimePoint> deadline() const override;
  const supervise::Child& child() const override { return child_; }

  // ---- turn::TurnPort
  void need_engine() override;
  void start(turn::LeaseId lease, const turn::Request& request, int64_t max_new) override;
  void cancel(turn::LeaseId lease) override;
  void answered(turn::LeaseId lease) override;
  void release(turn::LeaseId lease) override;
  void pause_output(bool paused) override;

  uint64_t strays() const { return strays_; }                 // lines that belonged to nobody
  uint64_t bad_lines() const { return bad_lines_; }

 private:
  void give(const supervise::Event& event);                   // to the machine; effects are queued and run
  void run();                                                 // the queue, unless it is being run already
  void act(const supervise::Effect& effect);
  void tell_desk();
  void tell_load_waiters(const std::optional<turn::RequestError>& error);
  void tell_unload_waiters();
  void report(const supervise::effect::Lost& lost);
  std::optional<turn::LeaseId> lease_of(const protocol::EngineLine& line) const;
  void line_of(turn::LeaseId lease, const protocol::EngineEvent& event);
  void token_of(turn::LeaseId lease, const protocol::EngineEvent& token);
  std::string with_last_words(std::string text) const;
  void stray(std::string_view line);
  turn::RequestError error_for(supervise::Trouble why, const std::string& text) const;

  supervise::Child child_;
  Hands& hands_;
  turn::Desk* desk_ = nullptr;
  // What waits for its turn: machine events and their effects, in order. Port calls come from inside the desk, so nothing that calls the
  // desk may run before they return.
  std::deque<std::variant<supervise::Event, supervise::Effect>> pending_;
  bool running_ = false;
  std::set<turn::LeaseId> leases_;                            // open leases of this process
  std::map<turn::LeaseId, TimePoint> errors_;                 // leases that said ERR or FATAL, and until when their exit is awaited
  std::string fatal_;                                         // FATAL or ERR outside any lease: last words for the reason
  uint64_t strays_ = 0, bad_lines_ = 0;
  TimePoint started_at_{};
  std::vector<LoadDone> load_waiters_, loads_after_unload_;
  std::vector<std::function<void()>> unload_waiters_;
  bool unload_wanted_ = false;                                // as soon as no lease is open
  supervise::Generation loaded_ = 0;                          // the last generation that was seen ready
};

}  // namespace vigil::process
