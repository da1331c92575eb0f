// The model's weights on the device: room for each is taken when it is bound, the bytes follow at the end of loading, through pinned memory.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "engine/compute/backend.hpp"
#include "engine/compute/cuda/device.hpp"
#include "engine/compute/cuda/progress.hpp"

namespace vigil::compute::cuda {

class WeightStore {
 public:
  WeightStore();
  ~WeightStore();
  // As Backend::bind. Weight::address is the device's; what products and embed take is arranged (products.hpp) and has `packed` too, in a type that
  // they have kernels for: another type becomes F16. What ops use by values becomes floats.
  Result<Weight> bind(std::string_view tensor_name, gguf::TensorType type, int64_t rows, int64_t cols, std::span<const std::byte> bytes, WeightUse use);
  // As Backend::bind_slots and fill_slots. What products take has whole groups of 8 rows in a slot, or is refused.
  Result<Weight> bind_slots(std::string_view tensor_name, gguf::TensorType type, int64_t slots, int64_t rows, int64_t cols, WeightUse use);
  void fill_slots(const Stream& stream, const Clock& clock, const Weight& slots, int64_t first_row, std::span<const std::byte> bytes);
  // As Backend::prepare.
  bool upload(const Stream& stream, const Clock& clock, const std::function<bool(double)>& progress,
              const std::function<void(std::span<const std::byte>)>& release);
  uint64_t file_bytes() const { return file_bytes_; }              // of all that was bound, each tensor once
  std::vector<std::string> converted() const;                      // types that became F16, and how many tensors of each
  gguf::TensorType kept_as(gguf::TensorType type, WeightUse use) const;
  uint64_t bytes_kept(gguf::TensorType type, int64_t rows, int64_t cols, WeightUse use) const;

 private:
  struct Entry {
    Weight weight;  // on the device
    gguf::TensorType file_type;
    size_t file_row_bytes;
    std::span<const std::byte> bytes;  // none of slots
    DeviceMemory memory;
  };
  // Two pieces of pinned memory in turn, and those who fill them.
  class Sender;
  // Device bytes of rows [0, rows) of an entry's form.
  static size_t bytes_of(const Weight& weight, int64_t rows);
  static void make_rows(const Entry& entry, const std::byte* file_rows, int64_t count, std::byte* out);
  Result<Weight> take(std::string_view tensor_name, gguf::TensorType type, int64_t rows, int64_t cols, size_t row_bytes, std::span<const std::byte> bytes,
                      WeightUse use);
  Sender& sender(const Stream& stream);

  std::vector<Entry> entries_;
  std::map<std::tuple<const std::byte*, bool, int64_t>, size_t> places_;  // data, whether by values, rows: an embedding may be the output too
  std::map<const std::byte*, size_t> slots_;  // by the weight's address
  std::unique_ptr<Sender> sender_;  // while there is something to send: to slots always
  std::map<gguf::TensorType, int> converted_;
  uint64_t file_bytes_ = 0;
};

}  // namespace vigil::compute::cuda
