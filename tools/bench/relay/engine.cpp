// A fake engine for measuring what stands between an engine and its clients. It computes nothing: either one token for each open request
// every --pace-us, each with its moment noted, or (--pace-us 0) blocks of ready lines as fast as the pipe takes them, begun when --gather
// requests are open. Not here: any of the mischief that tests/fakes can do.
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <string>
#include <string_view>
#include <vector>

#include "tools/bench/relay/stamps.hpp"

namespace {

// Ids of the vocabulary of tests/models/random.gguf that are words of letters: a token is an event of ordinary length.
constexpr int first_id = 356, ids = 64;
constexpr size_t block_bytes = 32 * 1024;

struct Request {
  uint64_t tag;
  long left, sent;
};

struct Engine {
  int slots = 1;
  size_t gather = 1;
  long pace_us = 0;
  bench::Stamps* stamps = nullptr;
  std::vector<Request> open;
  std::string input, block;
  long block_rounds = 0;  // 0: the block is not of the requests that are open now
  bool flooding = false;

  void write_all(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(1, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) std::exit(0);  // the reader is gone
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }

  static void append_token(std::string& out, const Request& request, long index) {
    out += '@';
    out += std::to_string(request.tag);
    out += " T ";
    out += std::to_string(first_id + index % ids);
    out += '\n';
  }

  static void append_done(std::string& out, const Request& request, const char* finish) {
    out += '@' + std::to_string(request.tag) + " DONE " + std::to_string(request.sent) + " 8 0 0 " + finish + "\n";
  }

  void line(std::string_view text) {
    if (text == "QUIT") std::exit(0);
    if (text.starts_with("STOP")) {
      const uint64_t at = bench::now_ns();
      const uint64_t number = stamps->stops.load();
      if (number < bench::Stamps::max_stops) stamps->stop_ns[number] = at;
      stamps->stops.store(number + 1);
      const uint64_t tag = std::strtoull(std::string(text.substr(4)).c_str(), nullptr, 10);
      for (size_t i = 0; i < open.size(); ++i) {
        if (open[i].tag != tag) continue;
        std::string out;
        append_done(out, open[i], "cancel");
        open.erase(open.begin() + static_cast<long>(i));
        block_rounds = 0;
        write_all(out);
        return;
      }
      return;
    }
    if (!text.starts_with("GEN ")) return;
    Request request{0, std::strtol(text.data() + 4, nullptr, 10), 0};
    const size_t tag = text.find(" req=");
    if (tag != std::string_view::npos) request.tag = std::strtoull(text.data() + tag + 5, nullptr, 10);
    open.push_back(request);
    block_rounds = 0;
  }

  // Answers false when stdin ended.
  bool read_commands() {
    char bytes[65536];
    const ssize_t n = ::read(0, bytes, sizeof bytes);
    if (n <= 0) return n < 0 && errno == EINTR;
    input.append(bytes, static_cast<size_t>(n));
    size_t from = 0;
    for (size_t end = input.find('\n'); end != std::string::npos; end = input.find('\n', from)) {
      input[end] = 0;  // ends the numbers that strtol reads
      line(std::string_view(input).substr(from, end - from));
      from = end + 1;
    }
    input.erase(0, from);
    return true;
  }

  void end_finished() {
    std::string out;
    for (size_t i = 0; i < open.size();) {
      if (open[i].left > 0) {
        ++i;
        continue;
      }
      append_done(out, open[i], "length");
      open.erase(open.begin() + static_cast<long>(i));
      block_rounds = 0;
    }
    if (!out.empty()) write_all(out);
    if (open.empty()) flooding = false;
  }

  // One step of a real engine with several slots gives one token to each; a block holds many steps.
  void flood() {
    if (!flooding) {
      flooding = true;
      stamps->begin_ns.store(bench::now_ns());
    }
    long least = open.front().left;
    for (const Request& request : open) least = std::min(least, request.left);
    if (block_rounds == 0 || block_rounds > least) {
      block.clear();
      for (block_rounds = 0; block_rounds < least && (block_rounds == 0 || block.size() < block_bytes); ++block_rounds) {
        for (const Request& request : open) append_token(block, request, block_rounds);
      }
    }
    write_all(block);
    for (Request& request : open) {
      request.left -= block_rounds;
      request.sent += block_rounds;
    }
    end_finished();
  }

  void step() {
    for (Request& request : open) {
      std::string out;
      append_token(out, request, request.sent);
      --request.left;
      ++request.sent;
      const uint64_t number = stamps->tokens.load();
      const uint64_t at = bench::now_ns();
      if (number < bench::Stamps::max_tokens) stamps->token_ns[number] = at;
      stamps->tokens.store(number + 1);
      write_all(out);
    }
    end_finished();
  }

  void run() {
    write_all("READY 100000000 stop ids slots=" + std::to_string(slots) + "\n");
    uint64_t next = 0;
    while (true) {
      const bool busy = pace_us > 0 ? !open.empty() : flooding ? !open.empty() : open.size() >= gather;
      if (!busy) next = 0;
      timespec wait{};
      if (busy && pace_us > 0) {
        const uint64_t now = bench::now_ns(), step_ns = static_cast<uint64_t>(pace_us) * 1000;
        if (next == 0) next = now + step_ns;
        if (now >= next) {
          step();
          next += step_ns;
          continue;
        }
        wait.tv_nsec = static_cast<long>(next - now);
      }
      pollfd in{0, POLLIN, 0};
      const int ready = ::ppoll(&in, 1, busy ? &wait : nullptr, nullptr);
      if (ready > 0 && !read_commands()) return;
      if (ready == 0 && busy && pace_us == 0) flood();
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  Engine engine;
  const char* file = nullptr;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    if (name == "--slots") engine.slots = std::atoi(argv[i + 1]);
    else if (name == "--gather") engine.gather = static_cast<size_t>(std::atoi(argv[i + 1]));
    else if (name == "--pace-us") engine.pace_us = std::atol(argv[i + 1]);
    else if (name == "--stamps") file = argv[i + 1];
  }
  if (file == nullptr || engine.pace_us >= 1'000'000) {
    std::fprintf(stderr, "usage: %s --stamps FILE [--slots N] [--gather N] [--pace-us N, below 1000000]\n", argv[0]);
    return 2;
  }
  engine.stamps = bench::map_stamps(file);
  engine.run();
}
