// Calls of the CUDA runtime that take and give back what the device has.
#include "engine/compute/cuda/device.hpp"

#include <cstdio>
#include <vector>

namespace vigil::compute::cuda {

std::string words_of(cudaError_t error) { return std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error); }

void need(cudaError_t outcome, const char* what) {
  if (outcome != cudaSuccess) throw DeviceLost(std::string("CUDA device: ") + what + " failed: " + words_of(outcome));
}

std::string in_mib(uint64_t bytes) {
  char text[48];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

Result<DeviceMemory> DeviceMemory::take(uint64_t bytes) {
  DeviceMemory memory;
  const cudaError_t outcome = cudaMalloc(&memory.address_, bytes > 0 ? bytes : 1);
  if (outcome == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // this one is no lasting error
    memory.address_ = nullptr;
    size_t free_bytes = 0, all = 0;
    need(cudaMemGetInfo(&free_bytes, &all), "asking for free memory");
    return Error{"device memory: " + in_mib(bytes) + " wanted, " + in_mib(free_bytes) + " free of " + in_mib(all)};
  }
  need(outcome, "taking memory");
  memory.bytes_ = bytes;
  return memory;
}

DeviceMemory::~DeviceMemory() {
  if (address_ != nullptr) static_cast<void>(cudaFree(address_));  // a lost device frees nothing, and nothing can be done about it
}

PinnedMemory::PinnedMemory(size_t bytes) : bytes_(bytes) { need(cudaMallocHost(&address_, bytes), "taking pinned memory"); }
PinnedMemory::~PinnedMemory() { static_cast<void>(cudaFreeHost(address_)); }

Stream::Stream() { need(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream"); }
Stream::~Stream() { static_cast<void>(cudaStreamDestroy(stream_)); }

Event::Event() { need(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event"); }
Event::~Event() {
  if (event_ != nullptr) static_cast<void>(cudaEventDestroy(event_));
}
void Event::record(const Stream& stream) { need(cudaEventRecord(event_, stream.get()), "recording an event"); }
bool Event::finished() const {
  const cudaError_t outcome = cudaEventQuery(event_);
  if (outcome == cudaErrorNotReady) return false;
  need(outcome, "a kernel or copy");
  return true;
}

Result<Graph> Graph::make(cudaGraph_t recorded) {
  Graph graph;
  if (const cudaError_t outcome = cudaGraphInstantiate(&graph.graph_, recorded, 0); outcome != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    graph.graph_ = nullptr;
    return Error{"making a graph failed: " + words_of(outcome)};
  }
  return graph;
}
Graph::~Graph() {
  if (graph_ != nullptr) static_cast<void>(cudaGraphExecDestroy(graph_));
}
void Graph::launch(const Stream& stream) const { need(cudaGraphLaunch(graph_, stream.get()), "launching a graph"); }

namespace {

// Those that kernels of this build run on, and what is wrong with the others.
struct Devices {
  std::vector<DeviceInfo> usable;
  std::string refused;
};

Result<Devices> look_at_devices() {
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted != cudaSuccess || count == 0) {
    return Error{"no usable device: " + (counted == cudaSuccess ? std::string("none is visible") : words_of(counted)) +
                 "; check that nvidia-smi lists one and that its driver is as new as this build's CUDA"};
  }
  Devices devices;
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties;
    if (const cudaError_t asked = cudaGetDeviceProperties(&properties, index); asked != cudaSuccess) {
      devices.refused += "; device " + std::to_string(index) + ": " + words_of(asked);
      continue;
    }
    const DeviceInfo info{index, properties.name, 10 * properties.major + properties.minor, properties.totalGlobalMem};
    if (info.capability < least_capability) {
      devices.refused += "; " + info.name + " has compute capability " + std::to_string(properties.major) + "." + std::to_string(properties.minor) + ", 7.5 is needed";
      continue;
    }
    devices.usable.push_back(info);
  }
  if (devices.usable.empty()) return Error{"no usable device" + devices.refused};
  return devices;
}

}  // namespace

Result<int> usable_devices() {
  const Result<Devices> devices = look_at_devices();
  if (!devices) return Error{devices.error()};
  return static_cast<int>(devices->usable.size());
}

Result<DeviceInfo> choose_device(int number) {
  const Result<Devices> devices = look_at_devices();
  if (!devices) return Error{devices.error()};
  if (number < 0 || static_cast<size_t>(number) >= devices->usable.size()) {
    return Error{"no usable device " + std::to_string(number) + ": there are " + std::to_string(devices->usable.size()) + devices->refused};
  }
  const DeviceInfo& info = devices->usable[static_cast<size_t>(number)];
  if (const cudaError_t chosen = cudaSetDevice(info.index); chosen != cudaSuccess) return Error{"no usable device: " + info.name + ": " + words_of(chosen)};
  return info;
}

}  // namespace vigil::compute::cuda
