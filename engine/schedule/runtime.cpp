// Order of a load: header, shapes, memory check, KV cache, bytes. Nothing large is touched before the check has passed.
#include "engine/schedule/runtime.hpp"

#include <algorithm>
#include <cassert>

#include "engine/gguf/vocabulary.hpp"
#include "engine/schedule/memory.hpp"
#include "engine/schedule/model_source.hpp"
#include "engine/schedule/vocabulary_match.hpp"

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

int64_t blocks_for(int64_t tokens) { return (tokens + compute::kv_block_positions - 1) / compute::kv_block_positions; }

size_t bytes_of(const model::Files& files) {
  size_t sum = 0;
  for (const model::FilePart& part : files.parts()) sum += part.bytes.size();
  return sum;
}

}  // namespace

compute::StepLimits largest_step(const RuntimeOptions& options) {
  const int64_t sampled = options.slots * (1 + options.speculate);
  return {options.step_rows + sampled, std::max(options.outputs, sampled), options.slots, 0};
}

int64_t window_blocks_needed(const model::Model& model, const RuntimeOptions& options) {
  if (model.window_layers() == 0) return 0;
  return cache::window_blocks_per_sequence(model.config().window, std::max(options.step_rows, 1 + options.speculate));
}

Result<std::unique_ptr<Runtime>> Runtime::make(const model::Files& files, const RuntimeOptions& options, const Progress& progress,
                                               const Release& release, const model::Files* draft) {
  if (Result<void> known = model::check_architecture(files.metadata()); !known) return Error{known.error()};
  RuntimeOptions mine = options;
  const size_t bytes = bytes_of(files) + (draft != nullptr ? bytes_of(*draft) : 0);
  if (mine.backend.threads == 0 && bytes < one_thread_bytes) mine.backend.threads = 1;
  Result<ModelPlaces> places = make_places(files, mine, largest_step(mine), draft);
  if (!places) return Error{places.error()};
  Result<std::unique_ptr<Runtime>> made = make_unread(files, mine, *places, draft);
  if (!made && places->experts_apart && mine.gpu_experts < 0) {  // nobody asked for that: RAM that cannot have all experts may have whole layers
    places = ModelPlaces{};  // their memory goes first
    mine.gpu_experts = INT64_MAX;
    places = make_places(files, mine, largest_step(mine), draft);
    if (!places) return Error{places.error()};
    places->model->add_note("layers are whole, experts in RAM are not possible: " + made.error());
    made = make_unread(files, mine, *places, draft);
  }
  const bool may_go_on_without_gpu = mine.backend.backend == "auto" && places->model->on_gpu();
  if (!made && may_go_on_without_gpu) {
    places = ModelPlaces{};
    mine.backend.backend = "cpu";
    mine.backend.make = {};
    places = make_places(files, mine, largest_step(mine), draft);
    if (!places) return Error{places.error()};
    places->model->add_note("computing on the CPU, the GPU cannot have the model: " + made.error());
    made = make_unread(files, mine, *places, draft);
  }
  if (made && !(*made)->backend_->prepare(progress, release)) return Error{"the load was stopped"};
  return made;
}

Result<std::unique_ptr<Runtime>> Runtime::make_unread(const model::Files& files, const RuntimeOptions& options, const ModelPlaces& places,
                                                      const model::Files* draft) {
  Result<std::unique_ptr<Runtime>> made = bind(files, options, places.model);
  if (!made) return Error{made.error()};
  Runtime& runtime = **made;
  if (draft != nullptr && runtime.speculate() > 0) {
    if (Result<void> bound = runtime.bind_draft(files, *draft, places.draft); !bound) return Error{"draft model " + options.draft_model + ": " + bound.error()};
  }
  if (Result<void> planned = runtime.plan_memory(places.draft_share); !planned) return Error{planned.error()};
  for (Runtime* each : {&runtime, runtime.draft()}) {
    if (each == nullptr) continue;
    Result<void> room = each->make_caches();
    if (room) room = each->reserve_largest_step();
    if (!room) return Error{(each == &runtime ? "" : "draft model " + options.draft_model + ": ") + room.error()};
  }

  Result<Words> words = find_words(files.metadata(), runtime.model_->vocabulary());
  if (!words) return Error{words.error()};
  runtime.end_ids_ = std::move(words->end_ids);
  runtime.knows_tokens_ = words->known;
  runtime.token_texts_ = std::move(words->texts);
  return made;
}

// The model, and nothing but its weights and activations.
Result<std::unique_ptr<Runtime>> Runtime::bind(const model::Files& files, const RuntimeOptions& options, std::shared_ptr<compute::Backend> backend) {
  std::unique_ptr<Runtime> runtime(new Runtime);
  runtime->options_ = options;
  runtime->backend_ = std::move(backend);
  Result<std::unique_ptr<model::Model>> model = model::make_model(files, *runtime->backend_, largest_step(options));
  if (!model) return Error{model.error()};
  runtime->model_ = std::move(*model);
  if (runtime->model_->state_shape().layers > 0 && options.speculate > 0) {
    runtime->options_.speculate = 0;
    runtime->backend_->add_note("guessing ahead is off: the recurrent state of " + runtime->model_->config().architecture +
                                " cannot be cut back behind a wrong guess");
  }
  const model::Model& made = *runtime->model_;
  const compute::Caches shapes{{runtime->kv_shape(), nullptr}, {runtime->window_kv_shape(), nullptr}, {made.state_shape(), nullptr}};
  runtime->backend_->learn([&](compute::Ops& ops) { made.forward(ops, shapes, 1, {1, 0}); });
  return runtime;
}

Result<void> Runtime::bind_draft(const model::Files& files, const model::Files& draft, std::shared_ptr<compute::Backend> backend) {
  if (Result<void> same = check_same_vocabulary(files, draft); !same) return same;
  RuntimeOptions options = options_;
  options.speculate = 0;
  options.outputs = 1;
  options.step_rows = std::max(options_.step_rows, options_.slots * (1 + options_.speculate));  // it reads what was guessed, and what came of it
  Result<std::unique_ptr<Runtime>> bound = bind(draft, options, std::move(backend));
  if (!bound) return Error{bound.error()};
  const model::Model& model = (*bound)->model();
  if (model.state_shape().layers > 0) {
    return Error{"the recurrent state of " + model.config().architecture + " cannot be cut back behind a wrong guess, so it cannot guess"};
  }
  draft_ = std::move(*bound);
  return {};
}

Result<void> Runtime::plan_memory(size_t draft_share) {
  const model::Config& config = model_->config();
  MemoryNeed need{model_->weight_bytes(), model_->scratch_bytes(), kv_shape().block_bytes(), model_->state_shape().slot_bytes()};
  need.window = {window_kv_shape().block_bytes(), window_blocks_needed(*model_, options_)};
  DraftNeed draft;
  if (draft_) {
    const model::Model& model = draft_->model();
    draft = {model.weight_bytes() + model.scratch_bytes(), draft_->kv_shape().block_bytes(), blocks_for(model.config().trained_context)};
    draft_->plan_.window_blocks = std::min(draft.most_blocks, window_blocks_needed(model, draft_->options_)) * options_.slots;
    draft.fixed += draft_->window_kv_shape().bytes();
  }
  std::vector<PlaceMemory> places;
  const auto add = [&](const std::string& name, const MemoryNeed& mine, std::optional<uint64_t> own) {
    const uint64_t reserve = options_.gpu_reserve_mib < 0 ? own.value_or(0) / 100 * gpu_reserve_percent : static_cast<uint64_t>(options_.gpu_reserve_mib) << 20;
    if (own) places.push_back({name, mine, std::max<uint64_t>(1, *own - std::min(*own, reserve)), 100});
    else places.push_back({name, mine, options_.available_bytes, memory_percent});
  };
  const std::vector<compute::MemoryShare> shares = backend_->memory_shares();
  for (size_t i = 0; i < shares.size(); ++i) {
    const compute::MemoryShare& share = shares[i];
    const auto part = [](uint64_t bytes, int64_t layers, int64_t of) { return of > 0 ? bytes / static_cast<uint64_t>(of) * static_cast<uint64_t>(layers) : 0; };
    add(share.name, {share.weights, share.buffers, part(need.kv_block, share.kv_layers, kv_shape().layers), part(need.state, share.state_layers, model_->state_shape().layers),
                     i == draft_share ? draft : DraftNeed{},
                     {part(need.window.kv_block, share.window_layers, window_kv_shape().layers), share.window_layers > 0 ? need.window.most_blocks : 0}}, share.own);
  }
  need.draft = draft;
  if (shares.empty()) add("", need, backend_->own_memory());
  Result<CachePlan> plan = plan_caches({options_.context, config.trained_context, options_.slots, options_.cache_mib}, places);
  if (!plan) return Error{plan.error()};
  plan_ = *plan;
  if (draft_) {
    draft_->plan_.context = std::min(plan_.context, draft_->model().config().trained_context);
    draft_->plan_.blocks = plan_.draft_blocks;
  }
  return {};
}

Result<void> Runtime::make_caches() {
  const compute::KvShape shape = kv_shape();
  Result<compute::KvCache> kv = backend_->allocate_kv(shape);
  if (!kv) return Error{kv.error()};
  caches_.kv = *kv;
  cache::Window window;
  if (const compute::KvShape window_shape = window_kv_shape(); window_shape.layers > 0) {
    Result<compute::KvCache> window_kv = backend_->allocate_kv(window_shape);
    if (!window_kv) return Error{window_kv.error()};
    caches_.window_kv = *window_kv;
    const int64_t positions = model_->config().window;
    window = {positions, window_shape.blocks, plan_.parked_blocks > 0 ? cache::window_checkpoint_tokens(positions) : 0};
  }
  compute::StateShape states = model_->state_shape();
  if (states.layers > 0) {
    states.slots = plan_.states;
    Result<compute::StateCache> made = backend_->allocate_states(states);
    if (!made) return Error{made.error()};
    caches_.states = *made;
  }
  pools_ = std::make_unique<cache::Pools>(shape.blocks, states.slots, window);
  step_ = compute::StepData({most_rows(), most_rows(), options_.slots, blocks_for(plan_.context), window.positions > 0 ? compute::block_tables : 1});
  return {};
}

Result<void> Runtime::reserve_largest_step() {
  backend_->upload(step_);
  return backend_->reserve([&](compute::Ops& ops) { model_->forward(ops, caches_, most_rows(), {most_outputs(), 0}); });
}

Result<std::unique_ptr<Runtime>> Runtime::load(const std::string& path, const RuntimeOptions& options, const Progress& progress) {
  Result<ModelSource> source = ModelSource::open(path);
  if (!source) return Error{source.error()};
  std::optional<ModelSource> draft;
  std::optional<model::Files> draft_files;
  if (!options.draft_model.empty()) {
    Result<ModelSource> opened = ModelSource::open(options.draft_model);
    if (!opened) return Error{"draft model: " + opened.error()};
    draft_files = draft.emplace(std::move(*opened)).files();
  }
  Result<std::unique_ptr<Runtime>> runtime = make(source->files(), options, progress, gguf::Mapping::forget, draft_files ? &*draft_files : nullptr);
  if (!runtime) return Error{path + ": " + runtime.error()};
  (*runtime)->mappings_ = source->take_mappings();
  if ((*runtime)->draft_) (*runtime)->draft_->mappings_ = draft->take_mappings();
  return runtime;
}

bool Runtime::ends(TokenId id) const { return std::find(end_ids_.begin(), end_ids_.end(), id) != end_ids_.end(); }

std::shared_ptr<const sample::TokenTrie> Runtime::token_trie() {
  std::call_once(trie_once_, [this] {
    if (knows_tokens_) trie_ = std::make_shared<const sample::TokenTrie>(std::move(token_texts_));
  });
  return trie_;
}

void Runtime::fill_row(size_t row, TokenId id, int64_t position, const Pictures* pictures, int64_t& picture_rows) {
  const Pictures::Row place = pictures != nullptr ? pictures->at(position) : Pictures::Row();
  assert(id >= 0 || place.embedding != nullptr);
  step_.ids()[row] = std::max(id, 0);
  step_.positions()[row] = static_cast<int32_t>(position);
  step_.sources()[row] = 0;
  step_.ahead()[row] = place.ahead;
  for (int64_t axis = 0; axis < compute::rope_axes; ++axis) step_.shifts(axis)[row] = place.shifts[static_cast<size_t>(axis)];
  if (place.embedding == nullptr) return;
  const int64_t width = model_->config().width;
  backend_->write(model_->pictures(), picture_rows * width, {place.embedding, static_cast<size_t>(width)});
  step_.sources()[row] = static_cast<int32_t>(++picture_rows);
}

compute::RunOutcome Runtime::step(std::span<Part> parts) {
  int64_t rows = 0, scores = 0, hidden = 0, picture_rows = 0;
  for (Part& part : parts) {
    part.first_score = scores;
    scores += part.scores;
  }
  for (size_t p = 0; p < parts.size(); ++p) {
    Part& part = parts[p];
    const int64_t count = static_cast<int64_t>(part.tokens.size());
    assert(count >= 1 && part.scores <= count && rows + count <= step_.limits().rows && p < static_cast<size_t>(step_.limits().sequences));
    for (int64_t r = 0; r < count; ++r) {
      const size_t row = static_cast<size_t>(rows + r);
      fill_row(row, part.tokens[static_cast<size_t>(r)], part.sequence->length() + r, part.pictures, picture_rows);
      step_.sequences()[row] = static_cast<int32_t>(p);
    }
    for (int64_t s = 0; s < part.scores; ++s) {
      step_.outputs()[static_cast<size_t>(part.first_score + s)] = static_cast<int32_t>(rows + count - part.scores + s);
    }
    part.first_hidden = scores + hidden;
    for (int64_t r = 0; part.hidden && r < count; ++r) step_.outputs()[static_cast<size_t>(scores + hidden++)] = static_cast<int32_t>(rows + r);
    const auto blocks = part.sequence->blocks();
    std::copy(blocks.begin(), blocks.end(), step_.blocks(static_cast<int64_t>(p)).begin());
    if (const auto window_blocks = part.sequence->window_blocks(); !window_blocks.empty()) {
      std::copy(window_blocks.begin(), window_blocks.end(), step_.blocks(static_cast<int64_t>(p), compute::BlockTable::window).begin());
    }
    step_.states(static_cast<int64_t>(p))[0] = part.sequence->state_from();
    step_.states(static_cast<int64_t>(p))[1] = part.sequence->state_to();
    rows += count;
  }
  backend_->upload(step_);
  const auto forward = [&](compute::Ops& ops) { model_->forward(ops, caches_, rows, {scores, hidden}); };
  const compute::RunOutcome outcome = backend_->run(forward, {model_.get(), rows, scores, hidden});
  picked_.clear();
  if (outcome == compute::RunOutcome::finished) read_picked(scores);
  return outcome;
}

compute::RunOutcome Runtime::step(cache::Sequence& sequence, std::span<const TokenId> tokens, int64_t scores) {
  Part part{&sequence, tokens, nullptr, scores};
  const compute::RunOutcome outcome = step(std::span(&part, 1));
  if (outcome == compute::RunOutcome::finished) sequence.commit(tokens);
  return outcome;
}

void Runtime::read_picked(int64_t scores) {
  picked_words_.resize(static_cast<size_t>(2 * scores * model_->picks()));
  if (picked_words_.empty()) return;
  backend_->read(model_->picked(), 0, picked_words_);
  for (size_t i = 0; i < picked_words_.size(); i += 2) picked_.push_back({static_cast<TokenId>(picked_words_[i]), picked_words_[i + 1]});
}

std::span<const sample::Pick> Runtime::picked(int64_t score) const {
  const size_t count = static_cast<size_t>(model_->picks());
  return std::span(picked_).subspan(static_cast<size_t>(score) * count, count);
}

void Runtime::read_scores(int64_t score, std::span<float> scores) {
  backend_->read(model_->scores(), score * model_->vocabulary(), scores);
}

void Runtime::read_hidden(int64_t first, int64_t count, std::span<float> to) {
  const int64_t width = model_->config().width;
  backend_->read(model_->hidden(), first * width, to.first(static_cast<size_t>(count * width)));
}

cache::Conversations Runtime::make_conversations() {
  const auto copy = [this](compute::BlockTable kind, cache::BlockId from, cache::BlockId to) {
    return backend_->copy_block(kind == compute::BlockTable::whole ? caches_.kv : caches_.window_kv, from, to);
  };
  return {*pools_, copy, plan_.parked_blocks};
}

}  // namespace vigil::schedule
