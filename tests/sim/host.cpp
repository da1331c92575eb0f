// See host.hpp. Each step asks the FaultPlan once; what a failure forces the judge to excuse is said where it is excused.
#include "tests/sim/host.hpp"

#include <algorithm>
#include <utility>

namespace vigil::sim {

using std::chrono::milliseconds;
using supervise::ChildState;

namespace {
constexpr size_t line_cap = 4096;                       // stands for the real one, which would only cost time
constexpr Duration late_after = milliseconds(250);      // as DriverOptions
}  // namespace

// One process from its spawn until nothing of its tree is left: what ChildProcess is to the real host.
struct Host::Child final : ProcessHost, std::enable_shared_from_this<Host::Child> {
  Host& host;
  uint64_t generation;
  std::shared_ptr<Process> process;
  std::string out;
  size_t err = 0;
  bool executed = false, executed_told = false, output_ended = false, end_told = false, paused = false, reading = false;
  bool mid_line = false, exit_told = false, ending = false, killing = false, reaped = false, sweep_waits = false, closed = false;
  std::optional<std::string> not_executed, exited;
  std::optional<TimePoint> held_until;                  // of output: a failure keeps it from us until then

  Child(Host& owner, uint64_t number) : host(owner), generation(number) {}

  template <typename Action>
  void soon(Duration delay, Action action) {
    host.clock_.in(delay, [weak = weak_from_this(), action] {
      if (const auto self = weak.lock(); self && !self->closed) action(*self);
    });
  }

  // ---- the process did something
  void on_executed() override {
    if (host.plan_.at(Point::executed)) {
      if (host.plan_.lost()) return process->not_to_blame();  // a limit ends it
      return soon(host.plan_.delay(400), [](Child& self) { self.on_executed(); });
    }
    executed = true;
    if (!host.world_.frozen()) read_output();
  }
  void on_not_executed(const std::string& why) override {
    not_executed = why;
    if (!host.world_.frozen()) read_output();
  }
  void on_output(std::string_view bytes) override {
    const bool whole = !mid_line && bytes.ends_with('\n');
    mid_line = !bytes.ends_with('\n');
    if (host.plan_.at(Point::output)) {
      host.judge_.excused.accusations = true;        // the daemon did not see what this engine did
      host.note("FAULT: output");
      if (host.plan_.lost() && whole) {               // half of it would make a new line with what follows
        host.judge_.excused.tokens = true;
        return;
      }
      held_until = host.clock_.now() + host.plan_.delay(3000);
      host.clock_.at(*held_until, [weak = weak_from_this()] {
        if (const auto self = weak.lock(); self && !self->host.world_.frozen()) self->read_output();
      });
    }
    out += bytes;
    if (!host.world_.frozen()) read_output();
  }
  void on_error_output(std::string_view bytes) override {
    if (host.plan_.at(Point::error_output)) {
      host.judge_.excused.accusations = true;        // its words were a sign of life
      return;
    }
    err += bytes.size();
    if (!host.world_.frozen()) read_errors();
  }
  void on_output_closed() override {
    output_ended = true;
    if (!host.world_.frozen()) read_output();
  }
  // The end of its pipes and its exit are seen in any order, and not from inside whatever made it die.
  void on_exit(const std::string& how) override {
    exited = how;
    if (!output_ended && host.dice_.chance(60) && !host.world_.frozen()) {
      output_ended = true;
      soon(milliseconds(0), [](Child& self) { if (!self.host.world_.frozen()) self.read_output(); });
    }
    Duration delay{};
    if (host.plan_.at(Point::exit)) {
      host.note("FAULT: exit");
      delay = host.plan_.delay(2000);
      host.judge_.excused.accusations = host.judge_.excused.stop_time = true;  // it looks alive meanwhile
    }
    soon(delay, [](Child& self) { if (!self.host.world_.frozen()) self.check_exit(); });
  }
  void on_tree_changed() override {
    if (ending) sweep_later();
  }
  void on_violation(const std::string& what) override { host.world_.violation(what); }

  // ---- the daemon reads; whatever it reports may make it let go of this child
  bool current() const { return !closed && host.child_.get() == this; }
  bool check_exec() {
    if (executed_told) return true;
    const auto self = shared_from_this();
    if (not_executed) {
      closed = true;
      host.child_.reset();
      const std::string why = *not_executed;
      host.judge_.not_executed();
      host.order([&] { host.mind_.spawn_failed(why); });
      return false;
    }
    if (!executed) return false;
    executed_told = true;
    host.judge_.executed();
    host.order([&] { host.mind_.spawned(static_cast<int64_t>(1000 + generation)); });
    return current();
  }
  void read_output() {
    const auto self = shared_from_this();
    if (reading || !current() || !check_exec()) return;
    reading = true;
    while (current() && !out.empty() && (!paused || exit_told) && !(held_until && host.clock_.now() < *held_until)) {
      const std::string bytes = std::exchange(out, {});
      host.lines(bytes);
      host.rearm();
    }
    reading = false;
    if (!current() || !output_ended || end_told || paused || !out.empty() || exit_told) return;
    end_told = true;
    host.note("end of output");
    host.judge_.output_closed();
    host.order([&] { host.mind_.stdout_closed(); });
  }
  void read_errors() {
    const auto self = shared_from_this();
    if (reading || !current() || err == 0) return;
    err = 0;
    host.words_ = "layer";
    host.judge_.error_output();
    host.order([&] { host.mind_.stderr_output(); });
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
        host.note("exit: " + *exited);
        host.judge_.exit_told();
        host.order([&] { host.mind_.exited(*exited); });
      }
    }
    if (ending) sweep_later();
  }

  // ---- the daemon ends it
  void sweep_later() {
    if (sweep_waits || reaped) return;
    sweep_waits = true;
    Duration delay = exit_told ? milliseconds(0) : milliseconds(25);
    if (host.plan_.at(Point::tree_empty)) {
      host.note("FAULT: tree_empty");
      host.judge_.excused.stop_time = true;
      if (host.plan_.lost()) {
        sweep_waits = false;                            // the next KILL looks again
        return;
      }
      delay += host.plan_.delay(2000);
    }
    soon(delay, [](Child& self) {
      self.sweep_waits = false;
      if (!self.host.world_.frozen()) self.sweep();
    });
  }
  void sweep() {
    const auto self = shared_from_this();
    if (reaped || closed || !ending) return;
    if (!exit_told || !process->tree_empty()) return;    // the next change of the tree, or the next KILL, looks again
    reaped = true;
    if (!current()) return;
    // A second report about the same, already settled end must do nothing.
    if (host.dice_.chance(10)) {
      const Duration delay = milliseconds(host.dice_.between(0, 30));
      host.clock_.in(delay, [owner = &host, number = generation] {
        if (owner->mind_.child().generation() != number || owner->mind_.child().state() == ChildState::stopping || owner->world_.frozen()) return;
        owner->note("tree empty, said again");
        owner->order([&] { owner->mind_.tree_empty(); });
      });
    }
    host.tree_empty();
  }
};

Host::Host(Scheduler& clock, Random& dice, FaultPlan& plan, Judge& judge, Role& role, World world, process::Mind& mind)
    : clock_(clock), dice_(dice), plan_(plan), judge_(judge), role_(role), world_(std::move(world)), mind_(mind), splitter_(line_cap) {}

Host::~Host() = default;

Process* Host::process() { return child_ ? child_->process.get() : nullptr; }

bool Host::process_left() const {
  return std::any_of(graveyard_.begin(), graveyard_.end(), [](const auto& process) { return !process->tree_empty(); });
}

// ---- Hands

void Host::set_settings(uint64_t number) {
  next_settings_ = number;
  if (!child_) take_next_settings();
}

void Host::take_next_settings() {
  if (next_settings_) settings_ = *std::exchange(next_settings_, std::nullopt);
  judge_.settings(settings_);
}

void Host::spawn(supervise::Generation generation) {
  take_next_settings();
  if (child_) child_->closed = true;
  child_ = std::make_shared<Child>(*this, generation);
  const Role::Spawn how = plan_.at(Point::spawn) ? Role::Spawn::fails : Role::Spawn::works;
  splitter_ = protocol::LineSplitter(line_cap);
  words_.clear();
  last_usage_ = {};
  note("spawn " + std::to_string(generation));
  child_->process = role_.make(generation, how, *child_);
  graveyard_.push_back(child_->process);
  child_->process->begin();
}

void Host::terminate() {
  note("TERM");
  const bool lost = plan_.at(Point::terminate);         // stop_s, then KILL
  if (!child_) return empty_soon();
  child_->ending = true;
  if (!lost) child_->process->terminate();
  child_->sweep_later();
}

void Host::kill() {
  note("KILL");
  const bool lost = plan_.at(Point::kill);              // and again after 5 s
  if (!child_) return empty_soon();
  child_->ending = child_->killing = true;
  if (lost) judge_.excused.stop_time = true;
  else child_->process->kill();
  child_->sweep_later();
}

void Host::write(std::string line) {
  line.pop_back();
  note("< " + line);
  if (!role_.written(line)) return world_.violation("the daemon wrote a malformed line: " + line);
  if (!child_) return;
  if (plan_.at(Point::write)) {
    note("FAULT: write");
    child_->process->not_to_blame();                    // it does not know what it was told; a limit ends the request
    return;
  }
  role_.deliver(*child_->process);
}

void Host::pause_reading(bool paused) {
  note(paused ? "reading pauses" : "reading goes on");
  judge_.paused(paused);
  if (!child_) return;
  if (plan_.at(Point::pause) && paused) return;         // lines go on coming: no harm
  child_->paused = paused;
  if (!paused) {
    child_->soon(milliseconds(0), [](Child& self) { if (!self.host.world_.frozen()) self.read_output(); });
  }
}

supervise::TreeUsage Host::usage() {
  if (!child_) return {};
  if (plan_.at(Point::usage)) return last_usage_;       // /proc could not be read
  return last_usage_ = child_->process->usage();
}

void Host::run_soon() {
  if (soon_) return;
  soon_ = true;
  Duration delay{};
  if (plan_.at(Point::run_soon)) {
    note("FAULT: run_soon");
    delay = plan_.delay(100);
    judge_.forgive_from_now(delay);                             // whatever the orders start, starts later
  }
  clock_.in(delay, [this] {
    if (world_.frozen()) soon_waits_ = true;
    else run_pending();
  });
}

void Host::run_pending() {
  soon_ = soon_waits_ = false;
  order([this] { mind_.run_pending(); });
}

void Host::state_changed() {
  if (!child_) take_next_settings();
  const auto& child = mind_.child();
  if (world_.traced) world_.note(world_.name + " " + std::string(supervise::to_string(child.state())) + (child.reason().empty() ? "" : ": " + child.reason()));
  judge_.state(child.state(), child);
}

// ---- what happens

void Host::lines(std::string_view bytes) {
  notice_lateness();
  const auto generation = mind_.child().generation();
  splitter_.feed(bytes, [&](protocol::LineSplitter::Line line) {
    if (generation != mind_.child().generation()) return;
    if (world_.traced) note("> " + protocol::printable(line.text));
    judge_.line(line.text, line.overlong);
    mind_.stdout_line(line.text, line.overlong);
  });
}

void Host::tree_empty() {
  child_.reset();
  order([this] { mind_.tree_empty(); });
}

void Host::empty_soon() {
  if (std::exchange(empty_posted_, true)) return;
  clock_.in(milliseconds(0), [this] {
    empty_posted_ = false;
    if (!child_) tree_empty();
  });
}

// ---- time

// As ChildHost: the deadline moves with every line, the timer only when it is to ring earlier.
void Host::rearm() {
  wanted_ = mind_.deadline();
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
      judge_.forgive_from_now(delay);                           // nobody can be judged before it
      clock_.in(delay, [this, epoch] {
        if (epoch == timer_epoch_) timer();
      });
      return;
    }
    timer();
  });
}

void Host::disarm() {
  armed_.reset();
  lateness_.armed({}, clock_.now());
  timer_waits_ = false;
  ++timer_epoch_;
}

void Host::timer() {
  timer_waits_ = true;
  if (!world_.frozen()) ring();
}

void Host::ring() {
  notice_lateness();
  disarm();
  if (!wanted_ || *wanted_ > clock_.now()) return rearm();
  if (child_) child_->drain();                          // before anyone is judged, what lies in the pipes is read
  order([&] { mind_.due(); });
}

void Host::notice_lateness() {
  const Duration late = lateness_.take(late_after, clock_.now());
  if (late > Duration::zero()) mind_.late(late);
}

std::vector<std::function<void()>> Host::thaw() {
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
