// The life of one request inside the engine.
#include "engine/schedule/slot.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <random>
#include <string>


namespace vigil::schedule {
namespace {

uint64_t fresh_entropy() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

// Microseconds are as fine as anybody reads.
double milliseconds(Duration duration) { return std::round(seconds(duration) * 1e6) / 1e3; }

}  // namespace

Result<void> check_ids(const std::vector<TokenId>& ids, int64_t vocabulary, int64_t context) {
  if (ids.empty()) return Error{"the prompt has no ids"};
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocabulary) {
      return Error{"prompt id " + std::to_string(ids[i]) + " at place " + std::to_string(i) + " is not between 0 and " +
                   std::to_string(vocabulary - 1)};
    }
  }
  if (static_cast<int64_t>(ids.size()) >= context) {
    return Error{"the prompt of " + std::to_string(ids.size()) + " tokens leaves no room in the context of " + std::to_string(context)};
  }
  return {};
}

double Slot::ms_since(TimePoint start) const { return milliseconds(clock_() - start); }

Slot::Slot(Runtime& runtime, double step_ms, Clock clock)
    : runtime_(runtime), clock_(std::move(clock)), sequence_(runtime.pool()), sizer_(step_ms, runtime.step_rows()),
      scores_(static_cast<size_t>(runtime.model().vocabulary())) {}

void Slot::run(const Request& request, const Emit& emit) {
  Progress progress;
  progress.started = clock_();
  Result<const char*> finish = Error{"internal error"};
  try {
    finish = generate(request, emit, progress);
  } catch (const std::exception& failure) {  // one request's failure is not the engine's
    finish = Error{std::string("internal error: ") + failure.what()};
  }
  if (!finish) {
    emit(protocol::EngineError{finish.error()});
    return;
  }
  protocol::Done done;
  done.generated = progress.generated;
  // What was really read: all of the prompt once prefill has ended.
  done.prompt = progress.prefill_done ? static_cast<int64_t>(request.ids.size()) : sequence_.length();
  done.prompt_ms = progress.prefill_done ? milliseconds(progress.prefilled - progress.started) : ms_since(progress.started);
  done.decode_ms = progress.prefill_done ? ms_since(progress.prefilled) : 0;
  done.finish = *finish;
  emit(std::move(done));
}

Result<const char*> Slot::generate(const Request& request, const Emit& emit, Progress& progress) {
  if (Result<void> usable = check_ids(request.ids, runtime_.model().vocabulary(), runtime_.context()); !usable) return Error{usable.error()};
  Result<bool> read = prefill(request, emit, progress);
  if (!read) return Error{read.error()};
  if (!*read) return "cancel";
  sample::Sampler sampler(request.settings, request.settings.seed ? 0 : fresh_entropy());
  sample::Constraint constraint(request.constraint, masks_.get(request.constraint), runtime_.end_ids());
  const int64_t room = runtime_.context() - static_cast<int64_t>(request.ids.size());
  const int64_t most = std::min(request.max_new, room);
  while (progress.generated < most) {
    if (aborted()) return "cancel";
    protocol::Token token;
    runtime_.read_scores(0, scores_);
    std::vector<float> raw;
    if (request.settings.logprobs) raw = scores_;
    const Result<std::optional<TokenId>> picked = next_token(sampler, constraint);
    if (!picked) return Error{picked.error()};
    if (!*picked || runtime_.ends(**picked)) return "stop";
    const TokenId id = token.id = **picked;
    if (Result<void> fits = constraint.accept(id); !fits) return Error{fits.error()};
    if (request.settings.logprobs) sample::add_logprobs(raw, *request.settings.logprobs, token);
    emit(std::move(token));
    ++progress.generated;
    if (progress.generated == most) break;  // the last token needs no scores after it
    if (!sequence_.reserve(1)) return Error{"the KV cache has no free block"};
    if (runtime_.step(sequence_, std::span(&id, 1), 1) == compute::RunOutcome::aborted) return "cancel";
  }
  return "length";
}

Result<std::optional<TokenId>> Slot::next_token(sample::Sampler& sampler, sample::Constraint& constraint) {
  if (const std::optional<TokenId> id = constraint.forced()) return id;
  return sampler.pick(scores_, sequence_.tokens(), constraint);
}

Result<bool> Slot::prefill(const Request& request, const Emit& emit, Progress& progress) {
  const std::span<const TokenId> ids(request.ids);
  const int64_t total = static_cast<int64_t>(ids.size());
  const int64_t reused = sequence_.reusable(ids);
  sequence_.truncate(reused);
  if (reused > 0) emit(protocol::Resume{reused});
  while (sequence_.length() < total) {
    const int64_t done = sequence_.length();
    const int64_t count = std::min(total - done, sizer_.tokens());
    if (!sequence_.reserve(count)) return Error{"the KV cache has no free block"};
    const TimePoint chunk_start = clock_();
    const int64_t outputs = done + count == total ? 1 : 0;
    const auto chunk = ids.subspan(static_cast<size_t>(done), static_cast<size_t>(count));
    if (aborted() || runtime_.step(sequence_, chunk, outputs) == compute::RunOutcome::aborted) return false;
    sizer_.finished(count, ms_since(chunk_start));
    const double ms = ms_since(progress.started);
    emit(protocol::PromptProgress{done + count, total, ms, std::round(static_cast<double>(done + count - reused) * 1e4 / std::max(ms, 1e-3)) / 10});
  }
  progress.prefilled = clock_();
  progress.prefill_done = true;
  return true;
}

}  // namespace vigil::schedule
