// The pictures of one prompt: their embedding rows out of the file of GENI (SVE1 records, docs/line-protocol.md), where they stand, how attention
// and rope see them, and ids that stand for their contents wherever prompts are compared. Not here: how rows are made.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/compute/step.hpp"
#include "engine/model/model.hpp"
#include "protocol/result.hpp"

namespace vigil::schedule {

using TokenId = int32_t;

class Pictures {
 public:
  struct Prompt {
    std::vector<TokenId> ids;                // an id below 0 for each row of a picture, made from the row's contents
    std::shared_ptr<const Pictures> pictures;
  };
  // `image`: the id that stands once for each row; without it the one that stands as often as the file has rows, in runs as long as its records. The
  // file is untrusted: it must hold whole records of `width` floats, all finite, as many rows as there are image ids, each record's side by side. On a
  // grid a record's rows are columns times rows. `salt` goes into the ids: what is known of the contents beside the rows.
  static Result<Prompt> read(const std::string& path, std::vector<TokenId> ids, std::optional<TokenId> image, int64_t width,
                             const model::PictureRule& rule, std::string_view salt);

  // What a step has to know of the token at `position` of the prompt, or of one behind it.
  struct Row {
    const float* embedding = nullptr;  // [width], or none: it is a token of the vocabulary
    int32_t ahead = 0;                                   // StepData::ahead
    std::array<int32_t, compute::rope_axes> shifts{};    // StepData::shifts
  };
  Row at(int64_t position) const;

  // A part of the prompt of about `count` tokens from `position` on that cuts no picture whose rows see each other: shorter, or if it begins with one
  // as long as that. The same `count` where rows do not see each other.
  int64_t whole(int64_t position, int64_t count) const;
  int64_t longest_whole() const;  // rows of the largest picture that must not be cut; 0 = none

 private:
  struct Place {
    int64_t first = 0, end = 0;     // positions
    int64_t columns = 0;            // of the grid
    int64_t shift = 0, behind = 0;  // what positions are shifted by in front of it, and behind it
  };
  const Place* holding(int64_t position) const;  // the last that begins at or before it

  std::vector<Place> places_;
  std::vector<float> values_;  // [rows of all, width]
  int64_t width_ = 0;
  bool see_each_other_ = false, on_grid_ = false;
};

}  // namespace vigil::schedule
