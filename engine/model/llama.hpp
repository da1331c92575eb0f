// The llama family: pre-norm decoder with RMSNorm, rope, grouped-query attention and SwiGLU (Touvron et al. 2023; llama 3's rope factors
// come as the tensor rope_freqs.weight).
#pragma once

#include "engine/model/model.hpp"

namespace vigil::model {

Result<std::unique_ptr<Model>> make_llama(const gguf::File& file, std::span<const std::byte> bytes, compute::Backend& backend,
                                          const compute::StepLimits& limits);

}  // namespace vigil::model
