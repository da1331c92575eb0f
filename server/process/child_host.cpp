// See child_host.hpp. Every happening goes to the mind, and after each the timer follows its deadline.
#include "server/process/child_host.hpp"

#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <utility>

namespace vigil::process {
namespace {

// What may wait for a child that does not read its stdin: two of the longest prompts. More is dropped, and a limit ends the request.
constexpr size_t unwritten_limit_bytes = 2 * protocol::max_line_to_child_bytes;

// Tells of a batch's two ends, whatever happens between them: clients wait for what follows the second.
struct Batch {
  explicit Batch(const DriverObserver& told) : observer(told) {
    if (observer.output_begins) observer.output_begins();
  }
  ~Batch() {
    if (observer.output_taken) observer.output_taken();
  }
  Batch(const Batch&) = delete;
  const DriverObserver& observer;
};

}  // namespace

ChildHost::ChildHost(boost::asio::io_context& io, DriverOptions options, DriverObserver observer, Mind& mind)
    : io_(io), options_(std::move(options)), observer_(std::move(observer)), mind_(mind), timer_(io), tail_(options_.stderr_tail_bytes) {}

ChildHost::~ChildHost() {
  if (process_) process_->close();
}

// From the loop, unless we are gone by then.
template <typename Action>
void ChildHost::post(Action action) {
  boost::asio::post(io_, [action, alive = std::weak_ptr<bool>(token_)] {
    if (!alive.expired()) action();
  });
}

// ---- the process

void ChildHost::set_options(DriverOptions options) {
  next_options_ = std::move(options);
  if (!process_) take_next_options();
}

void ChildHost::take_next_options() {
  if (!next_options_) return;
  options_ = std::move(*next_options_);
  next_options_.reset();
  if (observer_.options_taken) observer_.options_taken();
}

void ChildHost::spawn(supervise::Generation generation) {
  take_next_options();
  if (process_) process_->close();
  process_.reset();
  splitter_ = protocol::LineSplitter(protocol::max_line_from_child_bytes);
  tail_.clear();

  const std::string marker = options_.instance + "." + options_.name + "." + std::to_string(generation);
  SpawnRequest request;
  request.name = options_.name;
  request.exe = options_.exe;
  request.args = options_.args;
  request.environment = child_environment(environ, options_.env, marker);
  request.cwd = options_.cwd;
  request.open_files = options_.open_files;
  auto made = ChildProcess::start(io_, std::move(request), marker, events(generation));
  if (!made) {
    post([this, generation, reason = made.error()] {
      if (generation == mind_.child().generation()) order([&] { mind_.spawn_failed(reason); });
    });
    return;
  }
  process_ = std::move(*made);
}

// A process that was closed reports nothing more, so each report is about the current one.
ProcessEvents ChildHost::events(supervise::Generation generation) {
  ProcessEvents events;
  events.executed = [this] { order([this] { mind_.spawned(process_->pid()); }); };
  events.not_executed = [this](const std::string& reason) {
    process_.reset();  // it has closed itself
    order([&] { mind_.spawn_failed(reason); });
  };
  events.output = [this, generation](std::string_view bytes) { output(generation, bytes); };
  events.output_closed = [this] { order([this] { mind_.stdout_closed(); }); };
  events.error_output = [this, generation](std::string_view bytes) {
    tail_.feed(bytes);
    if (observer_.stderr_output) observer_.stderr_output(generation, bytes);
    order([this] { mind_.stderr_output(); });
  };
  events.exited = [this](const std::string& how) {
    if (mind_.child().state() != supervise::ChildState::stopping) log(how);
    order([&] { mind_.exited(how); });
  };
  events.tree_empty = [this] { tree_empty(); };
  events.log = [this](const std::string& text) { log(text); };
  return events;
}

void ChildHost::output(supervise::Generation generation, std::string_view bytes) {
  notice_lateness();
  {
    const Batch batch(observer_);
    splitter_.feed(bytes, [&](protocol::LineSplitter::Line line) {
      if (generation == mind_.child().generation()) mind_.stdout_line(line.text, line.overlong);
    });
  }
  rearm();
}

void ChildHost::terminate() {
  if (process_) process_->terminate();
  else empty_soon();
}

void ChildHost::kill() {
  if (process_) process_->kill();
  else empty_soon();
}

void ChildHost::tree_empty() {
  process_.reset();
  order([this] { mind_.tree_empty(); });
  report_gone();
}

// Told to end what does not exist (its execve failed): the answer must come from the loop like any other.
void ChildHost::empty_soon() {
  if (empty_posted_) return;
  empty_posted_ = true;
  post([this] {
    empty_posted_ = false;
    if (!process_) tree_empty();
  });
}

void ChildHost::when_gone(std::function<void()> done) {
  gone_waiters_.push_back(std::move(done));
  if (!process_ && !empty_posted_) post([this] { report_gone(); });
}

void ChildHost::report_gone() {
  const auto waiters = std::exchange(gone_waiters_, {});
  for (const auto& done : waiters)
    if (done) done();
}

// ---- pipes

void ChildHost::write(std::string line) {
  if (!process_) return;
  if (process_->unwritten_bytes() + line.size() > unwritten_limit_bytes) {
    log("does not read its stdin: " + std::to_string(process_->unwritten_bytes()) + " bytes wait for it; a line of " +
        std::to_string(line.size()) + " bytes was dropped");
    return;
  }
  process_->write(std::move(line));
}

void ChildHost::pause_reading(bool paused) {
  if (process_) process_->pause_output(paused);
}

supervise::TreeUsage ChildHost::usage() { return process_ ? process_->usage() : supervise::TreeUsage{}; }

// ---- time

void ChildHost::run_soon() {
  if (pending_posted_) return;
  pending_posted_ = true;
  post([this] {
    pending_posted_ = false;
    order([this] { mind_.run_pending(); });
  });
}

// The deadline moves with every line of the child; the timer does not: it is set only to ring earlier, and when it rings it looks whether
// the deadline has moved away meanwhile.
void ChildHost::rearm() {
  wanted_ = mind_.deadline();
  if (!wanted_) {
    if (armed_) timer_.cancel();
    disarm();
    return;
  }
  if (armed_ && *armed_ <= *wanted_) return;
  armed_ = wanted_;
  lateness_.armed(armed_, now());
  timer_.expires_at(*armed_);
  timer_.async_wait([this, at = *armed_, alive = std::weak_ptr<bool>(token_)](const boost::system::error_code& error) {
    if (!error && !alive.expired() && armed_ == at) ring();
  });
}

void ChildHost::disarm() {
  armed_.reset();
  lateness_.armed({}, now());
}

void ChildHost::ring() {
  notice_lateness();
  disarm();
  if (wanted_ && *wanted_ <= now()) due();
  else rearm();
}

// Before anyone is judged, what lies in the pipes is read.
void ChildHost::due() {
  if (process_) process_->drain();
  order([&] { mind_.due(); });
}

// Before whatever the loop does next: afterwards nobody could tell how long it had stood still.
void ChildHost::notice_lateness() {
  const Duration late = lateness_.take(options_.late_after, now());
  if (late == Duration::zero()) return;
  if (observer_.late) observer_.late(late);
  mind_.late(late);
}

// ---- reports

void ChildHost::log(const std::string& line) {
  if (observer_.log) observer_.log(options_.name + " (generation " + std::to_string(mind_.child().generation()) + "): " + line);
}

void ChildHost::state_changed() {
  if (!process_) take_next_options();
  if (observer_.state_changed) observer_.state_changed();
}

void ChildHost::started() {
  if (observer_.started) observer_.started();
}

void ChildHost::loaded(double seconds) {
  if (observer_.loaded) observer_.loaded(seconds);
}

void ChildHost::killed(supervise::Trouble why) {
  if (observer_.killed) observer_.killed(why);
}

}  // namespace vigil::process
