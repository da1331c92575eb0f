// Tiny random llama files made in memory, and a plain double-precision llama to hold the engine against.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/gguf/file.hpp"
#include "engine/gguf/writer.hpp"
#include "engine/schedule/runtime.hpp"

namespace vigil::testing {

struct TinyLlama {
  int64_t layers = 2, width = 64, heads = 4, kv_heads = 2, head_dim = 16, ff = 96, vocabulary = 97, context = 512;
  int64_t rotated = 16;
  bool tied = false, rope_factors = false;
  gguf::TensorType type = gguf::TensorType::f32;
  uint64_t seed = 1;
  int32_t end_id = -1;  // none
  std::string architecture = "llama";
  std::map<std::string, int64_t> claims;  // "llama." fields that do not agree with the tensors
  std::string leave_out;                  // a tensor
  std::string spoil;                      // a tensor that becomes NaN
  // Every matrix and vector as the file holds it (after its rounding), row-major.
  std::map<std::string, std::vector<float>> values;

  // Writes the file; `edit` may add or change metadata and tensors before that.
  std::vector<std::byte> bytes(const std::function<void(gguf::Writer&)>& edit = {});
  // The scores after the last of `ids`, in double precision, by the formulas alone. After bytes().
  std::vector<double> scores_after(const std::vector<int32_t>& ids) const;

 private:
  void add(gguf::Writer& writer, const std::string& name, int64_t rows, int64_t cols, double gain, double mean = 0);
  uint64_t random_state_ = 0;
};

struct LoadedModel {
  std::vector<std::byte> bytes;
  std::unique_ptr<schedule::Runtime> runtime;
  std::vector<std::byte> draft_bytes = {};  // of the model that guesses, if there is one
};
// Fails the test when the model does not load.
LoadedModel load_tiny(TinyLlama& tiny, const schedule::RuntimeOptions& options = {});
Result<std::unique_ptr<schedule::Runtime>> try_load(const std::vector<std::byte>& bytes, const schedule::RuntimeOptions& options = {});
Result<std::unique_ptr<schedule::Runtime>> try_load_pair(const std::vector<std::byte>& bytes, const std::vector<std::byte>& draft,
                                                         const schedule::RuntimeOptions& options);

// `count` ids below `vocabulary`, from a seed.
std::vector<int32_t> random_ids(int64_t count, int64_t vocabulary, uint64_t seed);

}  // namespace vigil::testing
