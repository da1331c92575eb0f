// A model ready to run on a backend: configuration, bound weights, and the forward pass as a sequence of ops. One file per architecture
// implements it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "engine/compute/backend.hpp"
#include "engine/model/config.hpp"
#include "engine/model/files.hpp"
#include "protocol/result.hpp"

namespace vigil::model {

// The rows of a step that something is wanted from, as the step's outputs name them: scores for the first so many, and for those behind only the
// hidden state after the last norm.
struct Outputs {
  int64_t scores = 0, hidden = 0;
  int64_t all() const { return scores + hidden; }
};

// How a model wants the rows of pictures that stand in its prompts.
struct PictureRule {
  bool see_each_other = false;  // all rows of a picture see all of it, so that it may not be cut (gemma3)
  bool on_grid = false;         // rope turns them by their place in the picture (M-RoPE: qwen2vl, qwen3.5)
};

class Model {
 public:
  virtual ~Model() = default;

  const Config& config() const { return config_; }
  int64_t vocabulary() const { return vocabulary_; }       // rows of the embedding: ids run from 0 to this - 1
  uint64_t weight_bytes() const { return weight_bytes_; }  // each tensor once
  uint64_t scratch_bytes() const { return scratch_bytes_; }  // activations of the largest step; memory only once written

  // The step's `rows` tokens through all layers; the cache gets their K and V, scores() and hidden() the rows that the step's outputs name.
  // Called by every thread of the backend's team.
  virtual void forward(compute::Ops& ops, const compute::Caches& caches, int64_t rows, Outputs outputs) const = 0;
  // Layers that have a KV cache: how many see everything, and how many only the configuration's window.
  virtual int64_t kv_layers() const { return config_.layers - window_layers(); }
  virtual int64_t window_layers() const { return 0; }
  compute::KvShape kv_shape(compute::KvType type, int64_t blocks) const;
  compute::KvShape window_kv_shape(compute::KvType type, int64_t blocks) const;
  // Without slots, what layers without a KV cache keep (no layers = nothing).
  virtual compute::StateShape state_shape() const { return {}; }
  virtual PictureRule picture_rule() const { return {}; }
  compute::Buffer pictures() const { return pictures_; }   // [rows, width]: what a step's sources name, written before it
  compute::Buffer scores() const { return scores_; }       // [outputs.scores, vocabulary], before any softmax
  int64_t picks() const { return picks_; }                 // of each row of scores, what the backend picks for the host; 0 = nothing
  compute::Buffer picked() const { return picked_; }       // [outputs.scores, picks, 2]: Ops::pick_best
  compute::Buffer hidden() const { return delta_; }        // [outputs.all(), width], until the next step

 protected:
  Config config_;
  int64_t vocabulary_ = 0;
  uint64_t weight_bytes_ = 0, scratch_bytes_ = 0;
  int64_t picks_ = 0;
  compute::Buffer scores_, picked_, pictures_;
  compute::Buffer delta_;  // [rows, width]: what a layer adds; at a step's end the normed outputs
};

// Rows of token_embd.weight, from the header alone.
Result<int64_t> vocabulary_size(const Files& files);

// Chooses the architecture; an unknown one is an error that lists the known. The files' bytes must outlive the backend, the backend must
// outlive the model. Works without a vocabulary: a model deals in ids only.
Result<std::unique_ptr<Model>> make_model(const Files& files, compute::Backend& backend, const compute::StepLimits& limits);
// Only the first check of make_model: whether this version has the architecture.
Result<void> check_architecture(const gguf::File& file);

}  // namespace vigil::model
