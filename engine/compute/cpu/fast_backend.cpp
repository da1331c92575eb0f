// Packing at load: all threads together, a slice of a tensor at a time.
#include "engine/compute/cpu/fast_backend.hpp"

#include <algorithm>

#include "engine/compute/cpu/fast_ops.hpp"
#include "engine/compute/cpu/packed.hpp"

namespace vigil::compute::cpu {
namespace {

// Vectors up to this size are copied: each would keep a whole page of the file mapped, and pages of files may be huge.
constexpr size_t small_bytes = size_t{64} << 10;
constexpr size_t slice_bytes = size_t{32} << 20;  // of a tensor between two reports of progress

}  // namespace

FastBackend::FastBackend(int threads, const FastKernels& kernels)
    : ReferenceBackend(threads), kernels_(kernels), name_(std::string("cpu ") + kernels.name), workspaces_(static_cast<size_t>(threads)) {}
FastBackend::~FastBackend() = default;

Result<Weight> FastBackend::bind(std::string_view tensor_name, gguf::TensorType type, int64_t rows, int64_t cols,
                                 std::span<const std::byte> bytes, WeightUse use) {
  Result<Weight> weight = ReferenceBackend::bind(tensor_name, type, rows, cols, bytes, use);
  if (!weight) return weight;
  if (use != WeightUse::product) {
    if (bound_.back().size() > small_bytes) return weight;
    std::byte* copy = weights_.take(bound_.back().size());
    if (copy == nullptr) return Error{"tensor '" + std::string(tensor_name) + "': no memory for its copy"};
    copies_.push_back({copy, bound_.back()});
    bound_.pop_back();
    weight->address = copy;
    return weight;
  }
  const auto form = packed_form(type);
  if (!form) return weight;
  const int64_t groups = (rows + group_rows - 1) / group_rows;
  std::byte* packed = weights_.take(static_cast<size_t>(groups * packed_group_bytes(*form, cols)));
  if (packed == nullptr) return Error{"tensor '" + std::string(tensor_name) + "': no memory for its packed form"};
  weight->packed = packed;
  packings_.push_back({*weight, packed, bound_.back()});
  bound_.pop_back();
  return weight;
}

bool FastBackend::prepare(const std::function<bool(double)>& progress, const std::function<void(std::span<const std::byte>)>& release) {
  size_t all = 0, done = 0;
  for (const Packing& packing : packings_) all += packing.bytes.size();
  for (const std::span<const std::byte> bytes : bound_) all += bytes.size();
  for (const Packing& packing : packings_) {
    const Weight& weight = packing.weight;
    const int64_t groups = (weight.rows + group_rows - 1) / group_rows;
    const int64_t group_bytes = packed_group_bytes(*packed_form(weight.type), weight.cols);
    const int64_t slice = std::max<int64_t>(1, static_cast<int64_t>(slice_bytes / (weight.row_bytes * group_rows)));
    for (int64_t first = 0; first < groups; first += slice) {
      if (!progress(static_cast<double>(done) / static_cast<double>(all))) return false;
      const int64_t end = std::min(groups, first + slice);
      team_.run([&](int index) {
        const int64_t mine = first + (end - first) * index / team_.size(), mine_end = first + (end - first) * (index + 1) / team_.size();
        for (int64_t g = mine; g < mine_end; ++g) {
          pack_group(weight.type, weight.address, weight.rows, weight.row_bytes, weight.cols, g * group_rows, packing.packed + g * group_bytes);
        }
      });
      const size_t from = static_cast<size_t>(first * group_rows) * weight.row_bytes;
      const size_t to = std::min(packing.bytes.size(), static_cast<size_t>(end * group_rows) * weight.row_bytes);
      release(packing.bytes.subspan(from, to - from));
      done += to - from;
    }
  }
  for (const Copy& copy : copies_) std::copy(copy.from.begin(), copy.from.end(), copy.to);
  // Reading a page may map its neighbours too, released ones among them.
  for (const Packing& packing : packings_) release(packing.bytes);
  for (const Copy& copy : copies_) release(copy.from);
  packings_.clear();
  copies_.clear();
  const double before = static_cast<double>(done) / static_cast<double>(std::max<size_t>(all, 1));
  return ReferenceBackend::prepare([&](double share) { return progress(before + (1 - before) * share); }, release);
}

void FastBackend::forward_on(int index, const std::function<void(Ops&)>& forward) {
  FastOps ops(*this, index);
  forward(ops);
}

}  // namespace vigil::compute::cpu
