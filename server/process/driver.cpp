// The Conductor's hands on Asio: processes, pipes, one timer. Every happening goes to the Conductor, and after each the timer follows its
// deadline. Decides nothing.
#include "server/process/driver.hpp"

#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <utility>

#include "protocol/line_splitter.hpp"
#include "server/process/child_process.hpp"
#include "server/process/conductor.hpp"
#include "server/process/stderr_tail.hpp"

namespace vigil::process {
namespace {

// What may wait for an engine that does not read its stdin: two of the longest prompts. More is dropped, and a limit ends the request.
constexpr size_t unwritten_limit_bytes = 2 * protocol::max_line_to_child_bytes;

}  // namespace

struct EngineDriver::Impl final : Hands {
  Impl(boost::asio::io_context& context, DriverOptions settings, supervise::ChildLimits limits, DriverObserver watcher)
      : io(context), options(std::move(settings)), observer(std::move(watcher)), timer(io), tail(options.stderr_tail_bytes),
        conductor(std::move(limits), *this) {}

  boost::asio::io_context& io;
  DriverOptions options;
  DriverObserver observer;
  boost::asio::steady_timer timer;
  std::optional<TimePoint> armed;
  std::shared_ptr<ChildProcess> process;
  protocol::LineSplitter splitter{protocol::max_line_from_child_bytes};
  StderrTail tail;
  std::vector<std::function<void()>> stop_waiters;
  bool pending_posted = false, empty_posted = false;
  std::shared_ptr<bool> token = std::make_shared<bool>(true);  // handlers that may outlive us look here
  Conductor conductor;

  // ---- Hands
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  void spawn(supervise::Generation generation) override;
  void terminate() override {
    if (process) process->terminate();
    else empty_soon();
  }
  void kill() override {
    if (process) process->kill();
    else empty_soon();
  }
  void write(std::string line) override;
  void pause_reading(bool paused) override {
    if (process) process->pause_output(paused);
  }
  supervise::TreeUsage usage() override { return process ? process->usage() : supervise::TreeUsage{}; }
  void run_soon() override;
  std::string last_words() const override { return tail.last_line(); }
  void log(const std::string& line) override {
    if (observer.log) observer.log(options.name + " (generation " + std::to_string(conductor.child().generation()) + "): " + line);
  }
  void state_changed() override {
    if (observer.state_changed) observer.state_changed();
  }
  void started() override {
    if (observer.started) observer.started();
  }
  void loaded(double seconds) override {
    if (observer.loaded) observer.loaded(seconds);
  }
  void killed(supervise::Trouble why) override {
    if (observer.killed) observer.killed(why);
  }

  // ---- what happens
  // Reports to the conductor, then sets the timer to what it wants next.
  template <typename Happening>
  void report(Happening&& happening) {
    happening();
    rearm();
  }
  // From the loop, unless we are gone by then.
  template <typename Action>
  void post(Action action) {
    boost::asio::post(io, [action, alive = std::weak_ptr<bool>(token)] {
      if (!alive.expired()) action();
    });
  }
  ProcessEvents events(supervise::Generation generation);
  void output(supervise::Generation generation, std::string_view bytes);
  void tree_empty();
  void empty_soon();
  void rearm();
  void due(TimePoint wanted);
  void report_stopped();
};

void EngineDriver::Impl::spawn(supervise::Generation generation) {
  if (process) process->close();
  process.reset();
  splitter = protocol::LineSplitter(protocol::max_line_from_child_bytes);
  tail.clear();

  const std::string marker = options.instance + "." + options.name + "." + std::to_string(generation);
  SpawnRequest request;
  request.name = options.name;
  request.exe = options.exe;
  request.args = options.args;
  request.environment = child_environment(environ, options.env, marker);
  request.cwd = options.cwd;
  request.open_files = options.open_files;
  auto made = ChildProcess::start(io, std::move(request), marker, events(generation));
  if (!made) {
    post([this, generation, reason = made.error()] {
      if (generation == conductor.child().generation()) report([&] { conductor.spawn_failed(reason); });
    });
    return;
  }
  process = std::move(*made);
}

// A process that was closed reports nothing more, so each report is about the current one.
ProcessEvents EngineDriver::Impl::events(supervise::Generation generation) {
  ProcessEvents events;
  events.executed = [this] { report([this] { conductor.spawned(process->pid()); }); };
  events.not_executed = [this](const std::string& reason) {
    process.reset();  // it has closed itself
    report([&] { conductor.spawn_failed(reason); });
  };
  events.output = [this, generation](std::string_view bytes) { output(generation, bytes); };
  events.output_closed = [this] { report([this] { conductor.stdout_closed(); }); };
  events.error_output = [this, generation](std::string_view bytes) {
    tail.feed(bytes);
    if (observer.stderr_output) observer.stderr_output(generation, bytes);
    report([this] { conductor.stderr_output(); });
  };
  events.exited = [this](const std::string& how) {
    if (conductor.child().state() != supervise::ChildState::stopping) log(how);
    report([&] { conductor.exited(how); });
  };
  events.tree_empty = [this] { tree_empty(); };
  events.log = [this](const std::string& text) { log(text); };
  return events;
}

void EngineDriver::Impl::output(supervise::Generation generation, std::string_view bytes) {
  splitter.feed(bytes, [&](protocol::LineSplitter::Line line) {
    if (generation == conductor.child().generation()) conductor.stdout_line(line.text, line.overlong);
  });
  rearm();
}

void EngineDriver::Impl::tree_empty() {
  process.reset();
  report([this] { conductor.tree_empty(); });
  report_stopped();
}

// Told to end what does not exist (its execve failed): the answer must come from the loop like any other.
void EngineDriver::Impl::empty_soon() {
  if (empty_posted) return;
  empty_posted = true;
  post([this] {
    empty_posted = false;
    if (!process) tree_empty();
  });
}

void EngineDriver::Impl::write(std::string line) {
  if (!process) return;
  if (process->unwritten_bytes() + line.size() > unwritten_limit_bytes) {
    log("does not read its stdin: " + std::to_string(process->unwritten_bytes()) + " bytes wait for it; a line of " +
        std::to_string(line.size()) + " bytes was dropped");
    return;
  }
  process->write(std::move(line));
}

void EngineDriver::Impl::run_soon() {
  if (pending_posted) return;
  pending_posted = true;
  post([this] {
    pending_posted = false;
    report([this] { conductor.run_pending(); });
  });
}

// ---- time

void EngineDriver::Impl::rearm() {
  const auto wanted = conductor.deadline();
  if (wanted == armed) return;
  armed = wanted;
  timer.cancel();
  if (!armed) return;
  timer.expires_at(*armed);
  timer.async_wait([this, at = *armed, alive = std::weak_ptr<bool>(token)](const boost::system::error_code& error) {
    if (!error && !alive.expired() && armed == at) due(at);
  });
}

// Before anyone is judged, what lies in the pipes is read.
void EngineDriver::Impl::due(TimePoint wanted) {
  const Duration late = now() - wanted;
  if (process) process->drain();
  armed.reset();
  report([&] { conductor.due(late > options.late_after ? late : Duration::zero()); });
}

void EngineDriver::Impl::report_stopped() {
  const auto waiters = std::exchange(stop_waiters, {});
  for (const auto& done : waiters)
    if (done) done();
}

// ---- the outside

EngineDriver::EngineDriver(boost::asio::io_context& io, DriverOptions options, supervise::ChildLimits limits, DriverObserver observer)
    : impl_(std::make_unique<Impl>(io, std::move(options), std::move(limits), std::move(observer))) {}

EngineDriver::~EngineDriver() {
  if (impl_->process) impl_->process->close();
}

void EngineDriver::attach(turn::Desk& desk) { impl_->conductor.attach(desk); }

void EngineDriver::load() {
  impl_->report([this] { impl_->conductor.load(true); });
}

void EngineDriver::stop(supervise::Trouble why, bool at_once, std::function<void()> done) {
  impl_->stop_waiters.push_back(std::move(done));
  impl_->report([&] { impl_->conductor.unload(why, at_once); });
  if (!impl_->process && !impl_->empty_posted) impl_->post([impl = impl_.get()] { impl->report_stopped(); });
}

void EngineDriver::set_limits(const supervise::ChildLimits& limits) {
  impl_->report([&] { impl_->conductor.set_limits(limits); });
}

void EngineDriver::need_engine() { impl_->conductor.need_engine(); }
void EngineDriver::start(turn::LeaseId lease, const turn::Request& request, int64_t max_new) { impl_->conductor.start(lease, request, max_new); }
void EngineDriver::cancel(turn::LeaseId lease) { impl_->conductor.cancel(lease); }
void EngineDriver::release(turn::LeaseId lease, turn::LeaseEnd end) { impl_->conductor.release(lease, end); }
void EngineDriver::pause_output(bool paused) { impl_->conductor.pause_output(paused); }

const supervise::Child& EngineDriver::child() const { return impl_->conductor.child(); }

}  // namespace vigil::process
