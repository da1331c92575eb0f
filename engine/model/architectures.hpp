// One maker for each architecture file; model.cpp has the table of their names.
#pragma once

#include <memory>

#include "engine/model/model.hpp"

namespace vigil::model {

using Maker = Result<std::unique_ptr<Model>>(const Files& files, compute::Backend& backend, const compute::StepLimits& limits);

Maker make_llama;
Maker make_qwen2;      // and qwen2vl
Maker make_qwen3;
Maker make_qwen3moe;
Maker make_gemma3;
Maker make_gpt_oss;
Maker make_qwen35;     // and qwen35moe
Maker make_qwen3next;

}  // namespace vigil::model
