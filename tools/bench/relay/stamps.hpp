// Moments that the fake engine notes and the client reads: a file that both map, all on CLOCK_MONOTONIC. Not here: what is made of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace bench {

inline uint64_t now_ns() {
  timespec at{};
  clock_gettime(CLOCK_MONOTONIC, &at);
  return static_cast<uint64_t>(at.tv_sec) * 1'000'000'000ull + static_cast<uint64_t>(at.tv_nsec);
}

struct Stamps {
  static constexpr uint64_t max_tokens = 1 << 18, max_stops = 1 << 14;
  std::atomic<uint64_t> begin_ns;                // a flood's first write
  std::atomic<uint64_t> tokens;                  // paced tokens written, over all requests
  std::atomic<uint64_t> stops;                   // STOP lines read
  uint64_t token_ns[max_tokens];                 // just before the write
  uint64_t stop_ns[max_stops];                   // just after the read
};

inline Stamps* map_stamps(const char* path) {
  const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  void* memory = MAP_FAILED;
  if (file >= 0 && ftruncate(file, sizeof(Stamps)) == 0) memory = mmap(nullptr, sizeof(Stamps), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) {
    std::perror(path);
    std::exit(1);
  }
  close(file);
  return static_cast<Stamps*>(memory);
}

}  // namespace bench
