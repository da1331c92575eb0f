// Spin-then-futex waiting on C++20 atomics.
#include "engine/compute/cpu/worker_team.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace vigil::compute::cpu {
namespace {

constexpr int spin_rounds = 2000;  // some microseconds

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

void wait_while(const std::atomic<uint32_t>& word, uint32_t old) {
  for (int i = 0; i < spin_rounds; ++i) {
    if (word.load(std::memory_order_acquire) != old) return;
    relax();
  }
  word.wait(old, std::memory_order_acquire);
}

}  // namespace

void Barrier::arrive_and_wait() {
  if (parties_ == 1) return;
  const uint32_t phase = phase_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == parties_) {
    arrived_.store(0, std::memory_order_relaxed);  // before the release below: nobody arrives again until it is seen
    phase_.store(phase + 1, std::memory_order_release);
    phase_.notify_all();
  } else {
    wait_while(phase_, phase);
  }
}

WorkerTeam::WorkerTeam(int threads) : size_(threads), barrier_(threads) {
  threads_.reserve(static_cast<size_t>(threads - 1));
  for (int i = 1; i < threads; ++i) threads_.emplace_back([this, i] { serve(i); });
}

WorkerTeam::~WorkerTeam() {
  ending_.store(true, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerTeam::run(const std::function<void(int)>& work) {
  if (size_ == 1) {
    work(0);
    return;
  }
  work_ = &work;
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  work(0);
  barrier_.arrive_and_wait();  // nobody still uses `work`
}

void WorkerTeam::serve(int index) {
  uint32_t seen = 0;
  for (;;) {
    wait_while(round_, seen);
    ++seen;
    if (ending_.load(std::memory_order_relaxed)) return;
    (*work_)(index);
    barrier_.arrive_and_wait();
  }
}

}  // namespace vigil::compute::cpu
