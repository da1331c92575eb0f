// The measuring clients: one that notes when each token comes, one that hangs up, many that read as fast as they can, many that wait.
// It speaks HTTP to the daemon and the one-line form to the plain relay (--plain). Prints numbers alone; the driver (run) makes the table.
//   client latency --port P --stamps FILE --tokens N     ns from the engine's write to our read, one a line
//   client close   --port P --stamps FILE --count N      ns from our close to the engine's read of STOP, one a line
//   client flood   --port P --stamps FILE --tokens N --streams N   "tokens ns", from the engine's first write to the last stream's end
//   client wait    --port P --streams N                  says "open"; then for each line on stdin the fewest keep-alives of a stream
#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <string_view>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <vector>

#include "tools/bench/relay/stamps.hpp"

namespace {

struct Options {
  std::string what;
  uint16_t port = 0;
  const char* stamps = nullptr;
  long tokens = 1000, count = 100, streams = 1;
  bool plain = false;
};

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "client: %s%s%s\n", what.c_str(), errno ? ": " : "", errno ? std::strerror(errno) : "");
  std::exit(1);
}

int connect_to(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  if (fd < 0 || ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fail("connect");
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

void send_request(int fd, const Options& options, long tokens) {
  std::string text;
  if (options.plain) {
    text = "GEN " + std::to_string(tokens) + " 1,2,3,4,5,6,7,8\n";
  } else {
    const std::string body = R"({"model":"","stream":true,"stream_options":{"include_usage":true},"max_tokens":)" + std::to_string(tokens) +
                             R"(,"messages":[{"role":"user","content":"Tell me a story about a small boat."}]})";
    text = "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  if (::send(fd, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size())) fail("send");
}

// What a stream has brought. Over HTTP every event ends with an empty line ("\n\n"; chunk sizes and heads use "\r\n"); over the plain
// relay every token is a line.
class Counter {
 public:
  explicit Counter(bool plain) : plain_(plain) {}

  void feed(std::string_view bytes) {
    if (bytes.size() >= tail_most) tail_.clear();
    tail_.append(bytes.substr(bytes.size() - std::min(bytes.size(), tail_most)));
    if (tail_.size() > tail_most) tail_.erase(0, tail_.size() - tail_most);
    const char* const begin = bytes.data();
    const char* const end = begin + bytes.size();
    for (const char* at = begin; (at = static_cast<const char*>(std::memchr(at, '\n', static_cast<size_t>(end - at)))); ++at) {
      if (plain_ || (at == begin ? line_ended_ : at[-1] == '\n')) ++events_;
    }
    line_ended_ = !bytes.empty() && bytes.back() == '\n';
  }

  // The role comes before the tokens; finish, usage and [DONE] after them. The plain relay has DONE alone.
  long tokens() const { return plain_ ? events_ - (over() ? 1 : 0) : events_ - 1 - (over() ? 3 : 0); }
  bool over() const {
    if (!plain_) return tail_.ends_with("0\r\n\r\n");
    const size_t line = tail_.empty() ? std::string::npos : tail_.rfind('\n', tail_.size() - 2);
    return tail_.ends_with("\n") && tail_.find(" DONE ", line == std::string::npos ? 0 : line) != std::string::npos;
  }
  const std::string& tail() const { return tail_; }

 private:
  static constexpr size_t tail_most = 512;  // holds the usage
  bool plain_;
  bool line_ended_ = false;
  long events_ = 0;
  std::string tail_;
};

// A stream that ended must have brought every token, and the daemon must say so itself.
void check_whole(const Counter& counter, const Options& options) {
  const std::string usage = "\"completion_tokens\":" + std::to_string(options.tokens) + ",";
  const bool counted = options.plain || counter.tail().find(usage) != std::string::npos;
  if (counter.tokens() != options.tokens || !counted)
    fail("a stream of " + std::to_string(counter.tokens()) + " tokens instead of " + std::to_string(options.tokens) + "; its end: " + counter.tail());
}

size_t receive(int fd, std::vector<char>& buffer) {
  const ssize_t n = ::recv(fd, buffer.data(), buffer.size(), 0);
  if (n <= 0) fail("the stream broke off");
  return static_cast<size_t>(n);
}

int latency(const Options& options) {
  const bench::Stamps* stamps = bench::map_stamps(options.stamps);
  const uint64_t first = stamps->tokens.load();
  std::vector<char> buffer(1 << 16);
  std::vector<uint64_t> read_at;
  const int fd = connect_to(options.port);
  send_request(fd, options, options.tokens);
  Counter counter(options.plain);
  while (!counter.over()) {
    const size_t n = receive(fd, buffer);
    const uint64_t at = bench::now_ns();
    counter.feed({buffer.data(), n});
    while (static_cast<long>(read_at.size()) < counter.tokens()) read_at.push_back(at);
  }
  check_whole(counter, options);
  for (size_t i = 0; i < read_at.size(); ++i) std::printf("%ld\n", static_cast<long>(read_at[i] - stamps->token_ns[first + i]));
  return 0;
}

int hang_up(const Options& options) {
  const bench::Stamps* stamps = bench::map_stamps(options.stamps);
  std::vector<char> buffer(1 << 16);
  for (long i = 0; i < options.count; ++i) {
    const uint64_t before = stamps->stops.load();
    const int fd = connect_to(options.port);
    send_request(fd, options, 1'000'000);
    Counter counter(options.plain);
    while (counter.tokens() < 2 + i % 3) counter.feed({buffer.data(), receive(fd, buffer)});
    const uint64_t at = bench::now_ns();
    ::close(fd);
    while (stamps->stops.load() == before) {
      if (bench::now_ns() - at > 5'000'000'000ull) fail("no STOP within 5 s of closing");
      const timespec pause{0, 200'000};
      ::nanosleep(&pause, nullptr);
    }
    std::printf("%ld\n", static_cast<long>(stamps->stop_ns[before] - at));
  }
  return 0;
}

struct Stream {
  int fd;
  Counter counter;
};

std::vector<std::unique_ptr<Stream>> open_streams(const Options& options, int epoll) {
  std::vector<std::unique_ptr<Stream>> streams;
  for (long i = 0; i < options.streams; ++i) {
    auto stream = std::make_unique<Stream>(Stream{connect_to(options.port), Counter(options.plain)});
    send_request(stream->fd, options, options.tokens);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = stream.get();
    if (::epoll_ctl(epoll, EPOLL_CTL_ADD, stream->fd, &event) != 0) fail("epoll_ctl");
    streams.push_back(std::move(stream));
  }
  return streams;
}

int flood(const Options& options) {
  const bench::Stamps* stamps = bench::map_stamps(options.stamps);
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  const auto streams = open_streams(options, epoll);
  std::vector<char> buffer(1 << 18);
  long open = options.streams;
  uint64_t at = 0;
  while (open > 0) {
    epoll_event events[256];
    const int n = ::epoll_wait(epoll, events, 256, -1);
    for (int i = 0; i < n; ++i) {
      Stream& stream = *static_cast<Stream*>(events[i].data.ptr);
      stream.counter.feed({buffer.data(), receive(stream.fd, buffer)});
      if (!stream.counter.over()) continue;
      at = bench::now_ns();
      ::close(stream.fd);
      --open;
    }
  }
  long tokens = 0;
  for (const auto& stream : streams) {
    check_whole(stream->counter, options);
    tokens += stream->counter.tokens();
  }
  std::printf("%ld %ld\n", tokens, static_cast<long>(at - stamps->begin_ns.load()));
  return 0;
}

// The first of the streams runs, at the engine's pace; all others wait behind it.
int wait(const Options& options) {
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  auto streams = open_streams(options, epoll);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, 0, &event) != 0) fail("epoll_ctl");
  std::printf("open\n");
  std::fflush(stdout);
  std::vector<char> buffer(1 << 16);
  while (true) {
    epoll_event events[256];
    const int n = ::epoll_wait(epoll, events, 256, -1);
    for (int i = 0; i < n; ++i) {
      if (auto* stream = static_cast<Stream*>(events[i].data.ptr)) {
        stream->counter.feed({buffer.data(), receive(stream->fd, buffer)});
        continue;
      }
      if (::read(0, buffer.data(), buffer.size()) <= 0) return 0;
      long fewest = -1;
      for (size_t k = 1; k < streams.size(); ++k) {
        const long seen = streams[k]->counter.tokens() + 1;  // each a comment, since no event has come
        fewest = fewest < 0 ? seen : std::min(fewest, seen);
      }
      std::printf("%ld\n", fewest);
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
  Options options;
  if (argc > 1) options.what = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--plain") options.plain = true;
    else if (i + 1 == argc) break;
    else if (name == "--port") options.port = static_cast<uint16_t>(std::atoi(argv[++i]));
    else if (name == "--stamps") options.stamps = argv[++i];
    else if (name == "--tokens") options.tokens = std::atol(argv[++i]);
    else if (name == "--count") options.count = std::atol(argv[++i]);
    else if (name == "--streams") options.streams = std::atol(argv[++i]);
  }
  errno = 0;
  const bool known = options.port != 0 && (options.stamps != nullptr || options.what == "wait");
  if (known && options.what == "latency") return latency(options);
  if (known && options.what == "close") return hang_up(options);
  if (known && options.what == "flood") return flood(options);
  if (known && options.what == "wait") return wait(options);
  std::fprintf(stderr, "usage: see the head of client.cpp\n");
  return 2;
}
