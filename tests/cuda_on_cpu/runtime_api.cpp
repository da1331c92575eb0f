// The emulated device: memory that is counted and bounded, streams and events that are always done, errors on demand.
#include "tests/cuda_on_cpu/runtime_api.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <unordered_map>

#include "tests/cuda_on_cpu/thread.hpp"

struct CUstream_st {};
struct CUevent_st {
  std::chrono::steady_clock::time_point recorded{};
};

namespace cuda_on_cpu {

Device device;

namespace {

struct Memory {
  std::mutex mutex;
  std::unordered_map<void*, size_t> device_blocks;
  std::set<void*> host_blocks;
  size_t device_bytes = 0;
};

Memory& memory() {
  static Memory all;
  return all;
}

std::atomic<size_t> copied_to_host = 0;
thread_local cudaError_t last_error = cudaSuccess;

cudaError_t answer(cudaError_t error) {
  if (device.sticky != cudaSuccess) error = device.sticky;
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

cudaError_t answer() { return answer(device.count > 0 ? cudaSuccess : cudaErrorNoDevice); }

// An own block for every request, so that AddressSanitizer sees a step over its end.
void* new_block(size_t bytes) {
  constexpr size_t alignment = 256;
  void* block = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (block != nullptr) std::memset(block, 0xff, bytes);
  return block;
}

cudaError_t ready() {
  if (device.unready_queries == 0) return answer();
  if (device.unready_queries > 0) --device.unready_queries;
  return answer(cudaErrorNotReady);
}

}  // namespace

size_t bytes_to_host() { return copied_to_host; }

size_t allocated_bytes() {
  const std::scoped_lock lock(memory().mutex);
  return memory().device_bytes;
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device.count;
  return answer();
}
cudaError_t cudaSetDevice(int index) { return index >= 0 && index < device.count ? answer() : answer(cudaErrorInvalidDevice); }
cudaError_t cudaGetDevice(int* index) {
  *index = 0;
  return answer();
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int index) {
  if (index < 0 || index >= device.count) return answer(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "CUDA on the CPU");
  properties->totalGlobalMem = device.memory_bytes;
  properties->sharedMemPerBlock = 48 << 10;
  properties->sharedMemPerBlockOptin = options.max_shared_bytes;
  properties->major = options.compute_capability / 10;
  properties->minor = options.compute_capability % 10;
  properties->multiProcessorCount = 4;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->l2CacheSize = 4 << 20;
  return answer();
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int index) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, index);
  if (error != cudaSuccess) return error;
  switch (attribute) {
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(properties.sharedMemPerBlockOptin); break;
    case cudaDevAttrMultiProcessorCount: *value = properties.multiProcessorCount; break;
    case cudaDevAttrComputeCapabilityMajor: *value = properties.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = properties.minor; break;
    default: return answer(cudaErrorInvalidValue);
  }
  return answer();
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = device.memory_bytes;
  *free = device.memory_bytes - std::min(allocated_bytes(), device.memory_bytes);
  return answer();
}
cudaError_t cudaDeviceSynchronize() { return answer(); }
cudaError_t cudaDeviceReset() { return answer(); }
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

cudaError_t cudaMalloc(void** address, size_t bytes) {
  *address = nullptr;
  if (const cudaError_t error = answer(); error != cudaSuccess || bytes == 0) return error;
  const std::scoped_lock lock(memory().mutex);
  if (bytes > device.memory_bytes || memory().device_bytes > device.memory_bytes - bytes) return answer(cudaErrorMemoryAllocation);
  *address = new_block(bytes);
  if (*address == nullptr) return answer(cudaErrorMemoryAllocation);
  memory().device_blocks[*address] = bytes;
  memory().device_bytes += bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* address) {
  if (address == nullptr) return answer();
  const std::scoped_lock lock(memory().mutex);
  const auto block = memory().device_blocks.find(address);
  if (block == memory().device_blocks.end()) return answer(cudaErrorInvalidValue);
  memory().device_bytes -= block->second;
  memory().device_blocks.erase(block);
  std::free(address);
  return answer();
}
cudaError_t cudaMallocHost(void** address, size_t bytes) { return cudaHostAlloc(address, bytes, cudaHostAllocDefault); }
cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned) {
  *address = nullptr;
  if (const cudaError_t error = answer(); error != cudaSuccess) return error;
  *address = new_block(bytes);
  if (*address == nullptr) return answer(cudaErrorMemoryAllocation);
  const std::scoped_lock lock(memory().mutex);
  memory().host_blocks.insert(*address);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* address) {
  if (address == nullptr) return answer();
  const std::scoped_lock lock(memory().mutex);
  if (memory().host_blocks.erase(address) == 0) return answer(cudaErrorInvalidValue);
  std::free(address);
  return answer();
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  if (const cudaError_t error = answer(); error != cudaSuccess) return error;
  if (kind == cudaMemcpyDeviceToHost) copied_to_host += bytes;
  if (bytes > 0) std::memmove(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) { return cudaMemcpyAsync(to, from, bytes, kind); }
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  if (const cudaError_t error = answer(); error != cudaSuccess) return error;
  if (bytes > 0) std::memset(to, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) { return cudaMemsetAsync(to, value, bytes); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  return answer();
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return answer();
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return answer(); }
cudaError_t cudaStreamQuery(cudaStream_t) { return ready(); }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return answer(); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return answer();
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return answer();
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  event->recorded = std::chrono::steady_clock::now();
  return answer();
}
cudaError_t cudaEventQuery(cudaEvent_t) { return ready(); }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return answer(); }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  *ms = std::chrono::duration<float, std::milli>(to->recorded - from->recorded).count();
  return answer();
}

cudaError_t cudaPeekAtLastError() { return device.sticky != cudaSuccess ? device.sticky : last_error; }
cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  last_error = cudaSuccess;
  return error;
}
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorUnknown: return "cudaErrorUnknown";
  }
  return "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
