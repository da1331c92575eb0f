// Threads that run one function together, thread 0 being the caller, with a barrier inside. They spin briefly, then sleep in the kernel:
// ops of small models are shorter than a wake-up, and an oversubscribed machine must not burn its cores.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace vigil::compute::cpu {

class Barrier {
 public:
  explicit Barrier(int parties) : parties_(parties) {}
  void arrive_and_wait();

 private:
  const int parties_;
  std::atomic<int> arrived_{0};
  std::atomic<uint32_t> phase_{0};
};

class WorkerTeam {
 public:
  explicit WorkerTeam(int threads);
  ~WorkerTeam();
  WorkerTeam(const WorkerTeam&) = delete;
  WorkerTeam& operator=(const WorkerTeam&) = delete;

  int size() const { return size_; }
  // Runs work(0) to work(size - 1), each on its own thread; returns when all have. `work` must not throw.
  void run(const std::function<void(int)>& work);
  void barrier() { barrier_.arrive_and_wait(); }

 private:
  void serve(int index);
  const int size_;
  Barrier barrier_;
  std::atomic<uint32_t> round_{0};
  std::atomic<bool> ending_{false};
  const std::function<void(int)>* work_ = nullptr;
  std::vector<std::thread> threads_;
};

}  // namespace vigil::compute::cpu
