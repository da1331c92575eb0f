// Prints how many GB/s (10^9 bytes read and written) the device copies within its memory: the ceiling that decoding is measured by.
#include <cuda_runtime.h>

#include <cstdio>

namespace {

bool fine(cudaError_t outcome) {
  if (outcome != cudaSuccess) std::fprintf(stderr, "device_copy: %s\n", cudaGetErrorString(outcome));
  return outcome == cudaSuccess;
}

}  // namespace

int main() {
  constexpr size_t bytes = size_t{1} << 30;
  constexpr int rounds = 20;
  void *from = nullptr, *to = nullptr;
  cudaEvent_t start, end;
  if (!fine(cudaMalloc(&from, bytes)) || !fine(cudaMalloc(&to, bytes)) || !fine(cudaEventCreate(&start)) || !fine(cudaEventCreate(&end))) return 1;
  float best_ms = 1e9f;
  for (int round = 0; round < rounds; ++round) {
    float ms = 0;
    if (!fine(cudaEventRecord(start)) || !fine(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice)) || !fine(cudaEventRecord(end)) ||
        !fine(cudaEventSynchronize(end)) || !fine(cudaEventElapsedTime(&ms, start, end))) {
      return 1;
    }
    best_ms = ms < best_ms ? ms : best_ms;
  }
  std::printf("%.1f\n", 2.0 * bytes / best_ms / 1e6);
  return 0;
}
