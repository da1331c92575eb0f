// One place where a request runs: prefill in chunks, then token by token, on one cached sequence that the next request may continue.
// Says what happens in protocol events. Not here: which request comes next, who reads the lines.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/cache/sequence.hpp"
#include "engine/sample/grammar_shelf.hpp"
#include "engine/sample/settings.hpp"
#include "engine/schedule/chunk_sizer.hpp"
#include "engine/schedule/runtime.hpp"
#include "engine/sample/sampler.hpp"
#include "protocol/lines.hpp"
#include "protocol/time.hpp"

namespace vigil::schedule {

struct Request {
  std::optional<protocol::RequestTag> tag;
  int64_t max_new = 0;  // tokens; 0 = only read the prompt
  std::vector<TokenId> ids;
  sample::Settings settings;
  sample::ConstraintPlan constraint = {};
};

// Whether the ids can be run at all: at least one, all in the vocabulary, room for one token more in the context.
Result<void> check_ids(const std::vector<TokenId>& ids, int64_t vocabulary, int64_t context);

class Slot {
 public:
  using Emit = std::function<void(protocol::EngineEvent)>;
  using Clock = std::function<TimePoint()>;

  Slot(Runtime& runtime, double step_ms, Clock clock);

  // Emits RESUME, PP, T and exactly one of DONE and ERR. Ends early when the backend's abort flag is set by another thread; the flag is
  // the caller's to clear. What was computed before stays in the cache.
  void run(const Request& request, const Emit& emit);

 private:
  struct Progress {
    int64_t generated = 0;
    TimePoint started, prefilled;
    bool prefill_done = false;
  };
  // The word that DONE ends with.
  Result<const char*> generate(const Request& request, const Emit& emit, Progress& progress);
  // The next token, chosen or forced; nothing when a grammar leaves nothing but the end.
  Result<std::optional<TokenId>> next_token(sample::Sampler& sampler, sample::Constraint& constraint);
  Result<bool> prefill(const Request& request, const Emit& emit, Progress& progress);  // false = aborted
  bool aborted() const { return runtime_.backend().control().abort.load(); }
  double ms_since(TimePoint start) const;

  Runtime& runtime_;
  const Clock clock_;
  cache::Sequence sequence_;
  ChunkSizer sizer_;
  std::vector<float> scores_;  // [vocabulary]
  sample::MaskShelf masks_;
};

}  // namespace vigil::schedule
