// One child process from its fork until nothing of its tree is left: pipes, exit, signals, usage, on Asio. It reports what happens and does
// what it is told; it knows neither the protocol nor any limit. All calls and callbacks on the io_context's thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/process/spawn.hpp"
#include "server/process/tree.hpp"

namespace vigil::process {

// Calls stop with close(); they may come from inside one another only through drain(). May call every method of the process.
struct ProcessEvents {
  std::function<void()> executed;                              // the execve worked
  std::function<void(const std::string& reason)> not_executed; // the last call; the rest is cleared away silently
  std::function<void(std::string_view bytes)> output;          // stdout
  std::function<void()> output_closed;                         // end of file on stdout while it lives
  std::function<void(std::string_view bytes)> error_output;    // stderr
  std::function<void(const std::string& how)> exited;          // "exited with status 3"; all its output was reported before
  std::function<void()> tree_empty;                            // after terminate or kill, and after exited
  std::function<void(const std::string& text)> log;
};

class ChildProcess : public std::enable_shared_from_this<ChildProcess> {
 public:
  static Result<std::shared_ptr<ChildProcess>> start(boost::asio::io_context& io, SpawnRequest request, std::string marker, ProcessEvents events);
  ~ChildProcess();                    // kills what is left, without waiting
  ChildProcess(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  void write(std::string bytes);      // queued; the owner bounds what it queues. After a broken pipe it goes nowhere
  size_t unwritten_bytes() const { return unwritten_bytes_; }
  void drain();                       // reports what lies in both pipes now, and an exit, without blocking
  void pause_output(bool paused);     // stdout only
  void terminate();                   // TERM and CONT to the tree, then tree_empty as soon as it is so
  void kill();                        // KILL to the tree, again and again until tree_empty
  TreeUsage usage() { return tree_.usage(); }
  void close();                       // no more callbacks; kills what is left and reaps it in the background

 private:
  ChildProcess(boost::asio::io_context& io, pid_t pid, SpawnRequest request, std::string marker, ProcessEvents events);
  void watch_exec();
  void watch_output();
  void watch_errors();
  void watch_exit();
  bool check_exec();                  // false: it failed, and that was reported
  enum class Until : uint8_t { short_read, empty };
  bool read_output(size_t budget, Until until);  // false: nothing more to come, or closed
  bool read_errors(size_t budget);
  void write_next();
  void check_exit();
  bool gone();
  void sweep();
  void sweep_later();
  void close_pipes();

  pid_t pid_;
  SpawnRequest request_;
  ProcessEvents events_;
  Tree tree_;
  boost::asio::posix::stream_descriptor pidfd_, in_, out_, err_, exec_status_;
  boost::asio::steady_timer sweep_timer_;
  std::vector<char> buffer_;
  std::deque<std::string> unwritten_;
  size_t written_of_first_ = 0, unwritten_bytes_ = 0;
  bool writing_ = false, reading_ = false, waiting_output_ = false;
  bool paused_ = false, executed_ = false, exited_ = false, reaped_ = false, closed_ = false;
  bool ending_ = false, killing_ = false, sweeping_ = false, swept_ = false;
  int uncertain_looks_ = 0;
};

// "killed by signal 11 (SIGSEGV)" or "exited with status 1", of waitid's si_code and si_status.
std::string describe_exit(int code, int status);

}  // namespace vigil::process
