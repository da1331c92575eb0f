// One thread for work on files, so that a slow disk never holds the decision loop; results come back through the loop, in order. An end
// waits for a stuck job a moment only. Not here: which files.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

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

  class OwnedFile;
  // Takes a file that exists; it is removed, by the thread, when its last owner has gone. Owners may outlive the worker; what is left then goes
  // with its folder. From any thread.
  std::function<std::shared_ptr<const OwnedFile>(std::string path)> owner();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

class FileWorker::OwnedFile {
 public:
  OwnedFile(std::string path, std::shared_ptr<State> state) : path_(std::move(path)), state_(std::move(state)) {}
  ~OwnedFile();
  OwnedFile(const OwnedFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::shared_ptr<State> state_;
};

}  // namespace vigil::process
