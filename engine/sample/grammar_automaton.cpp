// The subset construction, one step at a time, over places of a pushdown automaton whose stacks are shared: equal stacks are one number.
#include "engine/sample/grammar_automaton.hpp"

#include <algorithm>
#include <utility>

namespace vigil::sample {
namespace {

using Kind = Program::Kind;

}  // namespace

Automaton::Automaton(std::shared_ptr<const Program> program) : program_(std::move(program)), classes_(program_->classes()) {
  reset();
  begin_operation();
  work_.push_back(place(program_->start, 0));
  start_ = close();
}

void Automaton::reset() {
  frames_.assign(1, Frame{});
  frame_ids_.clear();
  state_ids_.clear();
  places_.clear();
  states_.clear();
  next_.clear();
  found_.clear();
  intern(false);  // the dead one
  std::fill(next_.begin(), next_.end(), dead);
}

void Automaton::begin_operation() {
  worked_ = 0;
  overflowed_ = false;
}

uint32_t Automaton::push(Frame frame) {
  const auto hash = [this](const Frame& f) { return mix((uint64_t{f.node} << 32 | f.below) + mix(f.count)); };
  const auto fresh = static_cast<uint32_t>(frames_.size());
  const uint32_t index = frame_ids_.find_or_add(
      hash(frame), fresh, [&](uint32_t i) { return frames_[i] == frame; }, [&](uint32_t i) { return hash(frames_[i]); });
  if (index == fresh) frames_.push_back(frame);
  return index;
}

bool Automaton::first_visit(uint64_t where) {
  if ((visited_count_ + 1) * 2 > visited_.size()) {
    std::vector<Visited> old(visited_.empty() ? 256 : visited_.size() * 2);
    old.swap(visited_);
    for (const Visited& entry : old) {
      if (entry.round != round_) continue;
      size_t at = mix(entry.place) & (visited_.size() - 1);
      while (visited_[at].round == round_) at = (at + 1) & (visited_.size() - 1);
      visited_[at] = entry;
    }
  }
  for (size_t at = mix(where) & (visited_.size() - 1);; at = (at + 1) & (visited_.size() - 1)) {
    if (visited_[at].round != round_) {
      visited_[at] = {where, round_};
      ++visited_count_;
      return true;
    }
    if (visited_[at].place == where) return false;
  }
}

// Follows one place without reading: into rules, through choices, out of what has ended.
void Automaton::visit(uint64_t where) {
  const auto index = static_cast<uint32_t>(where >> 32), top = static_cast<uint32_t>(where);
  const Program::Node& node = program_->nodes[index];
  switch (node.kind) {
    case Kind::bytes:
    case Kind::token: found_.push_back(where); return;
    case Kind::split:
      for (uint32_t t = node.end; t-- > node.begin;) work_.push_back(place(program_->targets[t], top));
      return;
    case Kind::call:
      // A call with nothing behind it needs no way back: lists that are written as recursion keep a flat stack.
      work_.push_back(place(node.begin, program_->nodes[node.next].kind == Kind::finish ? top : push({node.next, 0, top})));
      return;
    case Kind::finish:
      if (top == 0) {
        found_end_ = true;
      } else {
        work_.push_back(place(frames_[top].node, frames_[top].below));
      }
      return;
    case Kind::count: {
      const Program::Repeat& repeat = program_->repeats[node.begin];
      if (repeat.min == 0) work_.push_back(place(repeat.next, top));
      work_.push_back(place(repeat.body, push({node.begin, 1, top})));
      return;
    }
    case Kind::count_again: {
      const Program::Repeat& repeat = program_->repeats[node.begin];
      const Frame frame = frames_[top];
      if (frame.count >= repeat.min) work_.push_back(place(repeat.next, frame.below));
      if (repeat.max == protocol::gbnf::unbounded) {
        work_.push_back(place(repeat.body, push({node.begin, std::min(frame.count + 1, std::max(repeat.min, 1u)), frame.below})));
      } else if (frame.count < repeat.max) {
        work_.push_back(place(repeat.body, push({node.begin, frame.count + 1, frame.below})));
      }
      return;
    }
  }
}

Automaton::State Automaton::close() {
  found_.clear();
  found_end_ = false;
  ++round_;
  visited_count_ = 0;
  while (!work_.empty()) {
    const uint64_t where = work_.back();
    work_.pop_back();
    if (!first_visit(where)) continue;
    if (++worked_ > max_automaton_work || frames_.size() * sizeof(Frame) > max_automaton_bytes) {
      overflowed_ = true;
      work_.clear();
      return dead;
    }
    visit(where);
  }
  std::sort(found_.begin(), found_.end());
  return intern(found_end_);
}

Automaton::State Automaton::intern(bool accepts) {
  const auto hash_list = [](const uint64_t* list, size_t count, bool end) {
    uint64_t hash = end ? 1 : 0;
    for (size_t i = 0; i < count; ++i) hash = mix(hash + list[i]);
    return hash;
  };
  const auto fresh = static_cast<uint32_t>(states_.size());
  const uint32_t index = state_ids_.find_or_add(
      hash_list(found_.data(), found_.size(), accepts), fresh,
      [&](uint32_t i) {
        const StateData& state = states_[i];
        return state.accepts == accepts && state.count == found_.size() && std::equal(found_.begin(), found_.end(), places_.begin() + state.begin);
      },
      [&](uint32_t i) { return hash_list(places_.data() + states_[i].begin, states_[i].count, states_[i].accepts); });
  if (index != fresh) return index;
  if (bytes() > max_automaton_bytes) overflowed_ = true;
  states_.push_back({static_cast<uint32_t>(places_.size()), static_cast<uint32_t>(found_.size()), accepts});
  places_.insert(places_.end(), found_.begin(), found_.end());
  next_.resize(next_.size() + classes_, unknown);
  return fresh;
}

Automaton::State Automaton::make_step(State state, uint8_t byte_class) {
  if (overflowed_) return dead;
  const uint8_t byte = program_->class_byte[byte_class];
  const StateData data = states_[state];
  worked_ += data.count;
  for (uint32_t i = 0; i < data.count; ++i) {
    const uint64_t where = places_[data.begin + i];
    const Program::Node& node = program_->nodes[where >> 32];
    if (node.kind != Kind::bytes) continue;
    for (uint32_t e = node.begin; e < node.end; ++e) {
      const Program::Edge& edge = program_->edges[e];
      if (edge.first <= byte && byte <= edge.last) work_.push_back(place(edge.target, static_cast<uint32_t>(where)));
    }
  }
  const State made = work_.empty() ? dead : close();
  if (!overflowed_) next_[size_t{state} * classes_ + byte_class] = made;
  return made;
}

Automaton::State Automaton::step_token(State state, int32_t id, std::string_view bytes) {
  State read = bytes.empty() ? dead : state;
  for (const char byte : bytes) read = step(read, static_cast<uint8_t>(byte));
  if (!program_->has_tokens) return read;
  const StateData data = states_[state];
  for (uint32_t i = 0; i < data.count; ++i) {
    const uint64_t where = places_[data.begin + i];
    const Program::Node& node = program_->nodes[where >> 32];
    if (node.kind == Kind::token && node.begin == static_cast<uint32_t>(id)) work_.push_back(place(node.next, static_cast<uint32_t>(where)));
  }
  if (work_.empty()) return read;
  const State named = close();
  if (read == dead || overflowed_) return named;
  const StateData a = states_[read], b = states_[named];
  found_.assign(places_.begin() + a.begin, places_.begin() + a.begin + a.count);
  found_.insert(found_.end(), places_.begin() + b.begin, places_.begin() + b.begin + b.count);
  std::sort(found_.begin(), found_.end());
  found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
  return intern(a.accepts || b.accepts);
}

void Automaton::named_tokens(State state, std::vector<int32_t>& ids) const {
  if (!program_->has_tokens) return;
  const StateData& data = states_[state];
  for (uint32_t i = 0; i < data.count; ++i) {
    const Program::Node& node = program_->nodes[places_[data.begin + i] >> 32];
    if (node.kind == Kind::token) ids.push_back(static_cast<int32_t>(node.begin));
  }
}

size_t Automaton::bytes() const {
  return frames_.capacity() * sizeof(Frame) + states_.capacity() * sizeof(StateData) + places_.capacity() * sizeof(uint64_t) +
         next_.capacity() * sizeof(State) + frame_ids_.bytes() + state_ids_.bytes() + visited_.capacity() * sizeof(Visited);
}

void Automaton::compact(std::span<State* const> keep) {
  struct Kept {
    State* state;
    std::vector<uint64_t> places;
    bool accepts;
  };
  std::vector<Kept> kept;
  std::vector<bool> needed(frames_.size());
  const auto take = [&](State* state) {
    const StateData& data = states_[*state];
    kept.push_back({state, {places_.begin() + data.begin, places_.begin() + data.begin + data.count}, data.accepts});
    for (const uint64_t where : kept.back().places) needed[static_cast<uint32_t>(where)] = true;
  };
  take(&start_);
  for (State* state : keep) take(state);
  const std::vector<Frame> old = std::exchange(frames_, {});
  for (size_t i = old.size(); i-- > 1;) {  // what is below has a smaller number
    if (needed[i]) needed[old[i].below] = true;
  }
  reset();
  for (auto* large : {&places_, &found_, &work_}) large->shrink_to_fit();
  next_.shrink_to_fit();
  visited_ = std::vector<Visited>();
  visited_count_ = 0;
  std::vector<uint32_t> renamed(old.size());
  for (size_t i = 1; i < old.size(); ++i) {
    if (needed[i]) renamed[i] = push({old[i].node, old[i].count, renamed[old[i].below]});
  }
  for (Kept& one : kept) {
    found_.clear();
    for (const uint64_t where : one.places) found_.push_back(place(static_cast<uint32_t>(where >> 32), renamed[static_cast<uint32_t>(where)]));
    std::sort(found_.begin(), found_.end());
    *one.state = intern(one.accepts);
  }
}

}  // namespace vigil::sample
