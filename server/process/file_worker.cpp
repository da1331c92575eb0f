// See file_worker.hpp. The thread is detached and shares only State, so that one that hangs in a system call holds nobody.
#include "server/process/file_worker.hpp"

#include <signal.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace vigil::process {
namespace {

// How long an end waits for the job that runs.
constexpr auto last_job = std::chrono::seconds(1);

struct Task {
  std::function<void()> job, done;
};

}  // namespace

struct FileWorker::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Task> tasks;
  boost::asio::io_context* io = nullptr;  // null once the owner has gone
  bool running = false;                   // a job is being done

  void add(Task task) {
    const std::lock_guard lock(mutex);
    if (!io) return;
    tasks.push_back(std::move(task));
    changed.notify_all();
  }

  void loop() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return !io || !tasks.empty(); });
      if (!io) return;
      Task task = std::move(tasks.front());
      tasks.pop_front();
      running = true;
      lock.unlock();
      task.job();
      task.job = {};                      // what it owned may take a moment to free
      lock.lock();
      running = false;
      if (io && task.done) boost::asio::post(*io, std::move(task.done));
      changed.notify_all();
    }
  }
};

FileWorker::FileWorker(boost::asio::io_context& io) : state_(std::make_shared<State>()) {
  state_->io = &io;
  // Signals are the main thread's.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([state = state_] { state->loop(); }).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

FileWorker::~FileWorker() {
  std::deque<Task> dropped;
  std::unique_lock lock(state_->mutex);
  state_->io = nullptr;
  dropped.swap(state_->tasks);
  state_->changed.notify_all();
  state_->changed.wait_for(lock, last_job, [this] { return !state_->running; });
}

void FileWorker::run(std::function<void()> job, std::function<void()> done) { state_->add({std::move(job), std::move(done)}); }

std::function<std::shared_ptr<const FileWorker::OwnedFile>(std::string)> FileWorker::owner() {
  return [state = state_](std::string path) { return std::make_shared<const OwnedFile>(std::move(path), state); };
}

FileWorker::OwnedFile::~OwnedFile() {
  try {
    state_->add({[path = std::move(path_)] { ::unlink(path.c_str()); }, {}});
  } catch (const std::exception&) {  // no memory: it goes with its folder
  }
}

}  // namespace vigil::process
