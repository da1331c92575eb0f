// The emulated device: memory that is counted and bounded, streams and events that are always done, errors on demand.
#include "tests/cuda_on_cpu/runtime_api.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "tests/cuda_on_cpu/scheduler.hpp"

struct CUgraph_st {
  std::vector<std::function<void()>> work;
};
struct CUgraphExec_st {
  std::vector<std::function<void()>> work;
};
struct CUstream_st {
  int device = 0;
  CUgraph_st* recorded = nullptr;  // while it records
  bool invalid = false;            // something was done that no graph can hold
};
struct CUevent_st {
  int device = 0;
  std::chrono::steady_clock::time_point recorded{};
};

namespace cuda_on_cpu {

Device device;
Tally tally;

namespace {

struct Memory {
  std::mutex mutex;
  struct Block {
    int device;
    size_t bytes;
  };
  std::map<const void*, Block, std::less<>> device_blocks;
  std::set<void*> host_blocks;
  std::array<size_t, most_devices> device_bytes{};

  // Whose memory an address is; nothing for the host's.
  std::optional<int> device_of(const void* address) {
    const std::scoped_lock lock(mutex);
    auto block = device_blocks.upper_bound(address);
    if (block == device_blocks.begin()) return std::nullopt;
    --block;
    const auto offset = static_cast<const std::byte*>(address) - static_cast<const std::byte*>(block->first);
    return static_cast<size_t>(offset) < block->second.bytes ? std::optional(block->second.device) : std::nullopt;
  }
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

thread_local int current_device = 0;  // device of this thread

// A copy on a stream reaches its own device and the host.
bool reaches(cudaStream_t stream, const void* address) {
  return memory().device_of(address).value_or(stream != nullptr ? stream->device : current_device) == (stream != nullptr ? stream->device : current_device);
}

thread_local CUstream_st* recording = nullptr;  // a stream that this thread records

// Where a call may not be made while the thread records.
cudaError_t not_while_recording() {
  if (recording == nullptr) return answer();
  recording->invalid = true;
  return answer(cudaErrorStreamCaptureUnsupported);
}

// An own block for every request, so that AddressSanitizer sees a step over its end.
void* new_block(size_t bytes) {
  constexpr size_t alignment = 256;
  void* block = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (block != nullptr) std::memset(block, 0xff, bytes);
  return block;
}

// Does it now, or keeps it where the stream records.
void give(cudaStream_t stream, std::function<void()> work) {
  if (stream != nullptr && stream->recorded != nullptr) stream->recorded->work.push_back(std::move(work));
  else work();
}

cudaError_t ready() {
  if (const cudaError_t error = not_while_recording(); error != cudaSuccess) return error;
  if (device.unready_queries == 0) return answer();
  if (device.unready_queries > 0) --device.unready_queries;
  return answer(cudaErrorNotReady);
}

}  // namespace

size_t bytes_to_host() { return copied_to_host; }

size_t allocated_bytes(int of) {
  const std::scoped_lock lock(memory().mutex);
  return memory().device_bytes[static_cast<size_t>(of)];
}

void launch(cudaStream_t stream, dim3 grid, dim3 block, size_t shared_bytes, std::function<void()> body) {
  if (stream != nullptr && stream->device != current_device) return static_cast<void>(answer(cudaErrorInvalidResourceHandle));
  if (stream == nullptr || stream->recorded == nullptr) return launch(grid, block, shared_bytes, body);
  give(stream, [grid, block, shared_bytes, body = std::move(body)] { launch(grid, block, shared_bytes, body); });
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device.count;
  return answer();
}
cudaError_t cudaSetDevice(int index) {
  if (const cudaError_t error = answer(); error != cudaSuccess) return error;
  if (index < 0 || index >= device.count) return answer(cudaErrorInvalidDevice);
  current_device = index;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* index) {
  *index = current_device;
  return answer();
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int index) {
  if (index < 0 || index >= device.count) return answer(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "CUDA on the CPU");
  properties->totalGlobalMem = device.memory_bytes[static_cast<size_t>(index)];
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
  *total = device.memory_bytes[static_cast<size_t>(current_device)];
  *free = *total - std::min(allocated_bytes(current_device), *total);
  return answer();
}
cudaError_t cudaDeviceSynchronize() { return not_while_recording(); }
cudaError_t cudaDeviceReset() { return answer(); }
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

cudaError_t cudaMalloc(void** address, size_t bytes) {
  *address = nullptr;
  if (const cudaError_t error = not_while_recording(); error != cudaSuccess || bytes == 0) return error;
  const std::scoped_lock lock(memory().mutex);
  const size_t all = device.memory_bytes[static_cast<size_t>(current_device)];
  size_t& taken = memory().device_bytes[static_cast<size_t>(current_device)];
  if (bytes > all || taken > all - bytes) return answer(cudaErrorMemoryAllocation);
  *address = new_block(bytes);
  if (*address == nullptr) return answer(cudaErrorMemoryAllocation);
  memory().device_blocks[*address] = {current_device, bytes};
  taken += bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* address) {
  if (const cudaError_t error = not_while_recording(); error != cudaSuccess || address == nullptr) return error;
  const std::scoped_lock lock(memory().mutex);
  const auto block = memory().device_blocks.find(address);
  if (block == memory().device_blocks.end()) return answer(cudaErrorInvalidValue);
  memory().device_bytes[static_cast<size_t>(block->second.device)] -= block->second.bytes;
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
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (const cudaError_t error = answer(); error != cudaSuccess || bytes == 0) return error;
  if (!reaches(stream, to) || !reaches(stream, from)) return answer(cudaErrorInvalidValue);
  if (kind == cudaMemcpyDeviceToHost) copied_to_host += bytes;
  give(stream, [=] { std::memmove(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (const cudaError_t error = not_while_recording(); error != cudaSuccess) return error;
  return cudaMemcpyAsync(to, from, bytes, kind);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = answer(); error != cudaSuccess || bytes == 0) return error;
  if (!reaches(stream, to)) return answer(cudaErrorInvalidValue);
  give(stream, [=] { std::memset(to, value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) { return cudaMemsetAsync(to, value, bytes); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st{current_device};
  return answer();
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return answer();
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return not_while_recording(); }
cudaError_t cudaStreamQuery(cudaStream_t) { return ready(); }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return answer(); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st{current_device};
  return answer();
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return answer();
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (event->device != (stream != nullptr ? stream->device : current_device)) return answer(cudaErrorInvalidResourceHandle);
  give(stream, [=] { event->recorded = std::chrono::steady_clock::now(); });
  return answer();
}
cudaError_t cudaEventQuery(cudaEvent_t) { return ready(); }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return not_while_recording(); }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  *ms = std::chrono::duration<float, std::milli>(to->recorded - from->recorded).count();
  return answer();
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (const cudaError_t error = not_while_recording(); error != cudaSuccess) return error;
  stream->recorded = new CUgraph_st;
  stream->invalid = false;
  recording = stream;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = std::exchange(stream->recorded, nullptr);
  if (*graph == nullptr) return answer(cudaErrorInvalidValue);
  recording = nullptr;
  if (!stream->invalid) return answer();
  delete std::exchange(*graph, nullptr);
  return answer(cudaErrorStreamCaptureInvalidated);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  *made = nullptr;
  if (const cudaError_t error = answer(device.graphs); error != cudaSuccess) return error;
  *made = new CUgraphExec_st{graph->work};
  ++tally.graphs_made;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  if (const cudaError_t error = answer(); error != cudaSuccess) return error;
  ++tally.graphs_launched;
  for (const std::function<void()>& work : graph->work) give(stream, work);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return answer();
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  ++tally.graphs_gone;
  delete graph;
  return answer();
}

cudaError_t cudaPeekAtLastError() {
  const cudaError_t sticky = device.sticky;
  return sticky != cudaSuccess ? sticky : last_error;
}
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
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorUnknown: return "cudaErrorUnknown";
  }
  return "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
