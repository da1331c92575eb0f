// Two pieces of pinned memory in turn: one is filled from the file, by all cores, while the other is copied to the device.
#include "engine/compute/cuda/weight_store.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/compute/cpu/cores.hpp"
#include "engine/compute/cpu/dequantise.hpp"
#include "engine/compute/cpu/half.hpp"
#include "engine/compute/cpu/worker_team.hpp"
#include "engine/compute/cuda/products.hpp"

namespace vigil::compute::cuda {
namespace {

constexpr size_t piece_bytes = size_t{16} << 20;
constexpr int most_threads = 16;  // more read no faster

}  // namespace

gguf::TensorType WeightStore::kept_as(gguf::TensorType type, WeightUse use) const {
  if (use == WeightUse::values) return gguf::TensorType::f32;
  return has_product_kernel(type) ? type : gguf::TensorType::f16;
}

uint64_t WeightStore::bytes_kept(gguf::TensorType type, int64_t rows, int64_t cols, WeightUse use) const {
  return use == WeightUse::values ? static_cast<uint64_t>(rows * cols) * sizeof(float) : arranged_bytes(kept_as(type, use), rows, cols);
}

size_t WeightStore::bytes_of(const Weight& weight, int64_t rows) {
  return weight.packed != nullptr ? arranged_bytes(weight.type, rows, weight.cols) : static_cast<size_t>(rows * weight.cols) * sizeof(float);
}

Result<Weight> WeightStore::bind(std::string_view tensor_name, gguf::TensorType type, int64_t rows, int64_t cols, std::span<const std::byte> bytes,
                                 WeightUse use) {
  const Result<size_t> row_bytes = cpu::row_bytes_of(tensor_name, type, rows, cols, bytes.size());
  if (!row_bytes) return Error{row_bytes.error()};
  const bool by_values = use == WeightUse::values;
  const std::tuple key(bytes.data(), by_values, rows);
  if (const auto known = places_.find(key); known != places_.end()) return entries_[known->second].weight;
  const gguf::TensorType kept = kept_as(type, use);
  Weight weight{kept, rows, cols, 0, nullptr};
  const size_t wanted = bytes_kept(type, rows, cols, use);
  Result<DeviceMemory> memory = DeviceMemory::take(wanted);
  if (!memory) return Error{"tensor '" + std::string(tensor_name) + "': " + memory.error()};
  weight.address = memory->get();
  weight.packed = by_values ? nullptr : memory->get();
  weight.row_bytes = wanted / static_cast<size_t>(rows);
  if (!by_values && kept != type) ++converted_[type];
  file_bytes_ += *row_bytes * static_cast<size_t>(rows);
  places_.emplace(key, entries_.size());
  entries_.push_back({weight, type, *row_bytes, bytes.first(*row_bytes * static_cast<size_t>(rows)), std::move(*memory)});
  return weight;
}

void WeightStore::make_rows(const Entry& entry, int64_t first, int64_t count, std::byte* out) {
  const int64_t cols = entry.weight.cols;
  const std::byte* rows = entry.bytes.data() + static_cast<size_t>(first) * entry.file_row_bytes;
  if (entry.weight.packed == nullptr) {
    std::vector<float> values(static_cast<size_t>(cols));
    for (int64_t r = 0; r < count; ++r) {
      cpu::dequantise_row(entry.file_type, rows + static_cast<size_t>(r) * entry.file_row_bytes, cols, values.data());
      std::memcpy(out + static_cast<size_t>(r * cols) * sizeof(float), values.data(), values.size() * sizeof(float));
    }
  } else if (entry.weight.type == entry.file_type) {
    arrange(entry.weight.type, count, cols, rows, out);
  } else {
    std::vector<float> values(static_cast<size_t>(cols));
    std::vector<uint16_t> halves(static_cast<size_t>(count * cols));
    for (int64_t r = 0; r < count; ++r) {
      cpu::dequantise_row(entry.file_type, rows + static_cast<size_t>(r) * entry.file_row_bytes, cols, values.data());
      std::transform(values.begin(), values.end(), halves.begin() + r * cols, cpu::float_to_half);
    }
    arrange(gguf::TensorType::f16, count, cols, reinterpret_cast<const std::byte*>(halves.data()), out);
  }
}

bool WeightStore::upload(const Stream& stream, const Clock& clock, const std::function<bool(double)>& progress,
                         const std::function<void(std::span<const std::byte>)>& release) {
  size_t piece = piece_bytes;
  for (const Entry& entry : entries_) piece = std::max(piece, bytes_of(entry.weight, std::min(group_rows, entry.weight.rows)));
  struct Side {
    PinnedMemory memory;
    Event copied;
  };
  std::array<Side, 2> sides{Side{PinnedMemory(piece), {}}, Side{PinnedMemory(piece), {}}};
  for (Side& side : sides) side.copied.record(stream);
  cpu::WorkerTeam team(std::clamp(cpu::cores_of(cpu::usable_processors()), 1, most_threads));
  size_t turn = 0, done = 0;
  for (const Entry& entry : entries_) {
    const int64_t rows = entry.weight.rows;
    const int64_t groups = std::max<int64_t>(1, static_cast<int64_t>(piece / bytes_of(entry.weight, group_rows)));
    for (int64_t first = 0; first < rows; first += groups * group_rows) {
      if (!progress(static_cast<double>(done) / static_cast<double>(std::max<uint64_t>(1, file_bytes_)))) {
        for (Side& side : sides) wait_for(side.copied, clock);  // which may still read the memory that goes now
        return false;
      }
      const int64_t count = std::min(groups * group_rows, rows - first);
      Side& side = sides[turn++ % sides.size()];
      wait_for(side.copied, clock);
      team.run([&](int index) {
        const int64_t all = (count + group_rows - 1) / group_rows;
        const int64_t begin = all * index / team.size() * group_rows, end = std::min(count, all * (index + 1) / team.size() * group_rows);
        if (begin < end) make_rows(entry, first + begin, end - begin, side.memory.get() + bytes_of(entry.weight, begin));
      });
      need(cudaMemcpyAsync(entry.memory.get() + bytes_of(entry.weight, first), side.memory.get(), bytes_of(entry.weight, count), cudaMemcpyHostToDevice,
                           stream.get()),
           "copying weights");
      side.copied.record(stream);
      const size_t taken = static_cast<size_t>(count) * entry.file_row_bytes;
      release(entry.bytes.subspan(static_cast<size_t>(first) * entry.file_row_bytes, taken));
      done += taken;
    }
  }
  for (Side& side : sides) wait_for(side.copied, clock);
  for (const Entry& entry : entries_) release(entry.bytes);  // reading a page may map its neighbours too, released ones among them
  return progress(1.0);
}

std::vector<std::string> WeightStore::converted() const {
  std::vector<std::string> notes;
  for (const auto& [type, count] : converted_) {
    notes.push_back(std::to_string(count) + " tensors of type " + std::string(gguf::type_info(type)->name) + " are kept as F16: the CUDA backend has no product of theirs");
  }
  return notes;
}

}  // namespace vigil::compute::cuda
