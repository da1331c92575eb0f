// See child_process.hpp. Reads are plain non-blocking reads after a readiness wait, so that drain() can read at any moment beside them.
#include "server/process/child_process.hpp"

#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <cerrno>

#include "server/process/reaper.hpp"

namespace vigil::process {
namespace {

using boost::asio::posix::stream_descriptor;
using boost::system::error_code;

constexpr size_t read_bytes = 64 * 1024;
// Read in one go before others get the loop. Of stdout little: each byte may become a hundred for a client (a token is six bytes on the
// line and an event of 250 in a stream), and a reader that is full can stop us only between two turns.
constexpr size_t output_turn_bytes = 16 * 1024;
constexpr size_t error_turn_bytes = 1024 * 1024;
constexpr auto sweep_pause = std::chrono::milliseconds(25);
constexpr int looks_in_a_row = 4;    // on a machine that forks all the time no look is sure
constexpr int uncertain_looks = 40;  // one a sweep_pause; a stranger without arguments and environment may stay so for ever

enum class Read : uint8_t { bytes, nothing, ended };

Read read_some(stream_descriptor& from, std::vector<char>& buffer, size_t limit, size_t& got) {
  while (true) {
    const ssize_t n = ::read(from.native_handle(), buffer.data(), std::min(buffer.size(), limit));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Read::nothing;
    if (n <= 0) return Read::ended;
    got = static_cast<size_t>(n);
    return Read::bytes;
  }
}

// What lies in a pipe now; one more, so that an end is seen. A child that never stops writing cannot hold the loop this way.
size_t waiting_bytes(stream_descriptor& from) {
  int bytes = 0;
  if (!from.is_open() || ::ioctl(from.native_handle(), FIONREAD, &bytes) != 0) return 1;
  return static_cast<size_t>(bytes) + 1;
}

void shut(stream_descriptor& descriptor) {
  error_code ignored;
  descriptor.close(ignored);
}

}  // namespace

std::string describe_exit(int code, int status) {
  if (code == CLD_EXITED) return "exited with status " + std::to_string(status);
  const char* name = ::sigabbrev_np(status);
  return "killed by signal " + std::to_string(status) + (name != nullptr ? std::string(" (SIG") + name + ")" : std::string());
}

Result<std::shared_ptr<ChildProcess>> ChildProcess::start(boost::asio::io_context& io, SpawnRequest request, std::string marker,
                                                          ProcessEvents events) {
  // A child that closes its stdin must not end the daemon; the write says EPIPE instead.
  static const auto ignored = ::signal(SIGPIPE, SIG_IGN);
  (void)ignored;
  auto spawned = spawn(request);
  if (!spawned) return Error{spawned.error()};
  std::shared_ptr<ChildProcess> child(new ChildProcess(io, spawned->pid, std::move(request), std::move(marker), std::move(events)));
  for (const auto& [descriptor, fd] : {std::pair{&child->pidfd_, &spawned->pidfd}, {&child->in_, &spawned->in}, {&child->out_, &spawned->out},
                                       {&child->err_, &spawned->err}, {&child->exec_status_, &spawned->exec_status}}) {
    error_code error;
    descriptor->assign(fd->get(), error);
    if (error) return Error{"'" + child->request_.exe + "': it cannot be watched: " + error.message()};  // the destructor kills it
    fd->release();
  }
  child->watch_exec();
  child->watch_output();
  child->watch_errors();
  child->watch_exit();
  return child;
}

ChildProcess::ChildProcess(boost::asio::io_context& io, pid_t pid, SpawnRequest request, std::string marker, ProcessEvents events)
    : pid_(pid), request_(std::move(request)), events_(std::move(events)), tree_(pid_, std::move(marker)),
      pidfd_(io), in_(io), out_(io), err_(io), exec_status_(io), sweep_timer_(io), buffer_(read_bytes) {
  register_child(pid_);
}

ChildProcess::~ChildProcess() {
  if (reaped_) return;
  tree_.refresh();
  tree_.signal(SIGKILL);
  ::waitpid(pid_, nullptr, WNOHANG);
  forget_child(pid_);  // whoever reaps orphans takes it
}

// ---- execve
void ChildProcess::watch_exec() {
  exec_status_.async_wait(stream_descriptor::wait_read, [self = shared_from_this()](const error_code& error) {
    if (error || self->closed_) return;
    self->check_exec();
  });
}

bool ChildProcess::check_exec() {
  if (executed_) return true;
  if (!exec_status_.is_open()) return false;
  const ExecStatus status = read_exec_status(exec_status_.native_handle(), request_);
  if (status.state == ExecState::pending) return true;
  shut(exec_status_);
  if (status.state == ExecState::succeeded) {
    executed_ = true;
    events_.executed();
    return !closed_;
  }
  const auto report = events_.not_executed;
  close();
  report(status.reason);
  return false;
}

// ---- output
void ChildProcess::watch_output() {
  if (closed_ || paused_ || waiting_output_ || !out_.is_open()) return;
  waiting_output_ = true;
  out_.async_wait(stream_descriptor::wait_read, [self = shared_from_this()](const error_code& error) {
    self->waiting_output_ = false;
    if (error || self->closed_ || self->paused_) return;
    if (self->read_output(output_turn_bytes, Until::short_read)) self->watch_output();
  });
}

void ChildProcess::watch_errors() {
  if (closed_ || !err_.is_open()) return;
  err_.async_wait(stream_descriptor::wait_read, [self = shared_from_this()](const error_code& error) {
    if (error || self->closed_) return;
    if (self->read_errors(error_turn_bytes)) self->watch_errors();
  });
}

bool ChildProcess::read_output(size_t budget, Until until) {
  if (reading_) return true;  // drain() from inside a report: the outer read goes on
  while (budget > 0 && out_.is_open() && !closed_ && (!paused_ || exited_)) {
    if (!executed_ && !check_exec()) return false;  // nothing it printed may be told before it was told to run
    size_t got = 0;
    const size_t asked = std::min(budget, buffer_.size());
    const Read result = read_some(out_, buffer_, asked, got);
    if (result == Read::nothing) return true;
    if (result == Read::ended) {
      shut(out_);
      if (!exited_) events_.output_closed();
      return false;
    }
    reading_ = true;
    events_.output({buffer_.data(), got});
    reading_ = false;
    if (until == Until::short_read && got < asked) break;  // the pipe was empty; the next wait tells of more, or of its end
    budget -= std::min(budget, got);
  }
  return out_.is_open() && !closed_;
}

bool ChildProcess::read_errors(size_t budget) {
  if (reading_) return true;
  while (budget > 0 && err_.is_open() && !closed_) {
    size_t got = 0;
    const Read result = read_some(err_, buffer_, budget, got);
    if (result == Read::nothing) return true;
    if (result == Read::ended) {
      shut(err_);  // closing stderr is no offence
      return false;
    }
    reading_ = true;
    events_.error_output({buffer_.data(), got});
    reading_ = false;
    budget -= std::min(budget, got);
  }
  return err_.is_open() && !closed_;
}

void ChildProcess::drain() {
  if (closed_) return;
  read_errors(waiting_bytes(err_));  // first: its words may explain what stdout says
  read_output(waiting_bytes(out_), Until::empty);
  check_exit();
}

void ChildProcess::pause_output(bool paused) {
  if (paused_ == paused) return;
  paused_ = paused;
  if (!paused_) watch_output();
}

// ---- input
void ChildProcess::write(std::string bytes) {
  if (closed_ || !in_.is_open() || bytes.empty()) return;
  unwritten_bytes_ += bytes.size();
  unwritten_.push_back(std::move(bytes));
  if (!writing_) write_next();
}

void ChildProcess::write_next() {
  if (unwritten_.empty() || closed_ || !in_.is_open()) return;
  writing_ = true;
  const std::string& first = unwritten_.front();
  const auto rest = boost::asio::buffer(first.data() + written_of_first_, first.size() - written_of_first_);
  in_.async_write_some(rest, [self = shared_from_this()](const error_code& error, size_t written) {
    self->writing_ = false;
    if (self->closed_) return;
    if (error) {  // a broken pipe is no verdict: either the exit follows, or nothing does and a limit tells
      self->unwritten_.clear();
      self->written_of_first_ = self->unwritten_bytes_ = 0;
      shut(self->in_);
      self->events_.log("cannot write to its stdin: " + error.message());
      return;
    }
    self->unwritten_bytes_ -= written;
    self->written_of_first_ += written;
    if (self->written_of_first_ == self->unwritten_.front().size()) {
      self->unwritten_.pop_front();
      self->written_of_first_ = 0;
    }
    self->write_next();
  });
}

// ---- the end
void ChildProcess::watch_exit() {
  pidfd_.async_wait(stream_descriptor::wait_read, [self = shared_from_this()](const error_code& error) {
    if (error || self->exited_) return;
    self->check_exit();
    if (!self->exited_) self->watch_exit();
  });
}

void ChildProcess::check_exit() {
  if (exited_) return;
  siginfo_t info{};
  // WNOWAIT: as a zombie it holds its pid, and so the number of its group, until the last sweep.
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != pid_) return;
  exited_ = true;
  if (!closed_ && check_exec()) {
    drain();
    if (!closed_) events_.exited(describe_exit(info.si_code, info.si_status));
  }
  if (ending_) sweep_later();
}

void ChildProcess::terminate() {
  if (killing_ || reaped_) return;
  ending_ = true;
  tree_.refresh();
  tree_.signal(SIGTERM);
  tree_.signal(SIGCONT);  // a stopped process could not act on the first
  sweep_later();
}

void ChildProcess::kill() {
  if (reaped_) return;
  ending_ = killing_ = true;
  tree_.refresh();
  tree_.signal(SIGKILL);
  sweep_later();
}

void ChildProcess::sweep_later() {
  if (sweeping_ || reaped_) return;
  sweeping_ = true;
  sweep_timer_.expires_after(exited_ && !swept_ ? std::chrono::milliseconds(0) : sweep_pause);  // mostly nothing is left by then
  sweep_timer_.async_wait([self = shared_from_this()](const error_code& error) {
    self->sweeping_ = false;
    if (!error) self->sweep();
  });
}

// A look can miss a process that was just being forked, and one in the middle of its execve shows no marker.
bool ChildProcess::gone() {
  for (int look = 0; look < looks_in_a_row; ++look) {
    tree_.refresh();
    if (!tree_.living().empty()) return false;
    if (tree_.uncertain() && ++uncertain_looks_ < uncertain_looks) return false;
    if (!tree_.overtaken()) break;
  }
  return true;
}

void ChildProcess::sweep() {
  if (reaped_) return;
  swept_ = exited_;
  if (!exited_ || !gone()) {
    if (killing_) tree_.signal(SIGKILL);
    sweep_later();
    return;
  }
  ::waitpid(pid_, nullptr, WNOHANG);
  forget_child(pid_);
  reaped_ = true;
  close_pipes();
  if (!closed_) events_.tree_empty();
}

void ChildProcess::close_pipes() {
  for (stream_descriptor* descriptor : {&in_, &out_, &err_, &exec_status_}) shut(*descriptor);
  if (reaped_) shut(pidfd_);
}

void ChildProcess::close() {
  if (closed_) return;
  closed_ = true;
  close_pipes();
  if (!reaped_) kill();
}

}  // namespace vigil::process
