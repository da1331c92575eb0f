// Handles are those of the first place, or of memory of their own; what they stand for in each place is looked up.
#include "engine/compute/split_backend.hpp"

#include <algorithm>
#include <cassert>
#include <charconv>

#include "engine/compute/split_ops.hpp"

namespace vigil::compute {

SplitBackend::SplitBackend(std::vector<std::shared_ptr<Backend>> places, LayerPlaces layers)
    : places_(std::move(places)), layers_(std::move(layers)), experts_(places_, layers_.experts), shares_(places_.size()), notes_taken_(places_.size(), 0) {
  for (size_t i = 0; i < places_.size(); ++i) {
    places_[i]->count_with(*this);
    name_ += (i > 0 ? " + " : "") + std::string(places_[i]->name());
    shares_[i].name = places_[i]->name();
  }
}
SplitBackend::~SplitBackend() = default;

bool SplitBackend::on_gpu() const {
  return std::any_of(places_.begin(), places_.end(), [](const auto& place) { return place->on_gpu(); });
}

std::optional<size_t> SplitBackend::layer_in(std::string_view tensor_name) {
  constexpr std::string_view block = "blk.";
  size_t layer = 0;
  if (!tensor_name.starts_with(block)) return std::nullopt;
  const auto [end, error] = std::from_chars(tensor_name.data() + block.size(), tensor_name.data() + tensor_name.size(), layer);
  return error == std::errc{} ? std::optional(layer) : std::nullopt;
}

Result<Weight> SplitBackend::bind(std::string_view tensor_name, gguf::TensorType type, int64_t rows, int64_t cols, std::span<const std::byte> bytes,
                                  WeightUse use) {
  const std::optional<size_t> layer = layer_in(tensor_name);
  const size_t own = layer && *layer < layers_.layers.size() ? layers_.layers[*layer] : use == WeightUse::lookup ? layers_.embedding : layers_.output;
  const bool apart = layer && SplitExperts::has_experts(tensor_name);
  const size_t place = apart ? experts_.home_of(*layer, own) : own;
  Result<Weight> weight = places_[place]->bind(tensor_name, type, rows, cols, bytes, use);
  if (!weight) return weight;
  weights_[weight->address] = place;
  if (counted_.emplace(std::pair(bytes.data(), place), true).second) shares_[place].weights += bytes.size();
  if (place != own) {
    const Result<SplitExperts::Taken> taken = experts_.bind(tensor_name, *layer, own, type, bytes, *weight, use);
    if (!taken) return Error{taken.error()};
    shares_[own].weights += taken->weights;
    shares_[own].buffers += taken->buffers;
  }
  return weight;
}

bool SplitBackend::prepare(const std::function<bool(double)>& progress, const std::function<void(std::span<const std::byte>)>& release) {
  double all = static_cast<double>(experts_.slot_bytes()), done = 0, mine = all;
  for (const MemoryShare& share : shares_) all += static_cast<double>(share.weights);
  const auto part = [&](double share) { return progress(all > 0 ? (done + mine * share) / all : share); };
  if (!experts_.prepare(part, release)) return false;
  for (size_t i = 0; i < places_.size(); ++i) {
    done += mine;
    mine = static_cast<double>(shares_[i].weights);
    if (!places_[i]->prepare(part, release)) return false;
  }
  take_notes();
  return true;
}

void SplitBackend::take_notes() {
  for (size_t i = 0; i < places_.size(); ++i) {
    const std::vector<std::string>& notes = places_[i]->notes();
    for (; notes_taken_[i] < notes.size(); ++notes_taken_[i]) add_note(std::string(places_[i]->name()) + ": " + notes[notes_taken_[i]]);
  }
}

Rope SplitBackend::bind_rope(RopeKind kind, std::span<const double> frequencies, double magnitude, std::span<const uint8_t> axes) {
  std::vector<Rope> made;
  for (const auto& place : places_) made.push_back(place->bind_rope(kind, frequencies, magnitude, axes));
  const Rope handle = made.front();
  if (handle.frequencies != nullptr) ropes_[handle.frequencies] = std::move(made);
  return handle;
}

Result<Buffer> SplitBackend::allocate(int64_t floats) {
  SplitBuffer made{{}, std::vector<char>(places_.size(), true), 0};
  for (size_t i = 0; i < places_.size(); ++i) {
    Result<Buffer> buffer = places_[i]->allocate(floats);
    if (!buffer) return Error{shares_[i].name + ": " + buffer.error()};
    made.in.push_back(*buffer);
    shares_[i].buffers += static_cast<uint64_t>(floats) * sizeof(float);
  }
  const Buffer handle = made.in.front();
  buffers_[handle.address] = std::move(made);
  return handle;
}

void SplitBackend::learn(const std::function<void(Ops&)>& forward) {
  kv_places_.clear();
  window_places_.clear();
  state_places_.clear();
  SplitOps pass(*this);
  forward(pass);
  for (MemoryShare& share : shares_) share.kv_layers = share.window_layers = share.state_layers = 0;
  for (const size_t place : kv_places_) ++shares_[place].kv_layers;
  for (const size_t place : window_places_) ++shares_[place].window_layers;
  for (const size_t place : state_places_) ++shares_[place].state_layers;
  for (auto& [address, buffer] : buffers_) std::fill(buffer.current.begin(), buffer.current.end(), true);  // nothing was computed
}

Result<KvCache> SplitBackend::allocate_kv(const KvShape& shape) {
  const std::vector<size_t>& layer_places = kv_places(shape.table);
  assert(static_cast<size_t>(shape.layers) == layer_places.size());
  SplitCache<KvCache> made;
  for (size_t i = 0; i < places_.size(); ++i) {
    KvShape mine = shape;
    mine.layers = std::count(layer_places.begin(), layer_places.end(), i);
    Result<KvCache> cache = mine.layers > 0 ? places_[i]->allocate_kv(mine) : KvCache{mine, nullptr};
    if (!cache) return Error{shares_[i].name + ": " + cache.error()};
    made.in.push_back(*cache);
  }
  std::vector<int64_t> used(places_.size(), 0);
  for (const size_t place : layer_places) made.local.push_back(used[place]++);
  std::byte* address = nullptr;
  for (const KvCache& cache : made.in) address = address == nullptr ? cache.address : address;
  kv_[address] = std::move(made);
  return KvCache{shape, address};
}

Result<StateCache> SplitBackend::allocate_states(const StateShape& shape) {
  assert(static_cast<size_t>(shape.layers) == state_places_.size());
  SplitCache<StateCache> made;
  for (size_t i = 0; i < places_.size(); ++i) {
    StateShape mine = shape;
    mine.layers = shares_[i].state_layers;
    Result<StateCache> cache = mine.layers > 0 ? places_[i]->allocate_states(mine) : StateCache{mine, nullptr};
    if (!cache) return Error{shares_[i].name + ": " + cache.error()};
    made.in.push_back(*cache);
  }
  std::vector<int64_t> used(places_.size(), 0);
  for (const size_t place : state_places_) made.local.push_back(used[place]++);
  float* address = nullptr;
  for (const StateCache& cache : made.in) address = address == nullptr ? cache.address : address;
  states_[address] = std::move(made);
  return StateCache{shape, address};
}

std::vector<MemoryShare> SplitBackend::memory_shares() {
  for (size_t i = 0; i < places_.size(); ++i) shares_[i].own = places_[i]->own_memory();
  return shares_;
}

Result<void> SplitBackend::reserve(const std::function<void(Ops&)>& forward) {
  SplitOps pass(*this);
  forward(pass);
  for (size_t i = 0; i < places_.size(); ++i) {
    Result<void> reserved = places_[i]->reserve([&](Ops& ops) {
      for (const SplitOps::Piece& piece : pass.pieces()) {
        if (piece.place != i) continue;
        for (const auto& op : piece.ops) op(ops);
      }
    });
    if (!reserved) return Error{shares_[i].name + ": " + reserved.error()};
  }
  for (auto& [address, buffer] : buffers_) std::fill(buffer.current.begin(), buffer.current.end(), true);  // nothing was computed
  return {};
}

bool SplitBackend::copy_block(const KvCache& cache, int32_t from, int32_t to) {
  const SplitCache<KvCache>& known = kv_.at(cache.address);
  for (size_t i = 0; i < places_.size(); ++i) {
    if (known.in[i].shape.layers > 0 && !places_[i]->copy_block(known.in[i], from, to)) return false;
  }
  return true;
}

SplitBackend::LayerOfCache<KvCache> SplitBackend::own(const KvCache& cache, int64_t layer, size_t place) const {
  if (cache.address == nullptr) return {cache, layer};  // a pass that is learned from
  const SplitCache<KvCache>& known = kv_.at(cache.address);
  return {known.in[place], known.local[static_cast<size_t>(layer)]};
}

SplitBackend::LayerOfCache<StateCache> SplitBackend::own(const StateCache& cache, int64_t layer, size_t place) const {
  if (cache.address == nullptr) return {cache, layer};
  const SplitCache<StateCache>& known = states_.at(cache.address);
  return {known.in[place], known.local[static_cast<size_t>(layer)]};
}

void SplitBackend::upload(StepData& step) {
  for (const auto& place : places_) place->upload(step);
}

RunOutcome SplitBackend::run(const std::function<void(Ops&)>& forward, const RunKind& kind) {
  SplitOps pass(*this);
  forward(pass);
  const RunOutcome outcome = run_pieces(pass, kind);
  for (const auto& place : places_) place->finish();  // after an abort too: what was issued still writes
  return outcome;
}

RunOutcome SplitBackend::run_pieces(const SplitOps& pass, const RunKind& kind) {
  for (const SplitOps::Piece& piece : pass.pieces()) {
    for (const SplitOps::Brought& what : piece.brought) {
      passing_.resize(static_cast<size_t>(what.floats));
      places_[what.from]->read(what.buffer->in[what.from], 0, passing_);
      places_[piece.place]->write(what.buffer->in[piece.place], 0, passing_);
    }
    RunKind part = kind;
    part.first_op = piece.first_op;
    part.ops = static_cast<int64_t>(piece.ops.size());
    const auto ops_of_piece = [&](Ops& ops) {
      for (const auto& op : piece.ops) op(ops);
    };
    RunOutcome outcome = RunOutcome::finished;
    if (!piece.experts || experts_.look(*piece.experts) > 0) outcome = places_[piece.place]->start(ops_of_piece, part);
    if (piece.experts && outcome == RunOutcome::finished) outcome = experts_.compute(*piece.experts);
    take_notes();
    if (outcome == RunOutcome::aborted) return outcome;
  }
  return RunOutcome::finished;
}

void SplitBackend::read(Buffer from, int64_t offset, std::span<float> out) {
  const SplitBuffer& buffer = buffers_.at(from.address);
  const size_t place = static_cast<size_t>(std::find(buffer.current.begin(), buffer.current.end(), true) - buffer.current.begin());
  places_[place]->read(buffer.in[place], offset, out);
}

void SplitBackend::write(Buffer to, int64_t offset, std::span<const float> values) {
  SplitBuffer& buffer = buffers_.at(to.address);
  for (size_t i = 0; i < places_.size(); ++i) places_[i]->write(buffer.in[i], offset, values);
  buffer.floats = std::max(buffer.floats, offset + static_cast<int64_t>(values.size()));
}

}  // namespace vigil::compute
