// Products: threads split the groups of weight rows. Few input rows are multiplied straight from the packed weights; for many, two groups at a
// time are unpacked first and all rows pass over them.
#include <algorithm>
#include <cassert>
#include <numeric>

#include "engine/compute/cpu/fast_ops.hpp"
#include "engine/compute/cpu/packed.hpp"
#include "engine/compute/cpu/panel_types.hpp"

namespace vigil::compute::cpu {
namespace {

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

void FastOps::multiply(const Factor& factor, int64_t first, int64_t end) {
  const int64_t count = static_cast<int64_t>(work_.rows.size());
  const ProductRow* rows = work_.rows.data();
  const auto lanes_from = [&](int64_t group, int64_t groups) { return std::min(groups * group_rows, factor.rows - group * group_rows); };
  if (factor.packed != nullptr && (count < kernels_.many_from(factor.type) || is_float(factor.type))) {
    for (int64_t g = first; g < end && !aborted(); ++g) {
      kernels_.few(factor.type, factor.packed + g * factor.group_bytes, factor.cols, rows, count, g * group_rows, lanes_from(g, 1));
    }
    return;
  }
  const int64_t cols = factor.cols;
  if (factor.packed == nullptr && count < kernels_.many_from(factor.type)) {
    int64_t g = first;
    for (; g < end && !aborted(); ++g) {
      const std::byte* matrix = factor.matrix + static_cast<size_t>(g * group_rows) * factor.row_bytes;
      if (!kernels_.few_from_file(factor.type, matrix, static_cast<int64_t>(factor.row_bytes), cols, rows, count, g * group_rows, lanes_from(g, 1))) break;
    }
    if (g == end) return;
    first = g;
  }
  float* memory = floats(2 * panel_floats(cols) + 16);
  memory += (64 - reinterpret_cast<uintptr_t>(memory) % 64) % 64 / sizeof(float);
  Panel panels[2];
  for (Panel& panel : panels) {
    panel = panel_in(memory, cols);
    memory += panel_floats(cols);
  }
  for (int64_t g = first; g < end && !aborted(); g += 2) {
    const int64_t groups = std::min<int64_t>(2, end - g);
    for (int64_t i = 0; i < groups; ++i) unpack(factor, g + i, panels[i]);
    kernels_.many(factor.type, panels, cols, rows, count, g * group_rows, lanes_from(g, groups), groups_at(factor, g + 2, std::min<int64_t>(2, end - g - 2)));
  }
}

void FastOps::unpack(const Factor& factor, int64_t group, Panel& panel) {
  if (factor.packed != nullptr) return kernels_.unpack(factor.type, factor.packed + group * factor.group_bytes, factor.cols, panel);
  const int64_t first = group * group_rows, row_bytes = static_cast<int64_t>(factor.row_bytes);
  if (kernels_.unpack_from_file(factor.type, factor.matrix + first * row_bytes, row_bytes, factor.cols, std::min(group_rows, factor.rows - first), panel)) return;
  unpack_rows(factor.type, factor.matrix, factor.rows, factor.row_bytes, factor.cols, first, panel);
}

// `groups` groups from `group` on as they lie in memory; nothing when there are none.
NextGroups FastOps::groups_at(const Factor& factor, int64_t group, int64_t groups) {
  if (groups <= 0) return {};
  if (factor.packed != nullptr) return {factor.packed + group * factor.group_bytes, groups * factor.group_bytes};
  const int64_t rows = std::min(groups * group_rows, factor.rows - group * group_rows), bytes = static_cast<int64_t>(factor.row_bytes);
  return {factor.matrix + group * group_rows * bytes, rows * bytes};
}

// Packed, or of a type that is unpacked from the file.
bool FastOps::is_fast(const Weight& weight) { return weight.packed != nullptr || is_panel_type(weight.type); }

FastOps::Factor FastOps::factor_of(const Weight& weight, int64_t first_row, int64_t rows) {
  Factor factor{weight.type, rows, weight.cols, weight.row_bytes, nullptr, nullptr, 0};
  if (weight.packed != nullptr) {
    factor.group_bytes = packed_group_bytes(*packed_form(weight.type), weight.cols);
    factor.packed = weight.packed + first_row / group_rows * factor.group_bytes;
  } else {
    factor.matrix = weight.address + static_cast<size_t>(first_row) * weight.row_bytes;
  }
  return factor;
}

void FastOps::matmul(const Weight& weight, Buffer in, Buffer out, int64_t rows) {
  if (!is_fast(weight)) return ReferenceOps::matmul(weight, in, out, rows);
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
    multiply(factor_of(weight, 0, weight.rows), first, end);
  });
  quantised_until_ = out.address == quantised_from_ ? 0 : ops_done_;
}

int64_t FastOps::sort_places(Buffer choice, int64_t places, int64_t experts) {
  const auto expert_of = [&](int64_t place) { return static_cast<int64_t>(choice.address[2 * place]); };
  std::vector<int32_t>& begins = work_.begins;
  begins.assign(static_cast<size_t>(experts) + 1, 0);
  for (int64_t place = 0; place < places; ++place) {
    if (expert_of(place) >= 0) ++begins[static_cast<size_t>(expert_of(place)) + 1];
  }
  const int64_t active = std::count_if(begins.begin() + 1, begins.end(), [](int32_t count) { return count > 0; });
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  const int32_t chosen = begins.back();
  work_.places.resize(static_cast<size_t>(places));
  // From the last on, each expert's places are filled from its end: afterwards begins[e + 1] is where expert e begins.
  for (int64_t place = places - 1; place >= 0; --place) {
    if (expert_of(place) >= 0) work_.places[static_cast<size_t>(--begins[static_cast<size_t>(expert_of(place)) + 1])] = static_cast<int32_t>(place);
  }
  begins.erase(begins.begin());
  begins.push_back(chosen);
  return active;
}

void FastOps::expert_matmul(const Weight& experts, int64_t out_cols, Buffer choice, int64_t used, ExpertInput kind, Buffer in, Buffer out,
                            int64_t rows) {
  if (!is_fast(experts) || out_cols % group_rows != 0) {
    return ReferenceOps::expert_matmul(experts, out_cols, choice, used, kind, in, out, rows);
  }
  const int64_t cols = experts.cols, count = experts.rows / out_cols, groups = out_cols / group_rows;
  const int64_t in_rows = kind == ExpertInput::row ? rows : rows * used;
  assert(in.floats >= in_rows * cols && out.floats >= rows * used * out_cols);
  const bool floats_in = is_float(experts.type);
  if (!floats_in) quantise(in, in_rows, cols);
  // Of an aborted step the choices may never have been made. Who sees no abort here knows that every thread has made its own: all of them passed a barrier behind it.
  const int64_t active = aborted() ? 0 : sort_places(choice, rows * used, count);
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
        multiply(factor_of(experts, e * out_cols, out_cols), low - before, high - before);
      }
      before += groups;
    }
  });
  quantised_until_ = out.address == quantised_from_ ? 0 : ops_done_;
}

}  // namespace vigil::compute::cpu
