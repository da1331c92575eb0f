// The table of architectures.
#include "engine/model/model.hpp"

#include "engine/model/llama.hpp"

namespace vigil::model {

Result<void> check_architecture(const gguf::File& file) {
  Result<std::string> name = file.string("general.architecture");
  if (!name) return Error{name.error()};
  if (*name != "llama") return Error{"general.architecture '" + *name + "' is not known here; this version runs: llama"};
  return {};
}

Result<int64_t> vocabulary_size(const gguf::File& file) {
  const gguf::Tensor* embedding = file.tensor("token_embd.weight");
  if (embedding == nullptr) return Error{"tensor 'token_embd.weight' is missing"};
  const int64_t rows = embedding->rows();
  if (rows > INT32_MAX) return Error{"tensor 'token_embd.weight' has " + std::to_string(rows) + " rows, more than ids can name"};
  return rows;
}

Result<std::unique_ptr<Model>> make_model(const gguf::File& file, std::span<const std::byte> bytes, compute::Backend& backend,
                                          const compute::StepLimits& limits) {
  if (Result<void> known = check_architecture(file); !known) return Error{known.error()};
  return make_llama(file, bytes, backend, limits);
}

}  // namespace vigil::model
