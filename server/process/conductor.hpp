// The pure half of an engine's driver: joins one supervise::Child and one turn::Desk. Lines become leases' events, the machine's effects
// become orders to Hands, troubles become error codes, an ERR is held until its exit or 200 ms. No Asio, no clock, no pipes: the
// simulation runs this very code. The impure half (child_host.cpp) implements Hands and reports what happens.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "server/process/child_mind.hpp"
#include "server/supervise/child.hpp"
#include "server/turn/desk.hpp"

namespace vigil::process {

class Conductor final : public turn::TurnPort, public ChildMind {
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
  void stdout_line(std::string_view line, bool overlong) override;
  void late(Duration by) override;  // an exit is awaited for that much longer too
  void due() override;
  std::optional<TimePoint> deadline() const override;

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
  void before_spawn() override;
  void state_told() override { tell_desk(); }
  void state_settled() override;
  void load_failed(const supervise::effect::LoadFailed& failed) override;
  void lost(const supervise::effect::Lost& lost) override;
  void forgotten(const supervise::effect::LeaseForgotten& what) override;
  void settle() override;
  std::string own_last_words() const override { return fatal_; }
  void settle_loads();
  void tell_desk();
  void tell_load_waiters(const std::optional<turn::RequestError>& error);
  void tell_unload_waiters();
  std::optional<turn::LeaseId> lease_of(const protocol::EngineLine& line) const;
  void line_of(turn::LeaseId lease, const protocol::EngineEvent& event);
  void token_of(turn::LeaseId lease, const protocol::EngineEvent& token);
  void stray(std::string_view line);
  turn::RequestError error_for(supervise::Trouble why, const std::string& text) const;

  turn::Desk* desk_ = nullptr;
  std::set<turn::LeaseId> leases_;                            // open leases of this process
  std::map<turn::LeaseId, TimePoint> errors_;                 // leases that said ERR or FATAL, and until when their exit is awaited
  std::string fatal_;                                         // FATAL or ERR outside any lease: last words for the reason
  uint64_t strays_ = 0, bad_lines_ = 0;
  std::vector<LoadDone> load_waiters_, loads_after_unload_;
  std::vector<std::function<void()>> unload_waiters_;
  bool unload_wanted_ = false;                                // as soon as no lease is open
};

}  // namespace vigil::process
