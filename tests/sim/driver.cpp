// See driver.hpp. Each step asks the FaultPlan once; what a failure forces the oracle to excuse is said where it is excused.
#include "tests/sim/driver.hpp"

#include <algorithm>
#include <utility>

namespace vigil::sim {

using std::chrono::milliseconds;
using supervise::ChildState;

namespace {
constexpr size_t line_cap = 4096;                       // stands for the real one, which would only cost time
constexpr Duration late_after = milliseconds(250);      // as DriverOptions
}  // namespace

// One process from its spawn until nothing of its tree is left: what ChildProcess is to the real driver.
struct Driver::Child final : EngineHost, std::enable_shared_from_this<Driver::Child> {
  Driver& driver;
  uint64_t generation;
  std::shared_ptr<Engine> engine;
  std::string out;
  size_t err = 0;
  bool executed = false, executed_told = false, output_ended = false, end_told = false, paused = false, reading = false;
  bool mid_line = false, exit_told = false, ending = false, killing = false, reaped = false, sweep_waits = false, closed = false;
  std::optional<std::string> not_executed, exited;
  std::optional<TimePoint> held_until;                  // of output: a failure keeps it from us until then

  Child(Driver& owner, uint64_t number) : driver(owner), generation(number) {}

  template <typename Action>
  void soon(Duration delay, Action action) {
    driver.clock_.in(delay, [weak = weak_from_this(), action] {
      if (const auto self = weak.lock(); self && !self->closed) action(*self);
    });
  }

  // ---- the process did something
  void on_executed() override {
    if (driver.plan_.at(Point::executed)) {
      if (driver.plan_.lost()) return;                  // exec_s ends it
      return soon(driver.plan_.delay(400), [](Child& self) { self.on_executed(); });
    }
    executed = true;
    if (!driver.world_.frozen()) read_output();
  }
  void on_not_executed(const std::string& why) override {
    not_executed = why;
    if (!driver.world_.frozen()) read_output();
  }
  void on_output(std::string_view bytes) override {
    const bool whole = !mid_line && bytes.ends_with('\n');
    mid_line = !bytes.ends_with('\n');
    if (driver.plan_.at(Point::output)) {
      driver.oracle_.excused.accusations = true;        // the daemon did not see what this engine did
      driver.note("FAULT: output");
      if (driver.plan_.lost() && whole) {               // half of it would make a new line with what follows
        driver.oracle_.excused.tokens = true;
        return;
      }
      held_until = driver.clock_.now() + driver.plan_.delay(3000);
      driver.clock_.at(*held_until, [weak = weak_from_this()] {
        if (const auto self = weak.lock(); self && !self->driver.world_.frozen()) self->read_output();
      });
    }
    out += bytes;
    if (!driver.world_.frozen()) read_output();
  }
  void on_error_output(std::string_view bytes) override {
    if (driver.plan_.at(Point::error_output)) {
      driver.oracle_.excused.accusations = true;        // its words were a sign of life
      return;
    }
    err += bytes.size();
    if (!driver.world_.frozen()) read_errors();
  }
  void on_output_closed() override {
    output_ended = true;
    if (!driver.world_.frozen()) read_output();
  }
  // The end of its pipes and its exit are seen in any order, and not from inside whatever made it die.
  void on_exit(const std::string& how) override {
    exited = how;
    if (!output_ended && driver.dice_.chance(60) && !driver.world_.frozen()) {
      output_ended = true;
      soon(milliseconds(0), [](Child& self) { if (!self.driver.world_.frozen()) self.read_output(); });
    }
    Duration delay{};
    if (driver.plan_.at(Point::exit)) {
      driver.note("FAULT: exit");
      delay = driver.plan_.delay(2000);
      driver.oracle_.excused.accusations = driver.oracle_.excused.stop_time = true;  // it looks alive meanwhile
    }
    soon(delay, [](Child& self) { if (!self.driver.world_.frozen()) self.check_exit(); });
  }
  void on_tree_changed() override {
    if (ending) sweep_later();
  }
  void on_violation(const std::string& what) override { driver.world_.violation(what); }

  // ---- the daemon reads; whatever it reports may make it let go of this child
  bool current() const { return !closed && driver.child_.get() == this; }
  bool check_exec() {
    if (executed_told) return true;
    const auto self = shared_from_this();
    if (not_executed) {
      closed = true;
      driver.child_.reset();
      const std::string why = *not_executed;
      driver.report([&] { driver.conductor_.spawn_failed(why); });
      return false;
    }
    if (!executed) return false;
    executed_told = true;
    driver.oracle_.executed();
    driver.report([&] { driver.conductor_.spawned(static_cast<int64_t>(1000 + generation)); });
    return current();
  }
  void read_output() {
    const auto self = shared_from_this();
    if (reading || !current() || !check_exec()) return;
    reading = true;
    while (current() && !out.empty() && (!paused || exit_told) && !(held_until && driver.clock_.now() < *held_until)) {
      const std::string bytes = std::exchange(out, {});
      driver.lines(bytes);
      driver.rearm();
    }
    reading = false;
    if (!current() || !output_ended || end_told || paused || !out.empty() || exit_told) return;
    end_told = true;
    driver.note("end of output");
    driver.oracle_.output_closed();
    driver.report([&] { driver.conductor_.stdout_closed(); });
  }
  void read_errors() {
    const auto self = shared_from_this();
    if (reading || !current() || err == 0) return;
    err = 0;
    driver.words_ = "layer";
    driver.oracle_.error_output();
    driver.report([&] { driver.conductor_.stderr_output(); });
  }
  void drain() {
    if (closed) return;
    const auto self = shared_from_this();
    read_errors();
    read_output();
    check_exit();
  }
  void check_exit() {
    if (!exited || exit_told || closed) return;
    const auto self = shared_from_this();
    exit_told = true;
    held_until.reset();
    if (check_exec()) {
      drain();
      if (current()) {
        driver.note("exit: " + *exited);
        driver.oracle_.exit_told();
        driver.report([&] { driver.conductor_.exited(*exited); });
      }
    }
    if (ending) sweep_later();
  }

  // ---- the daemon ends it
  void sweep_later() {
    if (sweep_waits || reaped) return;
    sweep_waits = true;
    Duration delay = exit_told ? milliseconds(0) : milliseconds(25);
    if (driver.plan_.at(Point::tree_empty)) {
      driver.note("FAULT: tree_empty");
      driver.oracle_.excused.stop_time = true;
      if (driver.plan_.lost()) {
        sweep_waits = false;                            // the next KILL looks again
        return;
      }
      delay += driver.plan_.delay(2000);
    }
    soon(delay, [](Child& self) {
      self.sweep_waits = false;
      if (!self.driver.world_.frozen()) self.sweep();
    });
  }
  void sweep() {
    const auto self = shared_from_this();
    if (reaped || closed || !ending) return;
    if (!exit_told || !engine->tree_empty()) return;    // the next change of the tree, or the next KILL, looks again
    reaped = true;
    if (!current()) return;
    // A second report about the same, already settled end must do nothing.
    if (driver.dice_.chance(10)) {
      const Duration delay = milliseconds(driver.dice_.between(0, 30));
      driver.clock_.in(delay, [owner = &driver, number = generation] {
        if (owner->conductor_.child().generation() != number || owner->conductor_.child().state() == ChildState::stopping || owner->world_.frozen()) return;
        owner->note("tree empty, said again");
        owner->report([&] { owner->conductor_.tree_empty(); });
      });
    }
    driver.tree_empty();
  }
};

Driver::Driver(Scheduler& clock, Random& dice, FaultPlan& plan, Oracle& oracle, World world, supervise::ChildLimits limits)
    : clock_(clock), dice_(dice), plan_(plan), oracle_(oracle), world_(std::move(world)), conductor_(std::move(limits), *this), splitter_(line_cap) {}

Driver::~Driver() = default;

Engine* Driver::engine() { return child_ ? child_->engine.get() : nullptr; }

bool Driver::process_left() const {
  return std::any_of(graveyard_.begin(), graveyard_.end(), [](const auto& engine) { return !engine->tree_empty(); });
}

// ---- Hands

void Driver::set_vocabulary(uint64_t vocabulary) {
  next_vocabulary_ = vocabulary;
  if (!child_) take_next_vocabulary();
  report([this] { conductor_.settings_changed(); });
}

void Driver::take_next_vocabulary() {
  if (next_vocabulary_) vocabulary_ = *std::exchange(next_vocabulary_, std::nullopt);
  oracle_.vocabulary(vocabulary_);
}

void Driver::spawn(supervise::Generation generation) {
  take_next_vocabulary();
  if (child_) child_->closed = true;
  child_ = std::make_shared<Child>(*this, generation);
  Script script = world_.script();
  if (plan_.at(Point::spawn)) script.start = Start::spawn_fails;
  child_->engine = std::make_shared<Engine>(clock_, Random(dice_.next()), script, generation, *child_);
  graveyard_.push_back(child_->engine);
  splitter_ = protocol::LineSplitter(line_cap);
  words_.clear();
  last_usage_ = {};
  note("spawn " + std::to_string(generation));
  oracle_.spawn(generation, *child_->engine);
  child_->engine->begin();
}

void Driver::terminate() {
  note("TERM");
  const bool lost = plan_.at(Point::terminate);         // stop_s, then KILL
  if (!child_) return empty_soon();
  child_->ending = true;
  if (!lost) child_->engine->terminate();
  child_->sweep_later();
}

void Driver::kill() {
  note("KILL");
  const bool lost = plan_.at(Point::kill);              // and again after 5 s
  if (!child_) return empty_soon();
  child_->ending = child_->killing = true;
  if (lost) oracle_.excused.stop_time = true;
  else child_->engine->kill();
  child_->sweep_later();
}

void Driver::write(std::string line) {
  note("< " + line.substr(0, line.size() - 1));
  const auto command = protocol::parse_engine_command(std::string_view(line).substr(0, line.size() - 1));
  if (!command) return world_.violation("the daemon wrote a malformed line: " + line);
  oracle_.command(*command);
  if (!child_) return;
  if (plan_.at(Point::write)) {
    note("FAULT: write");
    child_->engine->not_to_blame();                     // it does not know what it was told; a limit ends the request
    return;
  }
  child_->engine->receive(*command);
}

void Driver::pause_reading(bool paused) {
  note(paused ? "reading pauses" : "reading goes on");
  oracle_.paused(paused);
  if (!child_) return;
  if (plan_.at(Point::pause) && paused) return;         // lines go on coming: no harm
  child_->paused = paused;
  if (!paused) {
    child_->soon(milliseconds(0), [](Child& self) { if (!self.driver.world_.frozen()) self.read_output(); });
  }
}

supervise::TreeUsage Driver::usage() {
  if (!child_) return {};
  if (plan_.at(Point::usage)) return last_usage_;       // /proc could not be read
  return last_usage_ = child_->engine->usage();
}

void Driver::run_soon() {
  if (soon_) return;
  soon_ = true;
  Duration delay{};
  if (plan_.at(Point::run_soon)) {
    note("FAULT: run_soon");
    delay = plan_.delay(100);
    oracle_.forgive_from_now(delay);                             // whatever the orders start, starts later
  }
  clock_.in(delay, [this] {
    if (world_.frozen()) soon_waits_ = true;
    else run_pending();
  });
}

void Driver::run_pending() {
  soon_ = soon_waits_ = false;
  report([this] { conductor_.run_pending(); });
}

void Driver::state_changed() {
  if (!child_) take_next_vocabulary();
  const auto& child = conductor_.child();
  if (world_.traced) note("engine " + std::string(supervise::to_string(child.state())) + (child.reason().empty() ? "" : ": " + child.reason()));
  oracle_.state(child.state(), child);
}

// ---- what happens

void Driver::lines(std::string_view bytes) {
  notice_lateness();
  const auto generation = conductor_.child().generation();
  splitter_.feed(bytes, [&](protocol::LineSplitter::Line line) {
    if (generation != conductor_.child().generation()) return;
    if (world_.traced) note("> " + protocol::printable(line.text));
    oracle_.line(line.text, line.overlong);
    conductor_.stdout_line(line.text, line.overlong);
  });
}

void Driver::tree_empty() {
  child_.reset();
  report([this] { conductor_.tree_empty(); });
}

void Driver::empty_soon() {
  if (std::exchange(empty_posted_, true)) return;
  clock_.in(milliseconds(0), [this] {
    empty_posted_ = false;
    if (!child_) tree_empty();
  });
}

// ---- time

// As ChildHost: the deadline moves with every line, the timer only when it is to ring earlier.
void Driver::rearm() {
  wanted_ = conductor_.deadline();
  if (!wanted_) return disarm();
  if (armed_ && *armed_ <= *wanted_) return;
  armed_ = wanted_;
  lateness_.armed(armed_, clock_.now());
  timer_waits_ = false;
  clock_.at(*armed_, [this, epoch = ++timer_epoch_] {
    if (epoch != timer_epoch_) return;
    if (plan_.at(Point::timer)) {
      const Duration delay = plan_.delay(3000);
      note("FAULT: timer");
      oracle_.forgive_from_now(delay);                           // nobody can be judged before it
      clock_.in(delay, [this, epoch] {
        if (epoch == timer_epoch_) timer();
      });
      return;
    }
    timer();
  });
}

void Driver::disarm() {
  armed_.reset();
  lateness_.armed({}, clock_.now());
  timer_waits_ = false;
  ++timer_epoch_;
}

void Driver::timer() {
  timer_waits_ = true;
  if (!world_.frozen()) ring();
}

void Driver::ring() {
  notice_lateness();
  disarm();
  if (!wanted_ || *wanted_ > clock_.now()) return rearm();
  if (child_) child_->drain();                          // before anyone is judged, what lies in the pipes is read
  report([&] { conductor_.due(); });
}

void Driver::notice_lateness() {
  const Duration late = lateness_.take(late_after, clock_.now());
  if (late > Duration::zero()) conductor_.late(late);
}

std::vector<std::function<void()>> Driver::thaw() {
  std::vector<std::function<void()>> all;
  if (timer_waits_) {
    all.push_back([this] {
      if (timer_waits_) ring();
    });
  }
  if (soon_waits_) all.push_back([this] { run_pending(); });
  if (child_) {
    for (const auto step : {&Child::read_output, &Child::read_errors, &Child::check_exit, &Child::sweep}) {
      all.push_back([weak = child_->weak_from_this(), step] {
        if (const auto self = weak.lock()) ((*self).*step)();
      });
    }
  }
  return all;
}

}  // namespace vigil::sim
