// Order of a load: header, shapes, memory check, KV cache, bytes. Nothing large is touched before the check has passed.
#include "engine/schedule/runtime.hpp"

#include <algorithm>
#include <cassert>

#include "engine/gguf/vocabulary.hpp"
#include "engine/schedule/memory.hpp"

namespace vigil::schedule {
namespace {

constexpr size_t page_bytes = 4096;
constexpr size_t progress_bytes = size_t{16} << 20;
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

bool read_in(std::span<const std::byte> bytes, const std::function<bool(double)>& progress) {
  volatile std::byte sink{};
  for (size_t at = 0; at < bytes.size(); at += page_bytes) {
    sink = bytes[at];
    if (at % progress_bytes == 0 && !progress(static_cast<double>(at) / static_cast<double>(bytes.size()))) return false;
  }
  (void)sink;
  return progress(1.0);
}

}  // namespace

Result<std::unique_ptr<Runtime>> Runtime::make(const gguf::File& file, std::span<const std::byte> bytes, const RuntimeOptions& options) {
  if (Result<void> known = model::check_architecture(file); !known) return Error{known.error()};
  std::unique_ptr<Runtime> runtime(new Runtime);
  compute::BackendOptions backend_options = options.backend;
  if (backend_options.threads == 0 && bytes.size() < one_thread_bytes) backend_options.threads = 1;
  Result<std::unique_ptr<compute::Backend>> backend = compute::make_backend(backend_options);
  if (!backend) return Error{backend.error()};
  runtime->backend_ = std::move(*backend);

  compute::StepLimits limits{options.step_rows, options.outputs, 1, 0};
  Result<std::unique_ptr<model::Model>> model = model::make_model(file, bytes, *runtime->backend_, limits);
  if (!model) return Error{model.error()};
  runtime->model_ = std::move(*model);
  const model::Config& config = runtime->model_->config();

  compute::KvShape shape{options.kv_type, config.layers, config.kv_heads, config.head_dim, 0};
  const MemoryNeed need{runtime->model_->weight_bytes(), runtime->model_->scratch_bytes(), shape.block_bytes()};
  Result<int64_t> context = fit_context(options.context, config.trained_context, need, options.available_bytes);
  if (!context) return Error{context.error()};
  runtime->context_ = *context;
  limits.blocks_per_sequence = (*context + compute::kv_block_positions - 1) / compute::kv_block_positions;
  shape.blocks = limits.blocks_per_sequence;
  Result<compute::KvCache> kv = runtime->backend_->allocate_kv(shape);
  if (!kv) return Error{kv.error()};
  runtime->kv_ = *kv;
  runtime->pool_ = std::make_unique<cache::BlockPool>(shape.blocks);
  runtime->step_ = compute::StepData(limits);

  Result<Words> words = find_words(file, runtime->model_->vocabulary());
  if (!words) return Error{words.error()};
  runtime->end_ids_ = std::move(words->end_ids);
  runtime->knows_tokens_ = words->known;
  runtime->token_texts_ = std::move(words->texts);
  return runtime;
}

Result<std::unique_ptr<Runtime>> Runtime::load(const std::string& path, const RuntimeOptions& options,
                                               const std::function<bool(double)>& progress) {
  Result<std::unique_ptr<gguf::ByteSource>> source = gguf::open_pread(path);
  if (!source) return Error{source.error()};
  Result<gguf::File> file = gguf::File::parse(**source);
  if (!file) return Error{path + ": " + file.error()};
  Result<gguf::Mapping> mapping = gguf::Mapping::open(path);
  if (!mapping) return Error{mapping.error()};
  Result<std::unique_ptr<Runtime>> runtime = make(*file, mapping->bytes(), options);
  if (!runtime) return Error{path + ": " + runtime.error()};
  (*runtime)->mapping_ = std::move(*mapping);
  if (!read_in((*runtime)->mapping_->bytes(), progress)) return Error{"the load was stopped"};
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
  backend_->upload(step_);
  const compute::RunOutcome outcome = backend_->run([&](compute::Ops& ops) { model_->forward(ops, kv_, rows, outputs); });
  if (outcome == compute::RunOutcome::finished) sequence.commit(tokens);
  return outcome;
}

void Runtime::read_scores(int64_t output, std::span<float> scores) {
  backend_->read(model_->scores(), output * model_->vocabulary(), scores);
}

}  // namespace vigil::schedule
