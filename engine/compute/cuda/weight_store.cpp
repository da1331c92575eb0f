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

Result<Weight> WeightStore::take(std::string_view tensor_name, gguf::TensorType type, int64_t rows, int64_t cols, size_t row_bytes,
                                 std::span<const std::byte> bytes, WeightUse use) {
  const bool by_values = use == WeightUse::values;
  const gguf::TensorType kept = kept_as(type, use);
  Weight weight{kept, rows, cols, 0, nullptr};
  const size_t wanted = bytes_kept(type, rows, cols, use);
  Result<DeviceMemory> memory = DeviceMemory::take(wanted);
  if (!memory) return Error{"tensor '" + std::string(tensor_name) + "': " + memory.error()};
  weight.address = memory->get();
  weight.packed = by_values ? nullptr : memory->get();
  weight.row_bytes = wanted / static_cast<size_t>(rows);
  if (!by_values && kept != type) ++converted_[type];
  file_bytes_ += row_bytes * static_cast<size_t>(rows);
  entries_.push_back({weight, type, row_bytes, bytes, std::move(*memory)});
  return weight;
}

Result<Weight> WeightStore::bind(std::string_view tensor_name, gguf::TensorType type, int64_t rows, int64_t cols, std::span<const std::byte> bytes,
                                 WeightUse use) {
  const Result<size_t> row_bytes = cpu::row_bytes_of(tensor_name, type, rows, cols, bytes.size());
  if (!row_bytes) return Error{row_bytes.error()};
  const std::tuple key(bytes.data(), use == WeightUse::values, rows);
  if (const auto known = places_.find(key); known != places_.end()) return entries_[known->second].weight;
  places_.emplace(key, entries_.size());
  Result<Weight> weight = take(tensor_name, type, rows, cols, *row_bytes, bytes.first(*row_bytes * static_cast<size_t>(rows)), use);
  if (!weight) places_.erase(key);
  return weight;
}

Result<Weight> WeightStore::bind_slots(std::string_view tensor_name, gguf::TensorType type, int64_t slots, int64_t rows, int64_t cols, WeightUse use) {
  if (use != WeightUse::values && rows % group_rows != 0) {
    return Error{"tensor '" + std::string(tensor_name) + "': an expert of " + std::to_string(rows) + " rows, no multiple of " + std::to_string(group_rows) +
                 ", cannot be kept on a GPU by itself; use --gpu-experts 0"};
  }
  const Result<size_t> row_bytes = cpu::row_bytes_of(tensor_name, type, slots * rows, cols, SIZE_MAX);
  if (!row_bytes) return Error{row_bytes.error()};
  const size_t place = entries_.size();
  Result<Weight> weight = take(tensor_name, type, slots * rows, cols, *row_bytes, {}, use);
  if (weight) slots_[weight->address] = place;
  return weight;
}

void WeightStore::make_rows(const Entry& entry, const std::byte* rows, int64_t count, std::byte* out) {
  const int64_t cols = entry.weight.cols;
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

class WeightStore::Sender {
 public:
  Sender(const Stream& stream, size_t bytes)
      : stream_(stream), sides_{Side{PinnedMemory(bytes), {}}, Side{PinnedMemory(bytes), {}}},
        team_(std::clamp(cpu::cores_of(cpu::usable_processors()), 1, most_threads)) {
    for (Side& side : sides_) side.copied.record(stream_);
  }

  // The file's rows of an entry from `first` on, piece by piece; `before` each it may be given up, `behind` each its bytes are free.
  bool send(const Entry& entry, int64_t first, std::span<const std::byte> file_rows, const Clock& clock, const std::function<bool()>& before,
            const std::function<void(std::span<const std::byte>)>& behind) {
    const int64_t rows = static_cast<int64_t>(file_rows.size() / entry.file_row_bytes);
    const int64_t groups = std::max<int64_t>(1, static_cast<int64_t>(sides_[0].memory.bytes() / bytes_of(entry.weight, group_rows)));
    for (int64_t done = 0; done < rows; done += groups * group_rows) {
      if (!before()) return false;
      const int64_t count = std::min(groups * group_rows, rows - done);
      const std::span<const std::byte> part = file_rows.subspan(static_cast<size_t>(done) * entry.file_row_bytes, static_cast<size_t>(count) * entry.file_row_bytes);
      Side& side = sides_[turn_++ % sides_.size()];
      wait_for(side.copied, clock);
      team_.run([&](int index) {
        const int64_t all = (count + group_rows - 1) / group_rows;
        const int64_t begin = all * index / team_.size() * group_rows, end = std::min(count, all * (index + 1) / team_.size() * group_rows);
        if (begin < end) make_rows(entry, part.data() + static_cast<size_t>(begin) * entry.file_row_bytes, end - begin, side.memory.get() + bytes_of(entry.weight, begin));
      });
      need(cudaMemcpyAsync(entry.memory.get() + bytes_of(entry.weight, first + done), side.memory.get(), bytes_of(entry.weight, count), cudaMemcpyHostToDevice,
                           stream_.get()),
           "copying weights");
      side.copied.record(stream_);
      behind(part);
    }
    return true;
  }
  void finish(const Clock& clock) {
    for (Side& side : sides_) wait_for(side.copied, clock);
  }

 private:
  struct Side {
    PinnedMemory memory;
    Event copied;
  };
  const Stream& stream_;
  std::array<Side, 2> sides_;
  size_t turn_ = 0;
  cpu::WorkerTeam team_;
};

WeightStore::WeightStore() = default;
WeightStore::~WeightStore() = default;

WeightStore::Sender& WeightStore::sender(const Stream& stream) {
  if (!sender_) {
    size_t piece = piece_bytes;
    for (const Entry& entry : entries_) piece = std::max(piece, bytes_of(entry.weight, std::min(group_rows, entry.weight.rows)));
    sender_ = std::make_unique<Sender>(stream, piece);
  }
  return *sender_;
}

void WeightStore::fill_slots(const Stream& stream, const Clock& clock, const Weight& slots, int64_t first_row, std::span<const std::byte> bytes) {
  const Entry& entry = entries_[slots_.at(slots.address)];
  sender(stream).send(entry, first_row, bytes, clock, [] { return true; }, [](std::span<const std::byte>) {});
}

bool WeightStore::upload(const Stream& stream, const Clock& clock, const std::function<bool(double)>& progress,
                         const std::function<void(std::span<const std::byte>)>& release) {
  Sender& to_device = sender(stream);
  size_t done = 0, all = 0;
  for (const Entry& entry : entries_) all += entry.bytes.size();
  const auto go_on = [&] { return progress(static_cast<double>(done) / static_cast<double>(std::max<size_t>(1, all))); };
  const auto let_go = [&](std::span<const std::byte> part) {
    release(part);
    done += part.size();
  };
  bool whole = true;
  for (const Entry& entry : entries_) whole = whole && to_device.send(entry, 0, entry.bytes, clock, go_on, let_go);
  to_device.finish(clock);  // which may still read the memory that goes now
  if (!whole) return false;
  for (const Entry& entry : entries_) {
    if (!entry.bytes.empty()) release(entry.bytes);  // reading a page may map its neighbours too, released ones among them
  }
  if (slots_.empty()) sender_.reset();
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
