// The fiber scheduler. Under ThreadSanitizer fibers are announced to it and barriers are its acquire and release, which makes it a race checker for
// kernels; this file itself is then compiled without it (VIGIL_CUDA_ON_CPU_TSAN).
#include "tests/cuda_on_cpu/scheduler.hpp"

#include <algorithm>
#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/cuda_on_cpu/sanitizers.hpp"

namespace cuda_on_cpu {
namespace {

enum class State : uint8_t { done, ready, in_block_barrier, in_warp_barrier };

struct Fiber : Thread {
  boost::context::fiber self, scheduler;
  sanitizers::FiberMarks marks;
  State state = State::done;
  unsigned mask = 0;                                  // of the warp barrier that it waits in
  unsigned exchanges = 0, block_barriers = 0, warp_barriers = 0;  // passed in this block; their parity picks one of two places
  bool leave = false;                                 // unwind instead of going on
  struct Copy {
    void* to;
    const void* from;
    size_t bytes;
    unsigned group;
  };
  std::deque<Copy> copies;
  unsigned copy_group = 0;
};

struct alignas(64) Warp {
  std::byte values[2][warp_lanes][exchange_bytes];
  unsigned alive = 0;    // lanes that have not ended
  char barrier_tokens[2];  // addresses that TSan knows the barriers by
};

struct Unwind {};

class Worker {
 public:
  Worker() { marks_.adopt_host(); }
  ~Worker() { drop_fibers(); }

  void launch(dim3 grid, dim3 block, const std::function<void()>& body, size_t shared_bytes);
  void sync_block();
  void warp_barrier(unsigned mask, bool orders_memory);
  std::byte* hand_over(unsigned mask, const void* value, size_t bytes);
  [[noreturn]] void fail(const std::string& what);

  alignas(128) unsigned char shared[227 << 10];

 private:
  void run_block(uint3 index, unsigned threads);
  void resume(Fiber& fiber);
  void yield(Fiber& fiber);
  void make_ready(Fiber& fiber);
  void release_block_barrier_when_full();
  void add_fibers(unsigned threads);
  void drop_fibers();
  void forever(Fiber& fiber);
  std::string describe_deadlock(unsigned threads) const;

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Warp> warps_;
  std::vector<std::vector<Fiber*>> ready_;  // for each warp
  std::vector<Fiber*> turn_;                // those of one warp that were ready when its turn came
  std::vector<unsigned> warp_order_;
  unsigned ready_count_ = 0, alive_ = 0, in_block_barrier_ = 0;
  const std::function<void()>* body_ = nullptr;
  std::mt19937 random_;
  std::exception_ptr error_;
  sanitizers::FiberMarks marks_;
  char block_tokens_[2], start_token_, end_token_;
};

Worker& worker() {
  static thread_local std::unique_ptr<Worker> mine;
  if (!mine) mine = std::make_unique<Worker>();
  return *mine;
}

Fiber& me() { return *static_cast<Fiber*>(current); }

std::string place_of(const Thread& thread) {
  const auto triple = [](uint3 at) { return "(" + std::to_string(at.x) + "," + std::to_string(at.y) + "," + std::to_string(at.z) + ")"; };
  return "block " + triple(thread.block) + " thread " + triple(thread.index);
}

void Worker::fail(const std::string& what) { throw Error(what + " at " + place_of(me())); }

void Worker::resume(Fiber& fiber) {
  current = &fiber;
  ++switches;
  sanitizers::enter(fiber.marks, marks_);
  fiber.self = std::move(fiber.self).resume();
  sanitizers::entered_host(marks_);
}

void Worker::yield(Fiber& fiber) {
  sanitizers::leave_to_host(fiber.marks, marks_);
  fiber.scheduler = std::move(fiber.scheduler).resume();
  sanitizers::entered_fiber(fiber.marks, marks_);
  if (fiber.leave) throw Unwind{};
}

void Worker::make_ready(Fiber& fiber) {
  fiber.state = State::ready;
  ready_[fiber.warp].push_back(&fiber);
  ++ready_count_;
}

void Worker::release_block_barrier_when_full() {
  if (alive_ == 0 || in_block_barrier_ != alive_) return;
  in_block_barrier_ = 0;
  for (const auto& fiber : fibers_) {
    if (fiber->state == State::in_block_barrier) make_ready(*fiber);
  }
}

// Two tokens for each kind of barrier: a fast thread must not hand what it does before its next barrier to a slow one still leaving this one.
void Worker::sync_block() {
  Fiber& fiber = me();
  char* token = &block_tokens_[fiber.block_barriers++ & 1];
  sanitizers::release(token);
  fiber.state = State::in_block_barrier;
  ++in_block_barrier_;
  release_block_barrier_when_full();
  yield(fiber);
  sanitizers::acquire(token);
}

void Worker::warp_barrier(unsigned mask, bool orders_memory) {
  Fiber& fiber = me();
  Warp& warp = warps_[fiber.warp];
  if ((mask >> fiber.lane & 1u) == 0) fail("warp barrier: the thread's own lane is not in the mask");
  if ((mask & warp.alive) != mask) fail("warp barrier: the mask names a lane that has ended or never was");
  char* token = &warp.barrier_tokens[fiber.warp_barriers & 1];
  if (orders_memory) {
    ++fiber.warp_barriers;
    sanitizers::release(token);
  }
  fiber.state = State::in_warp_barrier;
  fiber.mask = mask;
  unsigned waiting = 0;
  const auto lane = [&](unsigned i) -> Fiber& { return *fibers_[fiber.warp * warp_lanes + i]; };
  for (unsigned i = 0; i < warp_lanes; ++i) {
    if ((mask >> i & 1u) != 0 && lane(i).state == State::in_warp_barrier && lane(i).mask == mask) waiting |= 1u << i;
  }
  if (waiting == mask) {
    for (unsigned i = 0; i < warp_lanes; ++i) {
      if ((mask >> i & 1u) != 0 && i != fiber.lane) make_ready(lane(i));
    }
    fiber.state = State::ready;
    if (options.order != Order::forward) {  // forward: the last one in runs on at once
      make_ready(fiber);
      yield(fiber);
    }
  } else {
    yield(fiber);
  }
  if (orders_memory) sanitizers::acquire(token);
}

std::byte* Worker::hand_over(unsigned mask, const void* value, size_t bytes) {
  Fiber& fiber = me();
  auto& values = warps_[fiber.warp].values[fiber.exchanges++ & 1];
  sanitizers::unseen_copy(values[fiber.lane], value, bytes);
  warp_barrier(mask, false);
  return values[0];
}

std::string Worker::describe_deadlock(unsigned threads) const {
  unsigned in_block = 0, in_warp = 0;
  const Fiber *one_in_block = nullptr, *one_in_warp = nullptr;
  for (unsigned i = 0; i < threads; ++i) {
    const Fiber& fiber = *fibers_[i];
    if (fiber.state == State::in_block_barrier) ++in_block, one_in_block = &fiber;
    if (fiber.state == State::in_warp_barrier) ++in_warp, one_in_warp = &fiber;
  }
  std::string what = "deadlock: of " + std::to_string(alive_) + " threads " + std::to_string(in_block) + " wait in a block barrier, " +
                     std::to_string(in_warp) + " in a warp barrier";
  if (one_in_block != nullptr) what += "; block barrier: " + place_of(*one_in_block);
  if (one_in_warp != nullptr) what += "; warp barrier: " + place_of(*one_in_warp);
  return what;
}

void Worker::run_block(uint3 index, unsigned threads) {
  const unsigned warps = (threads + warp_lanes - 1) / warp_lanes;
  alive_ = threads;
  in_block_barrier_ = ready_count_ = 0;
  warp_order_.resize(warps);
  for (unsigned w = 0; w < warps; ++w) {
    ready_[w].clear();
    warps_[w].alive = 0;
    warp_order_[w] = options.order == Order::reverse ? warps - 1 - w : w;
  }
  if (options.order == Order::random) std::shuffle(warp_order_.begin(), warp_order_.end(), random_);
  for (unsigned i = 0; i < threads; ++i) {
    Fiber& fiber = *fibers_[i];
    const dim3& block = shape.block;
    fiber.index = {i % block.x, i / block.x % block.y, i / block.x / block.y};
    fiber.block = index;
    fiber.exchanges = fiber.block_barriers = fiber.warp_barriers = fiber.copy_group = 0;
    fiber.copies.clear();
    warps_[fiber.warp].alive |= 1u << fiber.lane;
    make_ready(fiber);
  }
  sanitizers::release(&start_token_);
  while (alive_ > 0) {
    if (ready_count_ == 0) {
      error_ = std::make_exception_ptr(Error(describe_deadlock(threads)));
      return;
    }
    const auto next = std::find_if(warp_order_.begin(), warp_order_.end(), [&](unsigned w) { return !ready_[w].empty(); });
    turn_.clear();
    turn_.swap(ready_[*next]);
    ready_count_ -= static_cast<unsigned>(turn_.size());
    if (options.order == Order::random) std::shuffle(turn_.begin(), turn_.end(), random_);
    if (options.order == Order::reverse) std::reverse(turn_.begin(), turn_.end());
    for (Fiber* fiber : turn_) {
      resume(*fiber);
      if (fiber->state == State::done) {
        --alive_;
        warps_[fiber->warp].alive &= ~(1u << fiber->lane);
        release_block_barrier_when_full();
      }
      if (error_) return;
    }
  }
  sanitizers::acquire(&end_token_);
}

// A fiber's whole life: one body after the other, a yield between them, until it is told to leave.
void Worker::forever(Fiber& fiber) {
  while (true) {
    if (fiber.leave) return;
    sanitizers::acquire(&start_token_);
    try {
      (*body_)();
      if (!fiber.copies.empty()) fail("a thread ends with an asynchronous copy that nobody waited for");
    } catch (const Unwind&) {
      return;
    } catch (...) {
      error_ = std::current_exception();
    }
    sanitizers::release(&end_token_);
    fiber.state = State::done;
    try {
      yield(fiber);
    } catch (const Unwind&) {
      return;
    }
  }
}

void Worker::add_fibers(unsigned threads) {
  const unsigned warps = (threads + warp_lanes - 1) / warp_lanes;
  if (warps_.size() < warps) {
    warps_.resize(warps);
    ready_.resize(warps);
    // Fibers add to these lists: no memory may change hands there, or the race checker would take it for the kernel's.
    for (auto& list : ready_) list.reserve(warp_lanes);
    turn_.reserve(warp_lanes);
  }
  while (fibers_.size() < threads) {
    const unsigned i = static_cast<unsigned>(fibers_.size());
    fibers_.push_back(std::make_unique<Fiber>());
    Fiber* fiber = fibers_.back().get();
    fiber->lane = i % warp_lanes;
    fiber->warp = i / warp_lanes;
    boost::context::protected_fixedsize_stack stacks(options.stack_bytes);
    auto stack = stacks.allocate();
    fiber->marks.adopt_fiber(static_cast<char*>(stack.sp) - stack.size, stack.size);
    fiber->self = boost::context::fiber(std::allocator_arg, boost::context::preallocated(stack.sp, stack.size, stack), stacks,
                                        [this, fiber](boost::context::fiber&& scheduler) {
                                          sanitizers::entered_first(marks_);
                                          fiber->scheduler = std::move(scheduler);
                                          forever(*fiber);
                                          sanitizers::release(&end_token_);
                                          sanitizers::leave_for_good(marks_);
                                          return std::move(fiber->scheduler);
                                        });
  }
}

void Worker::drop_fibers() {
  for (const auto& fiber : fibers_) {
    fiber->leave = true;
    if (fiber->self) resume(*fiber);
    fiber->marks.drop();
  }
  sanitizers::acquire(&end_token_);
  fibers_.clear();
  current = nullptr;
}

void Worker::launch(dim3 grid, dim3 block, const std::function<void()>& body, size_t shared_bytes) {
  const unsigned threads = block.x * block.y * block.z;
  const uint64_t blocks = uint64_t{grid.x} * grid.y * grid.z;
  if (threads == 0 || threads > 1024 || block.z > 64) throw Error("invalid launch: " + std::to_string(threads) + " threads a block");
  if (blocks == 0 || grid.y > 65535 || grid.z > 65535 || grid.x > 0x7fffffffu) throw Error("invalid launch: " + std::to_string(blocks) + " blocks");
  if (shared_bytes > options.max_shared_bytes) throw Error("invalid launch: " + std::to_string(shared_bytes) + " bytes of shared memory");
  std::vector<uint64_t> order(blocks);
  for (uint64_t i = 0; i < blocks; ++i) order[i] = options.order == Order::reverse ? blocks - 1 - i : i;
  random_.seed(options.seed);
  if (options.order == Order::random) std::shuffle(order.begin(), order.end(), random_);
  add_fibers(threads);
  body_ = &body;
  shape = {grid, block};
  for (const uint64_t i : order) {
    std::memset(shared, 0xff, shared_bytes);
    run_block({static_cast<unsigned>(i % grid.x), static_cast<unsigned>(i / grid.x % grid.y), static_cast<unsigned>(i / grid.x / grid.y)}, threads);
    if (error_) break;
  }
  current = nullptr;
  if (error_) {
    drop_fibers();
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
}

}  // namespace

void sync_block() { worker().sync_block(); }

void sync_warp(unsigned mask) { worker().warp_barrier(mask, true); }

void exchange(unsigned mask, const void* value, size_t bytes, unsigned from, void* out) {
  const std::byte* values = worker().hand_over(mask, value, bytes);
  if ((mask >> from & 1u) == 0) worker().fail("a shuffle reads a lane outside its mask");
  sanitizers::unseen_copy(out, values + from * exchange_bytes, bytes);
}

const std::byte* gather(unsigned mask, const void* value, size_t bytes) { return worker().hand_over(mask, value, bytes); }

void copy_async(void* to, const void* from, size_t bytes) { me().copies.push_back({to, from, bytes, me().copy_group}); }

void commit_copies() { ++me().copy_group; }

void wait_copies(unsigned groups_left) {
  Fiber& fiber = me();
  while (!fiber.copies.empty() && fiber.copies.front().group + groups_left < fiber.copy_group) {
    const Fiber::Copy& copy = fiber.copies.front();
    sanitizers::checked_copy(copy.to, copy.from, copy.bytes);
    fiber.copies.pop_front();
  }
}

unsigned char* dynamic_shared() { return worker().shared; }

void launch(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& body) { worker().launch(grid, block, body, shared_bytes); }

}  // namespace cuda_on_cpu
