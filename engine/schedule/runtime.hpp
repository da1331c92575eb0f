// Everything that a loaded model needs to run steps: mappings, backend, model, caches and their pools. Not here: requests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/cache/conversations.hpp"
#include "engine/compute/backend.hpp"
#include "engine/gguf/byte_source.hpp"
#include "engine/model/model.hpp"
#include "engine/sample/sampler.hpp"
#include "engine/sample/token_trie.hpp"
#include "engine/schedule/memory.hpp"
#include "engine/schedule/model_places.hpp"
#include "engine/schedule/placement.hpp"
#include "engine/schedule/pictures.hpp"

namespace vigil::schedule {

// About a tenth of a second, at what a bus takes and cores arrange.
inline constexpr int64_t default_expert_swap_mib = 128;

struct RuntimeOptions {
  int64_t context = 0;       // tokens; 0 = the largest up to the trained one that fits
  compute::BackendOptions backend;
  int64_t gpu_layers = -1;   // the last so many layers are on GPUs, where the backend may be one: -1 = as many as fit, with "cuda" all
  std::vector<double> layer_split;  // shares of several GPUs, in their order; empty = one if the model fits on it, else by what is free
  int64_t gpu_reserve_mib = -1;     // what stays free of each GPU; -1 = gpu_reserve_percent of what is free
  // Of each layer on a GPU so many experts have a copy there, and all are in RAM; -1 = all are there where the layers fit with them, else as many as fit.
  // As many as there are, or more: layers are whole wherever they are.
  int64_t gpu_experts = -1;
  int64_t expert_swap_mib = default_expert_swap_mib;  // of such copies that are made anew between two requests; 0 = they stay as they are
  compute::KvType kv_type = compute::KvType::f16;
  int64_t slots = 1;         // sequences that run at once
  int64_t speculate = 0;     // most tokens that a sequence may guess ahead in a step; nothing for models with recurrent state
  std::string draft_model;   // path of a smaller model that guesses with it: load() opens it; empty = none
  // The least probability that the draft model's best token must have to be a guess: a guess costs a row of the model's step, and behind a wrong one
  // nothing counts.
  double draft_sureness = 0.4;
  int64_t cache_mib = 0;     // for what outlives its request; 0 = as memory allows, below 0 = nothing is kept
  int64_t step_rows = 512;   // prompt tokens of the largest step
  int64_t outputs = 1;       // rows of a step whose scores can be had, at least; each slot has its own
  uint64_t available_bytes = 0;  // memory that may be planned with; 0 = unknown
};

// One sequence's share of a step.
struct Part {
  cache::Sequence* sequence = nullptr;
  std::span<const TokenId> tokens;  // behind what the sequence has committed; room must have been reserved
  const Pictures* pictures = nullptr;  // of the sequence's prompt: where its ids are below 0
  int64_t scores = 0;               // the scores of so many of the last tokens are wanted
  bool hidden = false;              // the last hidden state of each token is wanted
  int64_t first_score = 0, first_hidden = 0;  // set by the step: where read_scores and read_hidden find them
};

// Rows, outputs and sequences of the largest step.
compute::StepLimits largest_step(const RuntimeOptions& options);
// Blocks of layers with a window that one sequence of the model needs at once; 0 for a model without.
int64_t window_blocks_needed(const model::Model& model, const RuntimeOptions& options);

class Runtime {
 public:
  // Called with 0 to 1 while weights are read in; false gives up.
  using Progress = std::function<bool(double)>;
  // Called with bytes of the files that will hardly be read again.
  using Release = std::function<void(std::span<const std::byte>)>;

  // The files' bytes must outlive the runtime, their headers need not. `draft`: those of the model that guesses, null when there is none; refused
  // when its vocabulary is another or it keeps recurrent state. Where `files` keep such state nothing is guessed: a note of the backend says so.
  static Result<std::unique_ptr<Runtime>> make(const model::Files& files, const RuntimeOptions& options,
                                               const Progress& progress = [](double) { return true; },
                                               const Release& release = [](std::span<const std::byte>) {}, const model::Files* draft = nullptr);
  static Result<std::unique_ptr<Runtime>> make(const gguf::File& file, std::span<const std::byte> bytes, const RuntimeOptions& options) {
    return make(model::Files(file, bytes), options);
  }
  // Maps the file, or all parts of a split one whose first `path` is; likewise the draft model's.
  static Result<std::unique_ptr<Runtime>> load(const std::string& path, const RuntimeOptions& options, const Progress& progress);

  const model::Model& model() const { return *model_; }
  compute::Backend& backend() { return *backend_; }
  cache::Pools& pool() { return *pools_; }
  const CachePlan& plan() const { return plan_; }
  const compute::KvCache& kv() const { return caches_.kv; }
  const compute::KvCache& window_kv() const { return caches_.window_kv; }  // no layers = the model has no windows
  int64_t context() const { return plan_.context; }  // tokens of one sequence
  int64_t slots() const { return options_.slots; }
  int64_t speculate() const { return options_.speculate; }
  int64_t step_rows() const { return options_.step_rows; }
  // The model that guesses: a runtime of its own on the same backend, whose slots are as many; null when there is none.
  Runtime* draft() { return draft_.get(); }
  double draft_sureness() const { return options_.draft_sureness; }
  bool ends(TokenId id) const;                       // whether the id ends a generation
  const std::vector<TokenId>& end_ids() const { return end_ids_; }
  // The texts of the tokens for grammars; null when this version does not know the model's tokenizer. Made at the first call; any thread.
  std::shared_ptr<const sample::TokenTrie> token_trie();
  bool knows_tokens() const { return knows_tokens_; }

  // Computes the parts, at most one for each slot and step_rows tokens of prompts. Commits nothing: that is for who knows which tokens count.
  compute::RunOutcome step(std::span<Part> parts);
  // One sequence alone; its tokens are committed unless the run was aborted.
  compute::RunOutcome step(cache::Sequence& sequence, std::span<const TokenId> tokens, int64_t scores);
  void read_scores(int64_t score, std::span<float> scores);            // [vocabulary]
  // The best of them, best first, where the backend picks them (they came with the step, in one copy); else none.
  std::span<const sample::Pick> picked(int64_t score) const;
  void read_hidden(int64_t first, int64_t count, std::span<float> to);  // [count, width]
  cache::Conversations make_conversations();

 private:
  Runtime() = default;
  // All of a load but the reading of the weights' bytes.
  static Result<std::unique_ptr<Runtime>> make_unread(const model::Files& files, const RuntimeOptions& options, const ModelPlaces& places,
                                                      const model::Files* draft);
  static Result<std::unique_ptr<Runtime>> bind(const model::Files& files, const RuntimeOptions& options, std::shared_ptr<compute::Backend> backend);
  Result<void> bind_draft(const model::Files& files, const model::Files& draft, std::shared_ptr<compute::Backend> backend);
  Result<void> plan_memory(size_t draft_share);
  compute::KvShape kv_shape() const { return model_->kv_shape(options_.kv_type, plan_.blocks); }
  compute::KvShape window_kv_shape() const { return model_->window_kv_shape(options_.kv_type, plan_.window_blocks); }
  int64_t most_rows() const { return largest_step(options_).rows; }
  int64_t most_outputs() const { return largest_step(options_).outputs; }
  void read_picked(int64_t scores);
  void fill_row(size_t row, TokenId id, int64_t position, const Pictures* pictures, int64_t& picture_rows);
  Result<void> make_caches();
  Result<void> reserve_largest_step();
  RuntimeOptions options_;
  CachePlan plan_;
  std::vector<gguf::Mapping> mappings_;
  std::shared_ptr<compute::Backend> backend_;  // the draft model's too, or one of its places is
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<cache::Pools> pools_;
  compute::Caches caches_;
  compute::StepData step_;
  std::vector<float> picked_words_;
  std::vector<sample::Pick> picked_;  // of every row of scores of the last step
  std::vector<TokenId> end_ids_;
  std::once_flag trie_once_;
  bool knows_tokens_ = false;
  std::vector<std::string> token_texts_;  // until the trie is made
  std::shared_ptr<const sample::TokenTrie> trie_;
  std::unique_ptr<Runtime> draft_;
};

}  // namespace vigil::schedule
