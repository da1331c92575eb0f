// The fork and what the child does up to its execve. In the child only bare system calls run: another thread may have held any lock of
// libc, or of a sanitizer, when we forked.
#include "server/process/spawn.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace vigil::process {
namespace {

constexpr int last_signal = 64;
constexpr size_t kernel_mask_bytes = 8;  // of rt_sigaction and rt_sigprocmask
constexpr std::string_view child_oom_score = "500";  // contract, "Programs": the system takes the child before the daemon

enum class Step : int { chdir = 1, exec = 2 };
struct ExecReport {  // written whole to the status pipe: less than PIPE_BUF
  Step step;
  int error;
};

struct Prepared {
  const char* exe;
  char* const* argv;
  char* const* envp;
  const char* cwd;  // nullptr = ours
  int in, out, err, status;
  pid_t parent;
  bool limit_files;
  rlimit64 files;
};

[[noreturn]] void report_and_exit(int status, Step step) {
  const ExecReport report{step, errno};
  (void)!syscall(SYS_write, status, &report, sizeof report);
  while (true) syscall(SYS_exit_group, 127);
}

// After the fork, in the child; never returns.
[[noreturn]] void become_child(const Prepared& plan) {
  const unsigned long defaults[4] = {};  // the kernel's sigaction: SIG_DFL, no flags, empty mask
  for (int number = 1; number <= last_signal; ++number) syscall(SYS_rt_sigaction, number, defaults, nullptr, kernel_mask_bytes);
  const uint64_t nothing_blocked = 0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &nothing_blocked, nullptr, kernel_mask_bytes);

  syscall(SYS_setsid);
  syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (static_cast<pid_t>(syscall(SYS_getppid)) != plan.parent) syscall(SYS_exit_group, 127);  // it died before the line above
  syscall(SYS_dup3, plan.in, 0, 0);
  syscall(SYS_dup3, plan.out, 1, 0);
  syscall(SYS_dup3, plan.err, 2, 0);
  syscall(SYS_close_range, 3, ~0U, CLOSE_RANGE_CLOEXEC);  // the status pipe must stay until the execve
  if (plan.limit_files) syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &plan.files, nullptr);
  const long score = syscall(SYS_openat, AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC, 0);
  if (score >= 0) (void)!syscall(SYS_write, score, child_oom_score.data(), child_oom_score.size());
  if (plan.cwd != nullptr && syscall(SYS_chdir, plan.cwd) != 0) report_and_exit(plan.status, Step::chdir);
  syscall(SYS_execve, plan.exe, plan.argv, plan.envp);
  report_and_exit(plan.status, Step::exec);
}

struct Pipe {
  UniqueFd read, write;
};

// Both ends above 2, so that no dup3 onto 0, 1 or 2 can hit a pipe that is still needed.
Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Error{std::string("could not make a pipe: ") + std::strerror(errno)};
  Pipe made{UniqueFd(ends[0]), UniqueFd(ends[1])};
  for (UniqueFd* end : {&made.read, &made.write}) {
    if (end->get() > 2) continue;
    UniqueFd higher(::fcntl(end->get(), F_DUPFD_CLOEXEC, 3));
    if (!higher) return Error{std::string("could not move a pipe above the standard descriptors: ") + std::strerror(errno)};
    *end = std::move(higher);
  }
  return made;
}

void set_nonblocking(const UniqueFd& fd) { ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK); }

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  out.reserve(words.size() + 1);
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

struct Forked {
  pid_t pid = -1;
  UniqueFd pidfd;
  int error = 0;
};

// Every signal is blocked around the fork: no handler of ours may run in the child.
Forked fork_child(const Prepared& plan, ForkPath path) {
  Forked forked;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int pidfd = -1;
  if (path == ForkPath::best) {
    clone_args arguments{};
    arguments.flags = CLONE_PIDFD;
    arguments.pidfd = reinterpret_cast<uint64_t>(&pidfd);
    arguments.exit_signal = SIGCHLD;
    forked.pid = static_cast<pid_t>(syscall(SYS_clone3, &arguments, sizeof arguments));
    if (forked.pid == 0) become_child(plan);
    forked.error = errno;
  }
  if (path == ForkPath::fork_only || (forked.pid < 0 && (forked.error == ENOSYS || forked.error == EPERM))) {
    forked.pid = ::fork();
    if (forked.pid == 0) become_child(plan);
    forked.error = errno;
    if (forked.pid > 0) {
      pidfd = static_cast<int>(syscall(SYS_pidfd_open, forked.pid, 0));  // no reuse to fear: only we can reap it
      forked.error = errno;
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  forked.pidfd.reset(pidfd);
  return forked;
}

bool is_ours_alone(std::string_view entry) {
  const std::string_view name = entry.substr(0, entry.find('='));
  return name == "NOTIFY_SOCKET" || name.starts_with("LISTEN_") || name.starts_with("WATCHDOG_") || name.starts_with("VIGIL_");
}

}  // namespace

Result<SpawnedProcess> spawn(const SpawnRequest& request) {
  auto in = make_pipe(), out = make_pipe(), err = make_pipe(), status = make_pipe();
  for (const auto* made : {&in, &out, &err, &status})
    if (!*made) return Error{"'" + request.exe + "': " + made->error()};

  std::vector<std::string> words{request.exe};
  words.insert(words.end(), request.args.begin(), request.args.end());
  const std::vector<char*> argv = pointers(words), envp = pointers(request.environment);
  Prepared plan{request.exe.c_str(), argv.data(), envp.data(), request.cwd.empty() ? nullptr : request.cwd.c_str(),
                in->read.get(), out->write.get(), err->write.get(), status->write.get(), ::getpid(), false, {}};
  if (request.open_files > 0 && ::getrlimit64(RLIMIT_NOFILE, &plan.files) == 0) {
    plan.files.rlim_cur = std::min<rlim64_t>(request.open_files, plan.files.rlim_max);
    plan.limit_files = true;
  }

  Forked forked = fork_child(plan, request.path);
  if (forked.pid < 0)
    return Error{"'" + request.exe + "': no new process: " + std::strerror(forked.error) + " (see ulimit -u and memory)"};
  if (!forked.pidfd) {
    ::kill(forked.pid, SIGKILL);  // without a pidfd its end would go unseen
    ::waitpid(forked.pid, nullptr, 0);
    return Error{"'" + request.exe + "': pidfd_open: " + std::strerror(forked.error) + " (Linux 5.4 or newer is needed)"};
  }
  SpawnedProcess process;
  process.pid = forked.pid;
  process.pidfd = std::move(forked.pidfd);
  process.in = std::move(in->write);
  process.out = std::move(out->read);
  process.err = std::move(err->read);
  process.exec_status = std::move(status->read);
  for (const UniqueFd* fd : {&process.in, &process.out, &process.err, &process.exec_status}) set_nonblocking(*fd);
  return process;
}

ExecStatus read_exec_status(int exec_status, const SpawnRequest& request) {
  ExecReport report{};
  ssize_t got = 0;
  do got = ::read(exec_status, &report, sizeof report);
  while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
  // Closed by the execve, or by an early death that the pidfd tells.
  if (got != static_cast<ssize_t>(sizeof report)) return {ExecState::succeeded, {}};
  const std::string words = std::strerror(report.error);
  if (report.step == Step::chdir)
    return {ExecState::failed, "its working directory '" + request.cwd + "' could not be entered: " + words + " (" + request.name + ".cwd)"};
  std::string hint = request.name + ".exe";
  struct stat file {};
  if (report.error == ENOENT && ::stat(request.exe.c_str(), &file) == 0) hint += "; the file is there, the interpreter or loader it names is not";
  if (report.error == EACCES) hint += "; is it a file, and is its executable bit set?";
  if (report.error == ENOEXEC) hint += "; it is neither a program for this machine nor a script that begins with #!";
  return {ExecState::failed, "'" + request.exe + "': " + words + " (" + hint + ")"};
}

std::vector<std::string> child_environment(const char* const* own, const std::map<std::string, std::string>& extra, const std::string& marker) {
  std::vector<std::string> out{"VIGIL_CHILD=" + marker};
  for (; own != nullptr && *own != nullptr; ++own) {
    const std::string_view entry = *own;
    const std::string name(entry.substr(0, entry.find('=')));
    if (!is_ours_alone(entry) && !extra.contains(name)) out.emplace_back(entry);
  }
  for (const auto& [name, value] : extra)
    if (name != "VIGIL_CHILD") out.push_back(name + "=" + value);
  return out;
}

}  // namespace vigil::process
