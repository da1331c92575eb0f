// For the tests of this room: a loop with a hard limit, scripts in a folder of their own, a process that records what it reports.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/process/child_process.hpp"

namespace vigil::process::testing {

// Runs the loop until `reached` is true; false when ten seconds were not enough.
bool run_until(boost::asio::io_context& io, const std::function<bool()>& reached, std::chrono::milliseconds limit = std::chrono::seconds(10));
// The same without a loop, for processes that are not ours: looks again and again.
bool look_until(const std::function<bool()>& reached, std::chrono::milliseconds limit = std::chrono::seconds(10));

class Scripts {
 public:
  Scripts();
  ~Scripts();
  // An executable bash script; returns its path.
  std::string add(const std::string& name, const std::string& body);
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

 private:
  std::string folder_;
};

std::string fake(const std::string& name);       // of tests/fakes
std::string read_whole(const std::string& path);
bool is_alive(pid_t pid);                        // a zombie is dead
size_t count_marked(const std::string& marker);  // living processes whose marker begins so

std::string unique_marker();                     // differs in every call
SpawnRequest request_for(const std::string& exe, const std::string& marker, std::vector<std::string> args = {});

// A ChildProcess and everything it said.
struct Recorded {
  boost::asio::io_context& io;
  std::string marker = unique_marker();
  std::shared_ptr<ChildProcess> process;
  bool executed = false, output_closed = false, empty = false;
  size_t error_bytes = 0, output_before_exit = 0;
  std::string output, errors, exited, not_executed, log;

  explicit Recorded(boost::asio::io_context& context) : io(context) {}
  ~Recorded();
  void start(const std::string& exe, std::vector<std::string> args = {}, const std::function<void(SpawnRequest&)>& change = {});
  bool until(const std::function<bool()>& reached) { return run_until(io, reached); }
  bool finish() { return until([this] { return empty || !not_executed.empty(); }); }
};

}  // namespace vigil::process::testing
