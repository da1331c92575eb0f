// Plays one seed: the loop, the daemon's own orders, time that stands still, the end. Clients are in world_clients.cpp.
#include "tests/sim/world.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace vigil::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;
using supervise::ChildState;

namespace {
constexpr Duration faults_last = seconds(60);
constexpr Duration drain_bound = seconds(600);          // above every sum of limits that a request can meet
constexpr uint64_t step_bound = 200'000;                // a world that spins is a violation
}  // namespace

World::World(uint64_t seed, Trace trace, uint64_t fail_at, Pictures pictures)
    : seed_(seed), trace_(trace), dice_(seed * 0x2545F4914F6CDD1Dull + 1), plan_(seed, fail_at),
      oracle_(clock_, [this](const std::string& what) { fail(what); }), vision_dice_(seed * 0x9FB21C651E98DF25ull + 7) {
  draw_limits();
  oracle_.limits(limits_, desk_limits_, limits_.eager);
  Host::World around;
  around.note = [this](const std::string& what) { note(what); };
  around.violation = [this](const std::string& what) { fail(what); };
  around.frozen = [this] { return frozen_until_.has_value(); };
  around.traced = trace == Trace::on;
  around.name = "engine";
  driver_ = std::make_unique<EngineDriver>(clock_, dice_, plan_, oracle_, std::move(around), [this] { return script(); }, limits_);
  turn::DeskObserver observer;
  observer.gauges = [this](int64_t running, int64_t queued) {
    gauge_running_ = running;
    gauge_queued_ = queued;
    if (running < 0 || queued < 0) fail("a gauge below 0");
    if (std::exchange(desk_posted_, true)) return;
    clock_.in(milliseconds(0), [this] {
      post_unordered([this] {
        desk_posted_ = false;
        arm_desk_timer();
        if (draining_ && desk_->idle()) drained();
      });
    });
  };
  observer.log = [this](const std::string& line) { note("desk: " + line); };
  desk_ = std::make_unique<turn::Desk>(desk_limits_, driver_->conductor(), std::move(observer));
  driver_->conductor().attach(*desk_);
  make_vision(pictures);
}

// Above what a healthy script needs (script.hpp), and small enough that every limit is met in a minute.
void World::draw_limits() {
  limits_.exec = milliseconds(dice_.between(500, 2000));
  limits_.ready = milliseconds(dice_.between(4500, 9000));
  limits_.load_max = milliseconds(dice_.between(22000, 40000));
  limits_.silence = milliseconds(dice_.between(5000, 12000));
  limits_.stall = milliseconds(dice_.between(2600, 4800));
  limits_.step = milliseconds(dice_.between(1500, 4000));
  limits_.cancel = milliseconds(dice_.between(2000, 5000));
  limits_.stop = milliseconds(dice_.between(500, 2000));
  limits_.backoff_first = milliseconds(dice_.between(200, 1000));
  limits_.backoff_max = milliseconds(dice_.between(1500, 8000));
  limits_.eager = dice_.chance(50);
  limits_.idle_unload = milliseconds(dice_.chance(25) ? dice_.between(1000, 10000) : 0);
  desk_limits_.queue_limit = static_cast<size_t>(dice_.chance(10) ? 0 : dice_.chance(20) ? 64 : dice_.between(1, 6));
  desk_limits_.queue_wait = milliseconds(dice_.between(3000, 20000));
  desk_limits_.queue_warn = seconds(10);
  desk_limits_.slow_reader_wait = milliseconds(dice_.between(500, 3000));
  // No key of the configuration: a reload leaves it as it is.
  const Duration memory = milliseconds(dice_.between(10000, 60000));
  if (!driver_) desk_limits_.crash_memory = memory;
  desk_limits_.cancel_memory = milliseconds(dice_.between(2000, 20000));
  drain_ = milliseconds(dice_.between(500, 8000));
}

Script World::script() {
  ++result_.starts;
  return faults_over_ ? Script::healthy(dice_) : Script::draw(dice_);
}

// ---- the world goes on

WorldResult World::run() {
  if (limits_.eager) {
    oracle_.load_ordered(false);
    driver_->report([this] { driver_->conductor().load(false); });
  }
  plan();
  if (vision_) plan_vision();
  const TimePoint calm = clock_.now() + faults_last;
  const bool stops_in_the_end = dice_.chance(30);
  clock_.at(calm, [this, stops_in_the_end] {
    faults_over_ = true;
    if (stops_in_the_end && !stopping_) post([this] { signal(); });
  });
  while (!result_.violation && !clock_.empty() && clock_.next() <= calm + drain_bound) {
    clock_.run_one();
    if (++result_.steps > step_bound) fail("the world spins");
    check();
    if (faults_over_ && !stopping_ && !frozen_until_ && desk_->idle() && posted_.empty() && (!vision_ || vision_->quiet())) break;
  }
  if (!result_.violation) check_end();
  const auto totals = desk_->snapshot(clock_.now());
  result_.served = totals.served;
  result_.failures = totals.failed;
  result_.cancelled = totals.cancelled;
  result_.rejected = totals.rejected;
  result_.fault_points = plan_.steps();
  result_.failed = plan_.hit();
  end_vision();
  return std::move(result_);
}

void World::post(std::function<void()> what) {
  if (frozen_until_ || !posted_.empty()) {
    posted_.push_back(std::move(what));
  } else {
    what();
  }
}

void World::post_unordered(std::function<void()> what) {
  if (frozen_until_) unordered_.push_back(std::move(what));
  else what();
}

// ---- the daemon's own orders, as server/daemon.cpp gives them

void World::reload() {
  if (stopping_) return;
  note("reload");
  const bool eager = limits_.eager;
  draw_limits();
  if (dice_.chance(70)) limits_.eager = eager;
  oracle_.limits(limits_, desk_limits_, limits_.eager);
  desk_->set_limits(desk_limits_);
  driver_->report([this] { driver_->conductor().set_limits(limits_); });
  if (!vision_) return;
  draw_vision_limits();
  vision_->set_limits(vision_limits_);
}

void World::load() {
  if (stopping_) return;
  note("load by hand");
  oracle_.load_ordered(true);
  ++load_waits_;
  const auto told = std::make_shared<bool>(false);
  driver_->report([&] {
    driver_->conductor().load_and_tell([this, told](const std::optional<turn::RequestError>& error) {
      note("the load by hand is over");
      if (std::exchange(*told, true)) return fail("a load by hand was answered twice");
      --load_waits_;
      if (!error && driver_->conductor().child().state() != ChildState::ready) fail("a load by hand was answered well, and no engine is ready");
    });
  });
}

void World::unload() {
  if (stopping_) return;
  note("unload");
  oracle_.unload_ordered(Oracle::Unload::when_idle);
  ++unload_waits_;
  const auto told = std::make_shared<bool>(false);
  driver_->report([&] {
    driver_->conductor().unload_when_idle([this, told] {
      note("the unload is over");
      if (std::exchange(*told, true)) return fail("an unload was answered twice");
      --unload_waits_;
      if (driver_->process_left()) fail("an unload was answered while a process lives");
    });
  });
  if (oracle_.waiting() != 0) fail("an unload was ordered, and a request waits");
}

void World::signal() {
  if (!stopping_) {
    note("SIGTERM");
    stopping_ = draining_ = true;
    const bool loads = driver_->conductor().child().state() == ChildState::starting;
    oracle_.closed(drain_);
    desk_->close(clock_.now());
    limits_.eager = false;
    oracle_.limits(limits_, desk_limits_, false);
    driver_->report([this] { driver_->conductor().set_limits(limits_); });
    if (oracle_.waiting() != 0) fail("a request waits although the daemon shuts down");
    if (loads || desk_->idle()) return drained();
    clock_.in(drain_, [this] { post([this] { if (draining_) drained(); }); });
  } else if (draining_) {
    note("SIGTERM again");
    drained();
  }
}

void World::drained() {
  if (std::exchange(stop_children_, true)) return;
  draining_ = false;
  desk_->end_running({turn::ErrorCode::shutting_down, "the server is shutting down", "", 5}, clock_.now());
  const auto open = std::count_if(oracle_.calls().begin(), oracle_.calls().end(), [](const auto& call) { return call->open(); });
  if (open != 0) fail("the drain is over, and a request is open");
  oracle_.unload_ordered(Oracle::Unload::now);
  const bool at_once = driver_->conductor().child().state() == ChildState::starting;
  driver_->report([&] { driver_->conductor().unload(supervise::Trouble::shutting_down, at_once); });
  if (vision_) vision_->unload(supervise::Trouble::shutting_down, vision_->state() == ChildState::starting);
}

void World::arm_desk_timer() {
  const auto wanted = desk_->deadline();
  if (wanted == desk_armed_) return;
  desk_armed_ = wanted;
  const uint64_t epoch = ++desk_epoch_;
  desk_timer_waits_ = false;
  if (!desk_armed_) return;
  clock_.at(*desk_armed_, [this, epoch] {
    if (epoch != desk_epoch_) return;
    if (plan_.at(Point::timer)) {
      const Duration delay = plan_.delay(3000);
      note("FAULT: the desk's timer");
      oracle_.forgive_from_now(delay);
      clock_.in(delay, [this, epoch] {
        if (epoch == desk_epoch_) desk_timer(*desk_armed_);
      });
      return;
    }
    desk_timer(*desk_armed_);
  });
}

void World::desk_timer(TimePoint) {
  desk_timer_waits_ = true;
  if (frozen_until_) return;
  desk_timer_waits_ = false;
  desk_armed_.reset();
  ++desk_epoch_;
  desk_->tick(clock_.now());
  arm_desk_timer();
}

// ---- time stands still: for the daemon alone (SIGSTOP, swap), or for the whole machine

void World::freeze(Freeze kind) {
  if (frozen_until_) return;
  const Duration length = milliseconds(dice_.chance(50) ? dice_.between(260, 2500) : dice_.between(300, 12000));
  frozen_until_ = clock_.now() + length;
  note(kind == Freeze::daemon ? "the daemon stands still" : "the machine stands still");
  if (kind == Freeze::machine && driver_->engine()) driver_->engine()->machine_stops();
  if (kind == Freeze::machine && vision_ && vision_->process()) vision_->process()->machine_stops();
  clock_.at(*frozen_until_, [this, kind, length] { thaw(kind, length); });
}

// What came to pass meanwhile is seen in any order; only clients keep theirs.
void World::thaw(Freeze kind, Duration length) {
  frozen_until_.reset();
  note("and goes on");
  oracle_.forgive(length);
  if (kind == Freeze::machine && driver_->engine()) driver_->engine()->machine_goes_on(length);
  if (kind == Freeze::machine && vision_ && vision_->process()) vision_->process()->machine_goes_on(length);
  auto steps = driver_->thaw();
  if (desk_timer_waits_) steps.push_back([this] { if (desk_timer_waits_) desk_timer(*desk_armed_); });
  auto posted = std::exchange(posted_, {});
  for (size_t n = steps.size(); n > 1; --n) std::swap(steps[n - 1], steps[static_cast<size_t>(dice_.between(0, static_cast<int64_t>(n) - 1))]);
  size_t after = 0;  // a client's step may come before or after any of the others, in the clients' own order
  for (auto& what : posted) {
    after = static_cast<size_t>(dice_.between(static_cast<int64_t>(after), static_cast<int64_t>(steps.size())));
    steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(after++), std::move(what));
  }
  // What is no client's, engine's or operator's takes its place by other dice, so that theirs fall the same without it.
  auto others = std::exchange(unordered_, {});
  if (vision_) {
    vision_->oracle().forgive(length);
    for (auto& what : vision_->thaw()) others.push_back(std::move(what));
  }
  for (auto& what : others) {
    const auto place = vision_dice_.between(0, static_cast<int64_t>(steps.size()));
    steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(place), std::move(what));
  }
  catching_up_ = steps.size();
  for (auto& step : steps) {
    clock_.at(clock_.now(), [this, step = std::move(step)] {
      step();
      --catching_up_;
    });
  }
}

// ---- judgement

void World::check() {
  if (result_.violation || frozen_until_ || catching_up_ > 0 || driver_->busy()) return;
  const auto view = desk_->snapshot(clock_.now());
  if (view.running != gauge_running_ || view.queued != gauge_queued_) fail("the gauges differ from the status");
  oracle_.check(view, driver_->conductor().child(), driver_->bounded(), desk_armed_.has_value() || desk_posted_);
  if (vision_ && !vision_->busy()) vision_->check(view);
  const ChildState state = driver_->conductor().child().state();
  const bool loads = state == ChildState::starting || state == ChildState::stopping || (state == ChildState::ready && unload_waits_ > 0);
  if (load_waits_ > 0 && !loads) fail("a load by hand is not answered");
  if (unload_waits_ > 0 && state != ChildState::stopping && state != ChildState::ready) fail("an unload is not answered");
}

void World::check_end() {
  oracle_.check_end(desk_->snapshot(clock_.now()));
  if (!desk_->idle()) fail("the desk did not drain");
  if (vision_) vision_->check_end();
  if (gauge_running_ != 0 || gauge_queued_ != 0) fail("a gauge is not 0 after the drain");
  if (!stopping_) return;
  if (driver_->conductor().child().state() != ChildState::unloaded) fail("the engine did not stop with the daemon");
  if (driver_->process_left()) fail("a process was left over");
  if (vision_ && vision_->state() != ChildState::unloaded) fail("the vision child did not stop with the daemon");
  if (vision_ && vision_->process_left()) fail("a process of the vision child was left over");
  if (load_waits_ + unload_waits_ != 0) fail("an order was never answered");
}

void World::fail(const std::string& what) {
  if (!result_.violation) result_.violation = "seed " + std::to_string(seed_) + ": " + what;
  note("VIOLATION: " + what);
}

void World::note(const std::string& what) {
  if (trace_ == Trace::off) return;
  const double at = vigil::seconds(clock_.now().time_since_epoch()) - 3600;
  char stamp[32];
  std::snprintf(stamp, sizeof stamp, "%9.3f  ", at);
  result_.trace.push_back(stamp + what);
}

}  // namespace vigil::sim
