// Order of a load: header, shapes, memory check, KV cache, bytes. Nothing large is touched before the check has passed.
#include "engine/schedule/runtime.hpp"

#include <algorithm>
#include <cassert>

#include "engine/gguf/vocabulary.hpp"
#include "engine/schedule/memory.hpp"
#include "engine/schedule/model_source.hpp"

namespace vigil::schedule {
namespace {

// Below this a second thread costs more in barriers than it computes.
constexpr size_t one_thread_bytes = size_t{16} << 20;

struct Words {
  std::vector<TokenId> end_ids;    // that end a generation
  bool known = false;
  std::vector<std::string> texts;  // by id, when known; empty for tokens that no grammar may choose by their text
};

// A model whose tokenizer this version does not know can still run: the engine deals in ids, so its end ids are read from the metadata
// alone; only grammars need texts.
Result<Words> find_words(const gguf::File& file, int64_t vocabulary) {
  Words words;
  const Result<std::string> kind = file.string_or("tokenizer.ggml.model", "");
  if (!kind) return Error{kind.error()};
  const Result<gguf::Vocabulary> known = gguf::Vocabulary::from(file);
  if (!known && *kind == "llama") return Error{known.error()};
  if (known) {
    words.end_ids = known->end_ids();
    words.known = true;
    for (TokenId id = 0; id < known->size(); ++id) {
      const gguf::TokenKind token = known->kind(id);
      const bool speaks = token == gguf::TokenKind::normal || token == gguf::TokenKind::user_defined || token == gguf::TokenKind::byte;
      words.texts.push_back(speaks && !known->ends(id) ? known->bytes(id) : std::string());
    }
    return words;
  }
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    const Result<int64_t> id = file.integer_or(key, -1);
    if (!id) return Error{id.error()};
    if (*id >= 0 && *id < vocabulary) words.end_ids.push_back(static_cast<TokenId>(*id));
  }
  return words;
}

size_t bytes_of(const model::Files& files) {
  size_t sum = 0;
  for (const model::FilePart& part : files.parts()) sum += part.bytes.size();
  return sum;
}

}  // namespace

Result<std::unique_ptr<Runtime>> Runtime::make(const model::Files& files, const RuntimeOptions& options, const Progress& progress,
                                               const Release& release) {
  if (Result<void> known = model::check_architecture(files.metadata()); !known) return Error{known.error()};
  std::unique_ptr<Runtime> runtime(new Runtime);
  compute::BackendOptions backend_options = options.backend;
  if (backend_options.threads == 0 && bytes_of(files) < one_thread_bytes) backend_options.threads = 1;
  Result<std::unique_ptr<compute::Backend>> backend = compute::make_backend(backend_options);
  if (!backend) return Error{backend.error()};
  runtime->backend_ = std::move(*backend);

  const compute::StepLimits limits{options.step_rows, options.outputs, 1, 0};
  Result<std::unique_ptr<model::Model>> model = model::make_model(files, *runtime->backend_, limits);
  if (!model) return Error{model.error()};
  runtime->model_ = std::move(*model);
  if (Result<void> made = runtime->make_caches(options); !made) return Error{made.error()};

  Result<Words> words = find_words(files.metadata(), runtime->model_->vocabulary());
  if (!words) return Error{words.error()};
  runtime->end_ids_ = std::move(words->end_ids);
  runtime->knows_tokens_ = words->known;
  runtime->token_texts_ = std::move(words->texts);
  if (!runtime->backend_->prepare(progress, release)) return Error{"the load was stopped"};
  return runtime;
}

Result<void> Runtime::make_caches(const RuntimeOptions& options) {
  const model::Config& config = model_->config();
  compute::StepLimits limits{options.step_rows, options.outputs, 1, 0};
  compute::KvShape shape{options.kv_type, model_->kv_layers(), config.kv_heads, config.head_dim, 0};
  compute::StateShape states = model_->state_shape();
  if (states.layers > 0) states.slots = limits.sequences * cache::state_slots_per_sequence;
  const uint64_t state_bytes = states.slot_bytes() * static_cast<uint64_t>(states.slots);
  const MemoryNeed need{model_->weight_bytes(), model_->scratch_bytes() + state_bytes, shape.block_bytes()};
  Result<int64_t> context = fit_context(options.context, config.trained_context, need, options.available_bytes);
  if (!context) return Error{context.error()};
  context_ = *context;
  limits.blocks_per_sequence = (*context + compute::kv_block_positions - 1) / compute::kv_block_positions;
  shape.blocks = limits.blocks_per_sequence;
  Result<compute::KvCache> kv = backend_->allocate_kv(shape);
  if (!kv) return Error{kv.error()};
  caches_.kv = *kv;
  if (states.layers > 0) {
    Result<compute::StateCache> made = backend_->allocate_states(states);
    if (!made) return Error{made.error()};
    caches_.states = *made;
  }
  pools_ = std::make_unique<cache::Pools>(shape.blocks, states.slots);
  step_ = compute::StepData(limits);
  return {};
}

Result<std::unique_ptr<Runtime>> Runtime::load(const std::string& path, const RuntimeOptions& options, const Progress& progress) {
  Result<ModelSource> source = ModelSource::open(path);
  if (!source) return Error{source.error()};
  Result<std::unique_ptr<Runtime>> runtime = make(source->files(), options, progress, gguf::Mapping::forget);
  if (!runtime) return Error{path + ": " + runtime.error()};
  (*runtime)->mappings_ = source->take_mappings();
  return runtime;
}

bool Runtime::ends(TokenId id) const { return std::find(end_ids_.begin(), end_ids_.end(), id) != end_ids_.end(); }

std::shared_ptr<const sample::TokenTrie> Runtime::token_trie() {
  std::call_once(trie_once_, [this] {
    if (knows_tokens_) trie_ = std::make_shared<const sample::TokenTrie>(std::move(token_texts_));
  });
  return trie_;
}

compute::RunOutcome Runtime::step(cache::Sequence& sequence, std::span<const TokenId> tokens, int64_t outputs) {
  const int64_t rows = static_cast<int64_t>(tokens.size());
  assert(rows >= 1 && rows <= step_.limits().rows && outputs <= std::min(rows, step_.limits().outputs));
  for (int64_t r = 0; r < rows; ++r) {
    step_.ids()[static_cast<size_t>(r)] = tokens[static_cast<size_t>(r)];
    step_.positions()[static_cast<size_t>(r)] = static_cast<int32_t>(sequence.length() + r);
    step_.sequences()[static_cast<size_t>(r)] = 0;
  }
  for (int64_t o = 0; o < outputs; ++o) step_.outputs()[static_cast<size_t>(o)] = static_cast<int32_t>(rows - outputs + o);
  std::copy(sequence.blocks().begin(), sequence.blocks().end(), step_.blocks(0).begin());
  step_.states(0)[0] = sequence.state_from();
  step_.states(0)[1] = sequence.state_to();
  backend_->upload(step_);
  const compute::RunOutcome outcome = backend_->run([&](compute::Ops& ops) { model_->forward(ops, caches_, rows, outputs); });
  if (outcome == compute::RunOutcome::finished) sequence.commit(tokens);
  return outcome;
}

void Runtime::read_scores(int64_t output, std::span<float> scores) {
  backend_->read(model_->scores(), output * model_->vocabulary(), scores);
}

}  // namespace vigil::schedule
