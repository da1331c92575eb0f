/* The least that can stand between an engine's pipe and its clients' sockets: a line goes, as it is, to the connection that its tag names,
   one write for each connection and chunk read. No HTTP, no JSON, no text, no limits; it is what the daemon is compared with.
   relay ENGINE [ARG...]   prints its port; a client sends one line "GEN max_new id,id,..." and may hang up at any time (STOP). */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <signal.h>
#include <unistd.h>

enum { chunk = 64 * 1024, line_most = 4096, tags_most = 1 << 20, held_most = 8 << 20 };

struct connection {
  int socket;
  unsigned tag;
  int open;        /* the engine has its request */
  int touched;     /* has bytes of this chunk */
  int blocked;     /* its socket took no more */
  char line[line_most];
  size_t line_size;
  char* out;
  size_t size, room, sent;
};

static struct connection* by_tag[tags_most];
static unsigned next_tag = 1;
static int epoll, engine_in, engine_out, listening, paused;
static size_t held;

static void fail(const char* what) {
  perror(what);
  exit(1);
}

static void watch(int fd, uint32_t events, void* whose, int how) {
  struct epoll_event event = {events, {.ptr = whose}};
  if (epoll_ctl(epoll, how, fd, &event) != 0) fail("epoll_ctl");
}

static void tell_engine(const char* text, size_t size) {
  if (write(engine_in, text, size) != (ssize_t)size) fail("engine");
}

static void flush(struct connection* c) {
  while (c->sent < c->size) {
    const ssize_t n = send(c->socket, c->out + c->sent, c->size - c->sent, MSG_NOSIGNAL);
    if (n < 0) break;
    c->sent += (size_t)n;
    held -= (size_t)n;
  }
  if (c->sent == c->size) c->sent = c->size = 0;
  if (c->blocked != (c->size > 0)) {
    c->blocked = !c->blocked;
    watch(c->socket, EPOLLIN | (c->blocked ? EPOLLOUT : 0u), c, EPOLL_CTL_MOD);
  }
}

static void append(struct connection* c, const char* bytes, size_t size) {
  if (c->size + size > c->room) {
    c->room = (c->size + size) * 2;
    c->out = realloc(c->out, c->room);
    if (c->out == NULL) fail("memory");
  }
  memcpy(c->out + c->size, bytes, size);
  c->size += size;
  held += size;
}

static void hang_up(struct connection* c) {
  if (c->open) {
    char text[32];
    tell_engine(text, (size_t)snprintf(text, sizeof text, "STOP %u\n", c->tag));
  }
  if (c->tag != 0) by_tag[c->tag] = NULL;
  held -= c->size - c->sent;
  close(c->socket);
  free(c->out);
  free(c);
}

static void client_input(struct connection* c) {
  const ssize_t n = read(c->socket, c->line + c->line_size, sizeof c->line - c->line_size);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    hang_up(c);
    return;
  }
  c->line_size += (size_t)n;
  if (c->line[c->line_size - 1] != '\n' || strncmp(c->line, "GEN ", 4) != 0 || next_tag == tags_most) return;
  char* rest = strchr(c->line + 4, ' ');
  if (rest == NULL) return;
  c->tag = next_tag++;
  c->open = 1;
  by_tag[c->tag] = c;
  char text[line_most + 64];
  tell_engine(text, (size_t)snprintf(text, sizeof text, "%.*s req=%u%.*s", (int)(rest - c->line), c->line, c->tag,
                                     (int)(c->line + c->line_size - rest), rest));
  c->line_size = 0;
}

static void engine_output(void) {
  static char bytes[chunk + line_most];
  static size_t kept;
  static struct connection* touched[tags_most];
  size_t count = 0;
  const ssize_t n = read(engine_out, bytes + kept, chunk);
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) exit(0);
  char *at = bytes, *const end = bytes + kept + n;
  for (char* stop; (stop = memchr(at, '\n', (size_t)(end - at))) != NULL; at = stop + 1) {
    if (*at != '@') continue;
    unsigned tag = 0;
    const char* p = at + 1;
    for (; *p >= '0' && *p <= '9'; ++p) tag = tag * 10 + (unsigned)(*p - '0');
    struct connection* c = tag < tags_most ? by_tag[tag] : NULL;
    if (c == NULL) continue;
    if (p[1] == 'D') c->open = 0;
    append(c, at, (size_t)(stop + 1 - at));
    if (!c->touched) {
      c->touched = 1;
      touched[count++] = c;
    }
  }
  kept = (size_t)(end - at);
  if (kept > line_most) exit(1);
  memmove(bytes, at, kept);
  for (size_t i = 0; i < count; ++i) {
    touched[i]->touched = 0;
    flush(touched[i]);
  }
}

static void start_engine(char** argv) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) fail("pipe");
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    setsid(); /* as the daemon does: a session is a group of its own to some schedulers */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(in[0], 0);
    dup2(out[1], 1);
    execv(argv[0], argv);
    fail(argv[0]);
  }
  close(in[0]);
  close(out[1]);
  engine_in = in[1];
  engine_out = out[0];
  fcntl(engine_out, F_SETFL, O_NONBLOCK);
}

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s ENGINE [ARG...]\n", argv[0]);
    return 2;
  }
  signal(SIGPIPE, SIG_IGN);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  struct rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  start_engine(argv + 1);
  listening = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  if (bind(listening, (struct sockaddr*)&address, sizeof address) != 0 || listen(listening, 4096) != 0 ||
      getsockname(listening, (struct sockaddr*)&address, &size) != 0)
    fail("listen");
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);
  epoll = epoll_create1(EPOLL_CLOEXEC);
  watch(listening, EPOLLIN, &listening, EPOLL_CTL_ADD);
  watch(engine_out, EPOLLIN, &engine_out, EPOLL_CTL_ADD);
  for (;;) {
    struct epoll_event events[256];
    const int n = epoll_wait(epoll, events, 256, -1);
    for (int i = 0; i < n; ++i) {
      if (events[i].data.ptr == &listening) {
        const int socket = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (socket < 0) continue;
        const int on = 1;
        setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        struct connection* c = calloc(1, sizeof *c);
        c->socket = socket;
        watch(socket, EPOLLIN, c, EPOLL_CTL_ADD);
      } else if (events[i].data.ptr == &engine_out) {
        engine_output();
      } else {
        struct connection* c = events[i].data.ptr;
        if (events[i].events & EPOLLOUT) flush(c);
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) client_input(c);
      }
    }
    /* What a client does not take is held back at the pipe. */
    if (paused != (held > held_most)) {
      paused = !paused;
      watch(engine_out, paused ? 0u : EPOLLIN, &engine_out, EPOLL_CTL_MOD);
    }
  }
}
