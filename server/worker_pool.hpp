// Threads for what takes long beside the decision loop: long bodies and texts, and reading a model's vocabulary.
#pragma once

#include <atomic>
#include <functional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "server/api/api.hpp"

namespace vigil {

namespace asio = boost::asio;

// Asio's thread_pool would wait for ever in its destructor if the system gave only some of its threads.
class Threads {
 public:
  explicit Threads(size_t wanted) {
    threads_.reserve(wanted);
    try {
      while (threads_.size() < wanted) threads_.emplace_back([this] { jobs_.run(); });
    } catch (const std::system_error& error) {
      if (threads_.empty()) throw std::runtime_error(std::string("no thread for long texts: ") + error.what());
    }  // fewer will do
  }
  ~Threads() {
    jobs_.stop();  // what has not begun is nobody's any more
    for (std::thread& thread : threads_) thread.join();
  }
  void stop() { jobs_.stop(); }
  template <typename Job>
  void post(Job job) {
    asio::post(jobs_, std::move(job));
  }

 private:
  asio::io_context jobs_;
  asio::executor_work_guard<asio::io_context::executor_type> open_{jobs_.get_executor()};
  std::vector<std::thread> threads_;
};

// Results come back through the io_context. Very long jobs go one after another on a thread of their own, so that the usual ones need not
// wait behind them.
class WorkerPool final : public api::Workers {
 public:
  explicit WorkerPool(asio::io_context& io) : io_(io), pool_(2), long_pool_(1) {}
  ~WorkerPool() override {
    pool_.stop();  // both, before either is waited for
    long_pool_.stop();
  }
  void run(size_t bytes, std::function<void()> job, std::function<void()> done) override {
    constexpr size_t long_job_bytes = 1024 * 1024;
    ++unfinished_;
    Threads& threads = bytes < long_job_bytes ? pool_ : long_pool_;
    threads.post([this, job = std::move(job), done = std::move(done)]() mutable {
      job();
      job = nullptr;  // its text is given back here, not by the thread that decides
      --unfinished_;
      asio::post(io_, std::move(done));
    });
  }
  bool busy() const { return unfinished_ > 0; }

 private:
  asio::io_context& io_;
  std::atomic<size_t> unfinished_ = 0;
  Threads pool_, long_pool_;
};

}  // namespace vigil
