/* Fails the N-th of a process's own system calls once, for LD_PRELOAD: shows what a daemon does when a descriptor, memory or a process is refused at
   any moment. Counts the calls that reach libc from outside it; children are left alone. Not here: what is right (run.py).
     FAIL_AT_N        which call, from 1; 0 or absent only counts
     FAIL_AT_VARIANT  which of the call's plausible errors
     FAIL_AT_LOG      a file that gets "failed N NAME ERRNO WHAT" and, at exit, "total N"
     FAIL_AT_CLASS    "proc" counts only what reads /proc (most of all calls), "calls" only the others, "" all
     FAIL_AT_ONLY     only calls of this name count
     FAIL_AT_OPEN     beside those under /proc the one path whose open counts */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t armed_pid;
static long wanted, variant;
static atomic_long count;
static char log_path[512], open_path[512], class[16], only[32];

static void keep(char* to, size_t size, const char* name) {
  const char* value = getenv(name);
  snprintf(to, size, "%s", value ? value : "");
  unsetenv(name);
}

/* Plain system calls: what the hooks below would count must not be used here. */
static void note(const char* text) {
  const int file = (int)syscall(SYS_openat, AT_FDCWD, log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return;
  (void)!syscall(SYS_write, file, text, strlen(text));
  syscall(SYS_close, file);
}

__attribute__((constructor)) static void arm(void) {
  char number[32], which[32];
  keep(number, sizeof number, "FAIL_AT_N");
  keep(which, sizeof which, "FAIL_AT_VARIANT");
  keep(log_path, sizeof log_path, "FAIL_AT_LOG");
  keep(class, sizeof class, "FAIL_AT_CLASS");
  keep(only, sizeof only, "FAIL_AT_ONLY");
  keep(open_path, sizeof open_path, "FAIL_AT_OPEN");
  unsetenv("LD_PRELOAD"); /* children get an environment without us */
  if (!log_path[0]) return;
  wanted = atol(number);
  variant = atol(which);
  armed_pid = getpid();
}

__attribute__((destructor)) static void tell_total(void) {
  char text[64];
  if (getpid() != armed_pid) return;
  snprintf(text, sizeof text, "total %ld\n", atomic_load(&count));
  note(text);
}

/* Counts one call; true when it is the one that fails, with errno set. `what` is a path, or NULL for the descriptor's own. */
static int fails(const char* name, int descriptor, const char* what, const int* errors) {
  if (armed_pid == 0 || getpid() != armed_pid || (only[0] && strcmp(only, name) != 0)) return 0;
  char link[64], target[256] = "", text[512];
  if (!what && descriptor >= 0) {
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    const long size = syscall(SYS_readlinkat, AT_FDCWD, link, target, sizeof target - 1);
    target[size > 0 ? size : 0] = 0;
    what = target;
  }
  if (class[0] && (strncmp(what ? what : "", "/proc", 5) == 0) != (class[0] == 'p')) return 0;
  const long mine = atomic_fetch_add(&count, 1) + 1;
  if (mine != wanted) return 0;
  long choices = 0;
  while (errors[choices]) ++choices;
  const int error = errors[variant % choices];
  snprintf(text, sizeof text, "failed %ld %s %s %s\n", mine, name, strerrorname_np(error), what ? what : "");
  note(text);
  errno = error;
  return 1;
}

#define ERRORS(...) ((const int[]){__VA_ARGS__, 0})
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define SHORTAGE ERRORS(EMFILE, ENFILE, ENOMEM)
#define INPUT ERRORS(EIO, EINTR)
#define OUTPUT ERRORS(EIO, EPIPE, ENOMEM, EINTR)
#define SOCKET_INPUT ERRORS(ECONNRESET, ENOMEM, EINTR)
#define SOCKET_OUTPUT ERRORS(ECONNRESET, EPIPE, ENOBUFS, EINTR)

int accept(int fd, struct sockaddr* address, socklen_t* size) {
  return fails("accept", fd, NULL, ERRORS(EMFILE, ENFILE, ECONNABORTED, ENOMEM, EINTR)) ? -1 : REAL(accept)(fd, address, size);
}
int accept4(int fd, struct sockaddr* address, socklen_t* size, int flags) {
  return fails("accept4", fd, NULL, ERRORS(EMFILE, ENFILE, ECONNABORTED, ENOMEM, EINTR)) ? -1 : REAL(accept4)(fd, address, size, flags);
}
int socket(int domain, int type, int protocol) { return fails("socket", -1, NULL, SHORTAGE) ? -1 : REAL(socket)(domain, type, protocol); }
int bind(int fd, const struct sockaddr* address, socklen_t size) {
  return fails("bind", fd, NULL, ERRORS(EADDRINUSE, EACCES, ENOMEM)) ? -1 : REAL(bind)(fd, address, size);
}
int listen(int fd, int backlog) { return fails("listen", fd, NULL, ERRORS(EADDRINUSE)) ? -1 : REAL(listen)(fd, backlog); }
int setsockopt(int fd, int level, int name, const void* value, socklen_t size) {
  return fails("setsockopt", fd, NULL, ERRORS(ENOMEM, ENOBUFS, EINVAL)) ? -1 : REAL(setsockopt)(fd, level, name, value, size);
}
int shutdown(int fd, int how) { return fails("shutdown", fd, NULL, ERRORS(ENOTCONN)) ? -1 : REAL(shutdown)(fd, how); }

/* A pipe of which a process holds both ends, as Asio does for signals, neither breaks nor interrupts; the others are made by pipe2. */
static int own_pipe[2] = {-1, -1};
static int own(int fd) { return fd == own_pipe[0] || fd == own_pipe[1]; }

ssize_t read(int fd, void* to, size_t size) { return !own(fd) && fails("read", fd, NULL, INPUT) ? -1 : REAL(read)(fd, to, size); }
ssize_t readv(int fd, const struct iovec* to, int number) { return fails("readv", fd, NULL, INPUT) ? -1 : REAL(readv)(fd, to, number); }
ssize_t recv(int fd, void* to, size_t size, int flags) { return fails("recv", fd, NULL, SOCKET_INPUT) ? -1 : REAL(recv)(fd, to, size, flags); }
ssize_t recvmsg(int fd, struct msghdr* message, int flags) { return fails("recvmsg", fd, NULL, SOCKET_INPUT) ? -1 : REAL(recvmsg)(fd, message, flags); }

ssize_t write(int fd, const void* from, size_t size) { return !own(fd) && fails("write", fd, NULL, OUTPUT) ? -1 : REAL(write)(fd, from, size); }
ssize_t writev(int fd, const struct iovec* from, int number) { return fails("writev", fd, NULL, OUTPUT) ? -1 : REAL(writev)(fd, from, number); }
ssize_t send(int fd, const void* from, size_t size, int flags) { return fails("send", fd, NULL, SOCKET_OUTPUT) ? -1 : REAL(send)(fd, from, size, flags); }
ssize_t sendmsg(int fd, const struct msghdr* message, int flags) { return fails("sendmsg", fd, NULL, SOCKET_OUTPUT) ? -1 : REAL(sendmsg)(fd, message, flags); }

int pipe(int ends[2]) {
  if (fails("pipe", -1, NULL, SHORTAGE)) return -1;
  const int result = REAL(pipe)(ends);
  if (result == 0) own_pipe[0] = ends[0], own_pipe[1] = ends[1];
  return result;
}
int pipe2(int ends[2], int flags) { return fails("pipe2", -1, NULL, SHORTAGE) ? -1 : REAL(pipe2)(ends, flags); }
pid_t fork(void) { return fails("fork", -1, NULL, ERRORS(EAGAIN, ENOMEM)) ? -1 : REAL(fork)(); }
int eventfd(unsigned value, int flags) { return fails("eventfd", -1, NULL, SHORTAGE) ? -1 : REAL(eventfd)(value, flags); }
int epoll_create1(int flags) { return fails("epoll_create1", -1, NULL, SHORTAGE) ? -1 : REAL(epoll_create1)(flags); }
int epoll_ctl(int epoll, int how, int fd, struct epoll_event* event) {
  return fails("epoll_ctl", fd, NULL, ERRORS(ENOMEM, ENOSPC)) ? -1 : REAL(epoll_ctl)(epoll, how, fd, event);
}
int epoll_wait(int epoll, struct epoll_event* events, int number, int timeout) {
  return fails("epoll_wait", -1, NULL, ERRORS(EINTR)) ? -1 : REAL(epoll_wait)(epoll, events, number, timeout);
}
int timerfd_create(int clock, int flags) { return fails("timerfd_create", -1, NULL, SHORTAGE) ? -1 : REAL(timerfd_create)(clock, flags); }
/* timerfd_settime is left alone: with a valid timer and valid times it cannot fail, and Asio does not look. */
int poll(struct pollfd* fds, nfds_t number, int timeout) { return fails("poll", -1, NULL, ERRORS(EINTR, ENOMEM)) ? -1 : REAL(poll)(fds, number, timeout); }
int waitid(idtype_t type, id_t id, siginfo_t* info, int options) {
  return fails("waitid", -1, NULL, ERRORS(EINTR)) ? -1 : REAL(waitid)(type, id, info, options);
}
pid_t waitpid(pid_t pid, int* status, int options) { return fails("waitpid", -1, NULL, ERRORS(EINTR)) ? -1 : REAL(waitpid)(pid, status, options); }
int kill(pid_t pid, int number) { return fails("kill", -1, NULL, ERRORS(EPERM, ESRCH)) ? -1 : REAL(kill)(pid, number); }

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument) {
  if (fails("pthread_create", -1, NULL, ERRORS(EAGAIN))) return EAGAIN;
  return REAL(pthread_create)(thread, attributes, start, argument);
}

static int counted_path(const char* path) { return strncmp(path, "/proc", 5) == 0 || (open_path[0] && strcmp(path, open_path) == 0); }

#define OPEN(function, prefix, ...)                                                                                      \
  if (counted_path(path) && fails(#function, -1, path, ERRORS(EMFILE, ENFILE, ENOMEM, EACCES))) return -1;              \
  mode_t mode = 0;                                                                                                       \
  if (flags & (O_CREAT | O_TMPFILE)) {                                                                                   \
    va_list rest;                                                                                                        \
    va_start(rest, flags);                                                                                               \
    mode = va_arg(rest, mode_t);                                                                                         \
    va_end(rest);                                                                                                        \
  }                                                                                                                      \
  return REAL(function)(prefix path, flags, mode)

int open(const char* path, int flags, ...) { OPEN(open, ); }
int open64(const char* path, int flags, ...) { OPEN(open64, ); }
#define IN_FOLDER folder,
int openat(int folder, const char* path, int flags, ...) { OPEN(openat, IN_FOLDER); }
int openat64(int folder, const char* path, int flags, ...) { OPEN(openat64, IN_FOLDER); }

DIR* opendir(const char* path) { return fails("opendir", -1, path, ERRORS(EMFILE, ENFILE, ENOMEM)) ? NULL : REAL(opendir)(path); }

/* The daemon's clone3, pidfd_open and pidfd_send_signal have no function of their own. */
long syscall(long number, ...) {
  va_list rest;
  va_start(rest, number);
  long word[6];
  for (int i = 0; i < 6; ++i) word[i] = va_arg(rest, long);
  va_end(rest);
  if (number == SYS_clone3 && fails("clone3", -1, NULL, ERRORS(EAGAIN, ENOMEM, ENOSYS))) return -1;
  if (number == SYS_pidfd_open && fails("pidfd_open", -1, NULL, SHORTAGE)) return -1;
  if (number == SYS_pidfd_send_signal && fails("pidfd_send_signal", -1, NULL, ERRORS(EPERM, ESRCH))) return -1;
  return REAL(syscall)(number, word[0], word[1], word[2], word[3], word[4], word[5]);
}
