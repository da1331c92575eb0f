// The emulation itself: what a device does right it does right, and what a device would hang or fail on is an error with the thread's place.
#include <catch2/catch.hpp>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <numeric>
#include <vector>

#include "emulation_support.hpp"
#include "engine/compute/cuda/launch.hpp"

using Catch::Matchers::Contains;
using vigil::compute::cuda::dynamic_shared;
using vigil::compute::cuda::launch;

namespace {

constexpr unsigned whole_warp = ~0u;

__global__ void reverse_block(const int* in, int* out) {
  __shared__ int held[96];
  const unsigned i = threadIdx.x + threadIdx.y * blockDim.x;
  held[i] = in[blockIdx.x * 96 + i];
  __syncthreads();
  out[blockIdx.x * 96 + i] = held[95 - i];
}

__global__ void sum_block(const int* in, int* out, int* total) {
  int* held = dynamic_shared<int>();
  held[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) held[threadIdx.x] += held[threadIdx.x + half];
  }
  if (threadIdx.x == 0) {
    out[blockIdx.x] = held[0];
    atomicAdd(total, held[0]);
  }
}

__global__ void shuffles(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  int* at = out + lane * 6;
  at[0] = __shfl_sync(whole_warp, lane, 5);
  at[1] = __shfl_sync(whole_warp, lane, 1, 8);
  at[2] = __shfl_xor_sync(whole_warp, lane, 3);
  at[3] = __shfl_down_sync(whole_warp, lane, 2, 16);
  at[4] = __shfl_up_sync(whole_warp, lane, 2, 16);
  at[5] = static_cast<int>(__ballot_sync(whole_warp, lane % 3 == 0));
}

__global__ void copy_ahead(const int* in, int* out) {
  __shared__ int held[2][32];
  for (unsigned i = 0; i < 2; ++i) {
    cuda_on_cpu::copy_async(&held[i][threadIdx.x], in + i * 32 + threadIdx.x, sizeof(int));
    cuda_on_cpu::commit_copies();
  }
  cuda_on_cpu::wait_copies(1);
  __syncwarp();
  out[threadIdx.x] = held[0][31 - threadIdx.x];
  cuda_on_cpu::wait_copies(0);
  __syncwarp();
  out[32 + threadIdx.x] = held[1][31 - threadIdx.x];
}

__global__ void some_miss_the_barrier(int* out) {
  if (threadIdx.x < 40) __syncthreads();
  else __syncwarp(threadIdx.x < 64 ? 0xffu << 8 : whole_warp);
  out[threadIdx.x] = 1;
}
__global__ void half_a_warp_shuffles_for_all(int* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_xor_sync(whole_warp, 1, 1);
}
__global__ void lanes_part(int* out) {
  if (threadIdx.x < 16) __syncthreads();
  else out[threadIdx.x] = __shfl_xor_sync(whole_warp, 1, 1);
}
__global__ void reads_outside_the_mask(int* out) {
  if (threadIdx.x < 8) out[threadIdx.x] = __shfl_sync(0xffu, 1, 9);
}
__global__ void forgets_a_copy(const int* in, int* out) {
  cuda_on_cpu::copy_async(out, in, 4);
  cuda_on_cpu::commit_copies();
}
__global__ void nothing(int*) {}

std::vector<int> counted(size_t count) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), 1);
  return values;
}

}  // namespace

TEST_CASE("barriers, shared memory, atomics: every order gives what a device gives") {
  in_every_order([] {
    const std::vector<int> in = counted(960);
    const DeviceArray<int> from(in), to(in.size());
    launch(reverse_block, 10, dim3(32, 3), 0, nullptr, from.get(), to.get());
    const std::vector<int> out = to.to_host();
    for (size_t i = 0; i < out.size(); ++i) REQUIRE(out[i] == in[i / 96 * 96 + 95 - i % 96]);

    const DeviceArray<int> sums(15), total(std::vector<int>{0});
    launch(sum_block, 15, 64, 64 * sizeof(int), nullptr, from.get(), sums.get(), total.get());
    REQUIRE(sums.to_host()[1] == (65 + 128) * 32);
    REQUIRE(total.to_host()[0] == 961 * 480);
  });
}

TEST_CASE("shuffles name lanes as the device does") {
  in_every_order([] {
    const DeviceArray<int> to(32 * 6);
    launch(shuffles, 1, 32, 0, nullptr, to.get());
    const std::vector<int> out = to.to_host();
    unsigned every_third = 0;
    for (unsigned lane = 0; lane < 32; lane += 3) every_third |= 1u << lane;
    for (int lane = 0; lane < 32; ++lane) {
      const int* at = &out[static_cast<size_t>(lane) * 6];
      REQUIRE(at[0] == 5);
      REQUIRE(at[1] == lane / 8 * 8 + 1);
      REQUIRE(at[2] == (lane ^ 3));
      REQUIRE(at[3] == (lane % 16 < 14 ? lane + 2 : lane));
      REQUIRE(at[4] == (lane % 16 >= 2 ? lane - 2 : lane));
      REQUIRE(static_cast<unsigned>(at[5]) == every_third);
    }
  });
}

TEST_CASE("asynchronous copies arrive when they are waited for") {
  in_every_order([] {
    const DeviceArray<int> from(counted(64)), to(64);
    launch(copy_ahead, 1, 32, 0, nullptr, from.get(), to.get());
    const std::vector<int> out = to.to_host();
    for (int i = 0; i < 64; ++i) REQUIRE(out[static_cast<size_t>(i)] == i / 32 * 32 + 32 - i % 32);
  });
}

TEST_CASE("faults of kernels and launches are errors, and the next launch works") {
  in_every_order([] {
    const DeviceArray<int> to(64), from(counted(64));
    CHECK_THROWS_WITH(launch(half_a_warp_shuffles_for_all, 1, 16, 0, nullptr, to.get()), Contains("mask names a lane"));
    CHECK_THROWS_WITH(launch(some_miss_the_barrier, 1, 64, 0, nullptr, to.get()), Contains("own lane is not in the mask"));
    CHECK_THROWS_WITH(launch(lanes_part, 1, 32, 0, nullptr, to.get()), Contains("deadlock") && Contains("16 wait in a block barrier, 16 in a warp"));
    CHECK_THROWS_WITH(launch(reads_outside_the_mask, 1, 32, 0, nullptr, to.get()), Contains("outside its mask"));
    CHECK_THROWS_WITH(launch(forgets_a_copy, 1, 1, 0, nullptr, from.get(), to.get()), Contains("nobody waited for"));
    CHECK_THROWS_WITH(launch(nothing, 1, 1025, 0, nullptr, to.get()), Contains("threads a block"));
    CHECK_THROWS_WITH(launch(nothing, 0, 32, 0, nullptr, to.get()), Contains("0 blocks"));
    CHECK_THROWS_WITH(launch(nothing, 1, 32, size_t{1} << 20, nullptr, to.get()), Contains("shared memory"));
    launch(shuffles, 1, 32, 0, nullptr, DeviceArray<int>(192).get());
  });
}

TEST_CASE("integer intrinsics") {
  CHECK(__dp4a(int(0x80ff027fu), int(0x7f03fe02u), 10) == -128 * 127 + -1 * 3 + 2 * -2 + 127 * 2 + 10);
  CHECK(__dp4a(0x80ff027fu, 0x7f03fe02u, 10u) == 128u * 127 + 255 * 3 + 2 * 254 + 127 * 2 + 10);
  CHECK(__byte_perm(0x33221100u, 0x77665544u, 0x7250u) == 0x77225500u);
  CHECK(__byte_perm(0x80u, 0, 0x9888u) == 0x00ffffffu);
  CHECK(__float2int_rn(2.5f) == 2);
  CHECK(__float2int_rn(-3.5f) == -4);
  CHECK(__half2float(__float2half(1.0f / 3)) == 0.333251953125f);
  CHECK(__float2bfloat16(1.0f / 3).bits == 0x3eab);
  CHECK(__bfloat162float(__nv_bfloat16{0x3eab}) == 0.333984375f);
}

TEST_CASE("the device counts its memory and answers errors on demand") {
  using cuda_on_cpu::device;
  const cuda_on_cpu::Device before = device;
  const size_t used = cuda_on_cpu::allocated_bytes();
  device.memory_bytes[0] = used + 1000;
  void* block = nullptr;
  CHECK(cudaMalloc(&block, 1001) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  REQUIRE(cudaMalloc(&block, 600) == cudaSuccess);
  size_t free = 0, total = 0;
  CHECK(cudaMemGetInfo(&free, &total) == cudaSuccess);
  CHECK(free == 400);
  CHECK(total == used + 1000);
  CHECK(cudaFree(block) == cudaSuccess);
  cudaEvent_t event = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  device.unready_queries = 2;
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  CHECK(cudaEventQuery(event) == cudaSuccess);
  device.sticky = cudaErrorIllegalAddress;
  CHECK(cudaEventRecord(event) == cudaErrorIllegalAddress);
  CHECK(cudaMemset(&free, 0, sizeof free) == cudaErrorIllegalAddress);
  device = before;
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
  CHECK(cudaEventDestroy(event) == cudaSuccess);
}
