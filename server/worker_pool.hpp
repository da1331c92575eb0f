// Threads for what takes long beside the decision loop: long bodies and texts, and reading a model's vocabulary.
#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include "server/api/api.hpp"

namespace vigil {

namespace asio = boost::asio;

// Results come back through the io_context. Very long jobs go one after another on a thread of their own, so that the usual ones need not
// wait behind them.
class WorkerPool final : public api::Workers {
 public:
  explicit WorkerPool(asio::io_context& io) : io_(io), pool_(2), long_pool_(1) {}
  ~WorkerPool() override {
    pool_.stop();  // what has not begun is nobody's any more
    long_pool_.stop();
    pool_.join();
    long_pool_.join();
  }
  void run(size_t bytes, std::function<void()> job, std::function<void()> done) override {
    constexpr size_t long_job_bytes = 1024 * 1024;
    ++unfinished_;
    asio::post(bytes < long_job_bytes ? pool_ : long_pool_, [this, job = std::move(job), done = std::move(done)]() mutable {
      job();
      job = nullptr;  // its text is given back here, not by the thread that decides
      --unfinished_;
      asio::post(io_, std::move(done));
    });
  }
  bool busy() const { return unfinished_ > 0; }

 private:
  asio::io_context& io_;
  asio::thread_pool pool_, long_pool_;
  std::atomic<size_t> unfinished_ = 0;
};

}  // namespace vigil
