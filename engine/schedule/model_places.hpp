// From what was asked for and what there is to the backend that a model runs on: a GPU, the CPU, or both and several with its layers between them.
#pragma once

#include <memory>

#include "engine/compute/backend.hpp"
#include "engine/model/files.hpp"

namespace vigil::schedule {

struct RuntimeOptions;

struct ModelPlaces {
  std::shared_ptr<compute::Backend> model;
  std::shared_ptr<compute::Backend> draft;  // for the model that guesses: the same, or the last of its places
  size_t draft_share = 0;                   // which of the places that is
  bool experts_apart = false;               // experts of layers on GPUs are in RAM
};

// `limits`: of the model's largest step. `draft`: the files of a model that guesses, or null. A placement that is not simply one backend is noted there,
// with numbers. Where layers or GPUs were asked for, or cuda, what does not fit is an error with numbers; auto takes what fits.
Result<ModelPlaces> make_places(const model::Files& files, const RuntimeOptions& options, const compute::StepLimits& limits, const model::Files* draft);

}  // namespace vigil::schedule
