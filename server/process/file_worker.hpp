// One thread for work on files, so that a slow disk never holds the decision loop; results come back through the loop, in order. An end
// waits for a stuck job a moment only. Not here: which files.
#pragma once

#include <functional>
#include <memory>

namespace boost::asio {
class io_context;
}

namespace vigil::process {

class FileWorker {
 public:
  explicit FileWorker(boost::asio::io_context& io);
  ~FileWorker();                          // what has not begun is dropped; nothing more is reported
  FileWorker(const FileWorker&) = delete;

  // `job` runs on the thread, then `done` on the loop. Both may own what they need; they must not refer to their owner.
  void run(std::function<void()> job, std::function<void()> done = {});

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace vigil::process
