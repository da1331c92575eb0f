// What each part of a model will take on a GPU, found out from its header before anything is read: a load that computes nothing.
#pragma once

#include <memory>
#include <span>

#include "engine/compute/backend.hpp"
#include "engine/model/files.hpp"
#include "engine/schedule/placement.hpp"

namespace vigil::schedule {

struct SurveyStep {
  compute::StepLimits limits;  // of the largest step
  int64_t context = 0;         // tokens; 0 = as many as the model was trained with
  compute::KvType kv_type = compute::KvType::f16;
};

// Errors are those of a load: a tensor that is missing, and the like. On each GPU the scratch that ops of the largest step want is taken on the way, so
// that it counts in what is free afterwards; one that has not even that room is said to have none.
struct Survey {
  PartsNeed need;
  int64_t trained_context = 0;
  int64_t window = 0;          // positions that layers with a window see; 0 = there are none
  std::vector<char> has_room;  // by GPU
};
Result<Survey> survey_model(const model::Files& files, const SurveyStep& step, std::span<const std::shared_ptr<compute::Backend>> gpus);

}  // namespace vigil::schedule
