// Orders in which tests run kernels, and device memory that frees itself.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/cuda_on_cpu/thread.hpp"

// Runs `body` in forward, reverse and two random orders; the options are as before afterwards.
template <typename Body>
void in_every_order(Body&& body) {
  using cuda_on_cpu::Order;
  const cuda_on_cpu::Options before = cuda_on_cpu::options;
  struct Restore {
    const cuda_on_cpu::Options& options;
    ~Restore() { cuda_on_cpu::options = options; }
  } restore{before};
  for (const auto& [order, seed] : {std::pair{Order::forward, 1u}, {Order::reverse, 1u}, {Order::random, 11u}, {Order::random, 12u}}) {
    cuda_on_cpu::options.order = order;
    cuda_on_cpu::options.seed = seed;
    body();
  }
}

// Memory on the device for `count` values: NaN, or a copy of some on the host.
template <typename Value>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : count_(count) {
    if (cudaMalloc(&address_, count * sizeof(Value)) != cudaSuccess) throw std::runtime_error("no memory for " + std::to_string(count) + " values");
  }
  explicit DeviceArray(const std::vector<Value>& values) : DeviceArray(values.size()) {
    cudaMemcpy(address_, values.data(), count_ * sizeof(Value), cudaMemcpyHostToDevice);
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(address_); }

  Value* get() const { return address_; }
  std::vector<Value> to_host() const {
    std::vector<Value> values(count_);
    cudaMemcpy(values.data(), address_, count_ * sizeof(Value), cudaMemcpyDeviceToHost);
    return values;
  }

 private:
  Value* address_ = nullptr;
  size_t count_;
};
