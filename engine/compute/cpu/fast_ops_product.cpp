// Products: threads split the groups of weight rows. Few input rows are multiplied straight from the packed weights; for many, two groups at a
// time are unpacked first and all rows pass over them.
#include <algorithm>
#include <cassert>
#include <numeric>

#include "engine/compute/cpu/fast_ops.hpp"
#include "engine/compute/cpu/packed.hpp"

namespace vigil::compute::cpu {
namespace {

// From here on unpacking pays.
constexpr int64_t many_rows = 8;
// Up to this many values every thread rounds the input for itself: that is quicker than a barrier.
constexpr int64_t private_values = 4096;

bool is_float(gguf::TensorType type) {
  return type == gguf::TensorType::f32 || type == gguf::TensorType::f16 || type == gguf::TensorType::bf16;
}

int64_t groups_of(int64_t rows) { return (rows + group_rows - 1) / group_rows; }

}  // namespace

void FastOps::quantise(Buffer in, int64_t rows, int64_t cols) {
  if (quantised_from_ == in.address && quantised_rows_ == rows && cols_ == cols && quantised_until_ == ops_done_) return;
  quantised_from_ = in.address;
  quantised_rows_ = rows;
  cols_ = cols;
  const int64_t row_bytes = quantised_row_bytes(cols);
  const bool alone = rows * cols <= private_values || threads_ == 1;
  std::vector<std::byte>& memory = alone ? work_.quantised : fast_.quantised_;
  const size_t needed = static_cast<size_t>(rows * row_bytes) + 64;
  if (memory.size() < needed) {  // all threads see the same, since it changes only between two barriers
    if (!alone) fast_.team_.barrier();
    if (alone || index_ == 0) memory.resize(needed);
    if (!alone) fast_.team_.barrier();
  }
  rows_at_ = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  const auto round = [&](int64_t first, int64_t end) {
    for (int64_t r = first; r < end; ++r) kernels_.quantise_row(in.address + r * cols, cols, row(r));
  };
  if (alone) round(0, rows);
  else share(rows, 1, round);
}

void FastOps::multiply(const Weight& weight, const std::byte* packed, int64_t first, int64_t end, int64_t weight_rows) {
  const int64_t cols = weight.cols, group_bytes = packed_group_bytes(*packed_form(weight.type), cols);
  const int64_t count = static_cast<int64_t>(work_.rows.size());
  const ProductRow* rows = work_.rows.data();
  if (count < many_rows || is_float(weight.type)) {
    for (int64_t g = first; g < end && !aborted(); ++g) {
      kernels_.few(weight.type, packed + g * group_bytes, cols, rows, count, g * group_rows, std::min(group_rows, weight_rows - g * group_rows));
    }
    return;
  }
  float* memory = floats(2 * panel_floats(cols) + 16);
  memory += (64 - reinterpret_cast<uintptr_t>(memory) % 64) % 64 / sizeof(float);
  Panel panels[2];
  for (Panel& panel : panels) {
    panel = {reinterpret_cast<uint8_t*>(memory), memory + cols / 32 * 128, memory + cols / 32 * 160};
    memory += panel_floats(cols);
  }
  for (int64_t g = first; g < end && !aborted(); g += 2) {
    for (int64_t i = 0; i < 2 && g + i < end; ++i) kernels_.unpack(weight.type, packed + (g + i) * group_bytes, cols, panels[i]);
    const int64_t lanes = std::min((std::min(end, g + 2) - g) * group_rows, weight_rows - g * group_rows);
    kernels_.many(weight.type, panels, cols, rows, count, g * group_rows, lanes);
  }
}

void FastOps::matmul(const Weight& weight, Buffer in, Buffer out, int64_t rows) {
  if (weight.packed == nullptr) return ReferenceOps::matmul(weight, in, out, rows);
  const int64_t cols = weight.cols;
  assert(in.floats >= rows * cols && out.floats >= rows * weight.rows);
  const bool floats_in = is_float(weight.type);
  if (!floats_in) quantise(in, rows, cols);
  share(groups_of(weight.rows), 2, [&](int64_t first, int64_t end) {
    work_.rows.resize(static_cast<size_t>(rows));
    for (int64_t r = 0; r < rows; ++r) {
      ProductRow& product = work_.rows[static_cast<size_t>(r)];
      product.floats = in.address + r * cols;
      if (!floats_in) product.quantised = row(r);
      product.out = out.address + r * weight.rows;
    }
    multiply(weight, weight.packed, first, end, weight.rows);
  });
  quantised_until_ = out.address == quantised_from_ ? 0 : ops_done_;
}

int64_t FastOps::sort_places(Buffer choice, int64_t places, int64_t experts) {
  const auto expert_of = [&](int64_t place) { return static_cast<size_t>(choice.address[2 * place]); };
  std::vector<int32_t>& begins = work_.begins;
  begins.assign(static_cast<size_t>(experts) + 1, 0);
  for (int64_t place = 0; place < places; ++place) ++begins[expert_of(place) + 1];
  const int64_t active = std::count_if(begins.begin() + 1, begins.end(), [](int32_t count) { return count > 0; });
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  work_.places.resize(static_cast<size_t>(places));
  // From the last on, each expert's places are filled from its end: afterwards begins[e + 1] is where expert e begins.
  for (int64_t place = places - 1; place >= 0; --place) {
    work_.places[static_cast<size_t>(--begins[expert_of(place) + 1])] = static_cast<int32_t>(place);
  }
  begins.erase(begins.begin());
  begins.push_back(static_cast<int32_t>(places));
  return active;
}

void FastOps::expert_matmul(const Weight& experts, int64_t out_cols, Buffer choice, int64_t used, ExpertInput kind, Buffer in, Buffer out,
                            int64_t rows) {
  if (experts.packed == nullptr || out_cols % group_rows != 0) {
    return ReferenceOps::expert_matmul(experts, out_cols, choice, used, kind, in, out, rows);
  }
  const int64_t cols = experts.cols, count = experts.rows / out_cols, groups = out_cols / group_rows;
  const int64_t in_rows = kind == ExpertInput::row ? rows : rows * used;
  assert(in.floats >= in_rows * cols && out.floats >= rows * used * out_cols);
  const bool floats_in = is_float(experts.type);
  if (!floats_in) quantise(in, in_rows, cols);
  const int64_t active = sort_places(choice, rows * used, count);
  share(active * groups, 2, [&](int64_t first, int64_t end) {
    int64_t before = 0;  // pieces of the active experts so far
    for (int64_t e = 0; e < count; ++e) {
      const int64_t from = work_.begins[static_cast<size_t>(e)], to = work_.begins[static_cast<size_t>(e) + 1];
      if (from == to) continue;
      const int64_t low = std::max(first, before), high = std::min(end, before + groups);
      if (low < high) {
        work_.rows.resize(static_cast<size_t>(to - from));
        for (int64_t i = from; i < to; ++i) {
          const int64_t place = work_.places[static_cast<size_t>(i)], source = kind == ExpertInput::row ? place / used : place;
          ProductRow& product = work_.rows[static_cast<size_t>(i - from)];
          product.floats = in.address + source * cols;
          if (!floats_in) product.quantised = row(source);
          product.out = out.address + place * out_cols;
        }
        const int64_t group_bytes = packed_group_bytes(*packed_form(experts.type), cols);
        multiply(experts, experts.packed + e * groups * group_bytes, low - before, high - before, out_cols);
      }
      before += groups;
    }
  });
  quantised_until_ = out.address == quantised_from_ ? 0 : ops_done_;
}

}  // namespace vigil::compute::cpu
