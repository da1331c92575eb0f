// Memory, events and errors of the device, in types that clean up. Every error of the runtime that is not a lack of memory is DeviceLost: the
// runtime goes on answering it for as long as the process lives, so the process has to end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "engine/compute/backend.hpp"

#include <cuda_runtime.h>

namespace vigil::compute::cuda {

// Throws DeviceLost, with what was being done and the runtime's words, unless the outcome is success.
void need(cudaError_t outcome, const char* what);

// "cudaErrorUnknown: unknown error"
std::string words_of(cudaError_t error);

// "12.3 MiB"
std::string in_mib(uint64_t bytes);

class DeviceMemory {
 public:
  DeviceMemory() = default;
  // The error has numbers: bytes that were wanted, free and there in all.
  static Result<DeviceMemory> take(uint64_t bytes);
  DeviceMemory(DeviceMemory&& other) noexcept : address_(std::exchange(other.address_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceMemory();

  std::byte* get() const { return static_cast<std::byte*>(address_); }
  template <typename Value>
  Value* as() const {
    return static_cast<Value*>(address_);
  }
  uint64_t bytes() const { return bytes_; }

 private:
  void* address_ = nullptr;
  uint64_t bytes_ = 0;
};

// Host memory that copies reach without a detour.
class PinnedMemory {
 public:
  explicit PinnedMemory(size_t bytes);
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory();

  std::byte* get() const { return static_cast<std::byte*>(address_); }
  size_t bytes() const { return bytes_; }

 private:
  void* address_ = nullptr;
  size_t bytes_;
};

class Stream {
 public:
  Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event();
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  ~Event();
  void record(const Stream& stream);
  bool finished() const;  // whether all that the stream was given before the event is done

 private:
  cudaEvent_t event_ = nullptr;
};

// Launches that were recorded, ready to be given to the device in one call.
class Graph {
 public:
  static Result<Graph> make(cudaGraph_t recorded);
  Graph(Graph&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}
  Graph& operator=(Graph&&) = delete;
  ~Graph();
  void launch(const Stream& stream) const;

 private:
  Graph() = default;
  cudaGraphExec_t graph_ = nullptr;
};

// The device to compute on.
struct DeviceInfo {
  int index = 0;
  std::string name;  // "NVIDIA H200"
  int capability = 0;  // 90 for 9.0
  uint64_t memory_bytes = 0;
};
inline constexpr int least_capability = 75;  // what the kernels are compiled for, at least
// How many devices kernels of this build run on. An error says why none does, and what to do about it.
Result<int> usable_devices();
// One of these, from 0 on; it is made this thread's current one.
Result<DeviceInfo> choose_device(int number);

}  // namespace vigil::compute::cuda
