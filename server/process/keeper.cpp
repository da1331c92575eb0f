// The keeper's process and its two ends.
#include "server/process/keeper.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "server/process/proc.hpp"
#include "server/process/reaper.hpp"
#include "server/process/tree.hpp"

namespace vigil::process {
namespace {

constexpr int sweeps = 500;        // of 20 ms: what does not die of KILL in 10 s hangs in the kernel
constexpr int stop_wait_ms = 2000;
constexpr int pipe_end = 3;        // where the keeper holds it

[[noreturn]] void keep(int pipe, const std::string& instance) {
  ::setsid();
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_IGN);
  ::signal(SIGCHLD, SIG_DFL);
  ::prctl(PR_SET_NAME, "vigil-keeper", 0, 0, 0);
  (void)!::chdir("/");
  // Of the daemon's descriptors only the pipe and stderr stay: a socket or a log file held here would outlive it.
  if (pipe != pipe_end) ::dup3(pipe, pipe_end, O_CLOEXEC);
  ::close(0);
  ::close(1);
  ::syscall(SYS_close_range, pipe_end + 1, ~0U, 0);
  char byte = 0;
  ssize_t got = 0;
  do got = ::read(pipe_end, &byte, 1);
  while (got > 0 || (got < 0 && errno == EINTR));
  const bool gone = kill_marked(instance + ".", sweeps);
  ::_exit(gone ? 0 : 1);
}

}  // namespace

std::string make_instance() {
  uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != static_cast<ssize_t>(sizeof random)) random = 0;  // pid and start time tell daemons apart alone
  const auto self = read_process(::getpid());
  std::array<char, 80> text{};
  snprintf(text.data(), text.size(), "%d-%llu-%08llx", static_cast<int>(::getpid()),
           static_cast<unsigned long long>(self ? self->started_ticks : 0), static_cast<unsigned long long>(random & 0xffffffffULL));
  return text.data();
}

Result<Keeper> start_keeper(const std::string& instance) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Error{std::string("could not make the keeper's pipe: ") + std::strerror(errno)};
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return Error{std::string("could not start the keeper: ") + std::strerror(errno)};
  if (pid == 0) {
    write_end.reset();
    keep(read_end.get(), instance);
  }
  register_child(pid);
  return Keeper(pid, std::move(write_end));
}

Keeper::Keeper(Keeper&& other) noexcept : pid_(std::exchange(other.pid_, -1)), pipe_(std::move(other.pipe_)) {}

Keeper::~Keeper() { stop(); }

Result<void> Keeper::replace(const std::string& instance) {
  pipe_.reset();
  if (pid_ > 0) {
    ::waitpid(pid_, nullptr, WNOHANG);
    forget_child(pid_);
    pid_ = -1;
  }
  auto next = start_keeper(instance);
  if (!next) return Error{next.error()};
  pid_ = std::exchange(next->pid_, -1);
  pipe_ = std::move(next->pipe_);
  return {};
}

void Keeper::stop() {
  pipe_.reset();
  if (pid_ < 0) return;
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  pollfd wanted{pidfd.get(), POLLIN, 0};
  if (!pidfd || ::poll(&wanted, 1, stop_wait_ms) != 1) ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  forget_child(pid_);
  pid_ = -1;
}

}  // namespace vigil::process
