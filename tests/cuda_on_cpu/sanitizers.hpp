// What AddressSanitizer and ThreadSanitizer must be told about fibers, one function for each moment of a switch; nothing in other builds.
// Private to the scheduler, which is compiled without ThreadSanitizer's own checks.
#pragma once

#include <cstddef>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef VIGIL_CUDA_ON_CPU_TSAN
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void __tsan_read_range(void* address, unsigned long bytes);
void __tsan_write_range(void* address, unsigned long bytes);
}
#endif

namespace cuda_on_cpu::sanitizers {

struct FiberMarks {
  const void* stack = nullptr;  // lowest address
  size_t stack_bytes = 0;
  void* fake_stack = nullptr;
  void* tsan = nullptr;

  void adopt_host() {
#ifdef VIGIL_CUDA_ON_CPU_TSAN
    tsan = __tsan_get_current_fiber();
#endif
  }
  void adopt_fiber(const void* lowest, size_t bytes) {
    stack = lowest;
    stack_bytes = bytes;
#ifdef VIGIL_CUDA_ON_CPU_TSAN
    tsan = __tsan_create_fiber(0);
#endif
  }
  void drop() {
#ifdef VIGIL_CUDA_ON_CPU_TSAN
    __tsan_destroy_fiber(tsan);
#endif
  }
};

inline constexpr unsigned no_sync = 1;  // a switch orders nothing: only barriers do

// The host is about to resume a fiber.
inline void enter([[maybe_unused]] FiberMarks& fiber, [[maybe_unused]] FiberMarks& host) {
#ifdef VIGIL_CUDA_ON_CPU_TSAN
  __tsan_switch_to_fiber(fiber.tsan, no_sync);
#endif
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&host.fake_stack, fiber.stack, fiber.stack_bytes);
#endif
}
// The host runs again.
inline void entered_host([[maybe_unused]] FiberMarks& host) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(host.fake_stack, nullptr, nullptr);
#endif
}
// A fiber is about to resume the host, and will come back.
inline void leave_to_host([[maybe_unused]] FiberMarks& fiber, [[maybe_unused]] FiberMarks& host) {
#ifdef VIGIL_CUDA_ON_CPU_TSAN
  __tsan_switch_to_fiber(host.tsan, no_sync);
#endif
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&fiber.fake_stack, host.stack, host.stack_bytes);
#endif
}
// A fiber came back.
inline void entered_fiber([[maybe_unused]] FiberMarks& fiber, [[maybe_unused]] FiberMarks& host) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fiber.fake_stack, &host.stack, &host.stack_bytes);
#endif
}
// A fiber runs for the first time: from here the host's stack is known.
inline void entered_first([[maybe_unused]] FiberMarks& host) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(nullptr, &host.stack, &host.stack_bytes);
#endif
}
// A fiber is about to end.
inline void leave_for_good([[maybe_unused]] FiberMarks& host) {
#ifdef VIGIL_CUDA_ON_CPU_TSAN
  __tsan_switch_to_fiber(host.tsan, no_sync);
#endif
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(nullptr, host.stack, host.stack_bytes);
#endif
}

inline void acquire([[maybe_unused]] void* token) {
#ifdef VIGIL_CUDA_ON_CPU_TSAN
  __tsan_acquire(token);
#endif
}
inline void release([[maybe_unused]] void* token) {
#ifdef VIGIL_CUDA_ON_CPU_TSAN
  __tsan_release(token);
#endif
}

// A copy that no sanitizer sees: ThreadSanitizer looks into memcpy even where a file is compiled without it.
inline void unseen_copy(void* to, const void* from, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    static_cast<char*>(to)[i] = static_cast<const char*>(from)[i];
    asm volatile("" ::: "memory");
  }
}

// A copy that the kernel made, seen by the race checker though this file is not.
inline void checked_copy(void* to, const void* from, size_t bytes) {
#ifdef VIGIL_CUDA_ON_CPU_TSAN
  __tsan_read_range(const_cast<void*>(from), bytes);
  __tsan_write_range(to, bytes);
#endif
  unseen_copy(to, from, bytes);
}

}  // namespace cuda_on_cpu::sanitizers
