// What changes from step to step (ids, positions, block tables), in one contiguous buffer, so that a device takes it in one copy and ops
// need no per-step arguments. Rows of several sequences may stand in one step; those of one sequence stand together, by position.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/compute/tensor.hpp"

namespace vigil::compute {

struct StepLimits {
  int64_t rows = 0;                 // tokens in a step
  int64_t outputs = 0;              // rows of a step whose scores are wanted
  int64_t sequences = 0;
  int64_t blocks_per_sequence = 0;  // KV blocks
  int64_t tables = 1;               // of blocks for each sequence: block_tables where some layers have a window
};

inline constexpr int64_t rope_axes = 3;

class StepData {
 public:
  StepData() = default;
  explicit StepData(const StepLimits& limits)
      : limits_(limits),
        words_(static_cast<size_t>(row_words * limits.rows + limits.outputs + limits.sequences * (2 + limits.tables * limits.blocks_per_sequence)), 0) {}

  const StepLimits& limits() const { return limits_; }
  std::span<int32_t> ids() { return part(0, limits_.rows); }                    // [rows] token ids
  std::span<int32_t> positions() { return part(limits_.rows, limits_.rows); }   // [rows] absolute positions
  std::span<int32_t> sequences() { return part(2 * limits_.rows, limits_.rows); }  // [rows] index of the row's sequence
  // Pictures in prompts. All of it is 0 for plain text.
  std::span<int32_t> sources() { return part(3 * limits_.rows, limits_.rows); }  // [rows] 0, or 1 + the row of the pictures' buffer in place of the id's
  // [rows] positions beyond its own that a row's attention sees: rows of a picture may see all of it, and then stand in one step with all of it.
  std::span<int32_t> ahead() { return part(4 * limits_.rows, limits_.rows); }
  // [rows] what is added to a row's position before rope turns it by axis 0, 1 or 2: time, height and width of M-RoPE (Rope::axes).
  std::span<int32_t> shifts(int64_t axis) { return part((5 + axis) * limits_.rows, limits_.rows); }
  std::span<int32_t> outputs() { return part(row_words * limits_.rows, limits_.outputs); }  // [outputs] rows whose scores are wanted
  // [2] slots of recurrent state: the one to start from (-1 = from nothing) and another one, to which the step writes what comes out. The
  // first is never written, so that a step which is aborted leaves the sequence where it was.
  std::span<int32_t> states(int64_t sequence) { return part(row_words * limits_.rows + limits_.outputs + 2 * sequence, 2); }
  // [blocks_per_sequence] block ids: position p of the sequence lies in block table[p / 64]. The tables of one kind stand together.
  std::span<int32_t> blocks(int64_t sequence, BlockTable table = BlockTable::whole) {
    const int64_t before = static_cast<int64_t>(table) * limits_.sequences + sequence;
    return part(row_words * limits_.rows + limits_.outputs + 2 * limits_.sequences + before * limits_.blocks_per_sequence, limits_.blocks_per_sequence);
  }
  std::span<const int32_t> words() const { return words_; }

 private:
  static constexpr int64_t row_words = 5 + rope_axes;
  std::span<int32_t> part(int64_t first, int64_t count) {
    return std::span<int32_t>(words_).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
  }
  StepLimits limits_;
  std::vector<int32_t> words_;
};

}  // namespace vigil::compute
