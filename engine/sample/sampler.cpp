// Works on doubles after the penalties: extreme temperatures must not overflow.
#include "engine/sample/sampler.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace vigil::sample {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

bool usable(float score) { return score > -std::numeric_limits<float>::infinity(); }  // false for NaN as well

// Finite values stay finite; infinities and NaN pass.
float to_float(double value) {
  constexpr double largest = std::numeric_limits<float>::max();
  return static_cast<float>(std::isfinite(value) ? std::clamp(value, -largest, largest) : value);
}

// exp(a - b) where both may be plus infinity.
double weight_of(double score, double best) { return score == best ? 1.0 : std::exp(score - best); }

// The lowest id among the best; -1 when no score is usable.
TokenId best_of(std::span<const float> scores) {
  TokenId best = -1;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (usable(scores[i]) && (best < 0 || scores[i] > scores[static_cast<size_t>(best)])) best = static_cast<TokenId>(i);
  }
  return best;
}

// e^x for x up to 0, to a few units in the last place: x = n ln 2 + r, and the Taylor series of e^r. Without branches, so that loops vectorise.
inline float power_of_e(float x) {
  const float bounded = std::max(x, -87.0f);
  constexpr float rounder = 12582912.0f;  // 1.5 * 2^23: adding it rounds to whole numbers
  const float n = bounded * 1.44269504088896341f + rounder - rounder;
  const float r = bounded - n * 0.693145751953125f - n * 1.42860682030941723e-6f;
  const float series = 1 + r * (1 + r * (0.5f + r * (1.0f / 6 + r * (1.0f / 24 + r * (1.0f / 120 + r * (1.0f / 720))))));
  const float scaled = series * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
  return x < -87.0f ? 0.0f : scaled;
}

constexpr auto better = [](const auto& a, const auto& b) { return a.score != b.score ? a.score > b.score : a.id < b.id; };

}  // namespace

Sampler::Sampler(Settings settings, uint64_t entropy) : settings_(std::move(settings)), random_(settings_.seed.value_or(entropy)) {}

Result<TokenId> Sampler::pick(std::span<float> scores, std::span<const TokenId> history) {
  adjust(scores, history);
  return choose(scores);
}

Result<std::optional<TokenId>> Sampler::pick(std::span<float> scores, std::span<const TokenId> history, Constraint& constraint) {
  adjust(scores, history);
  // The best token is mostly allowed, and asking about one is far cheaper than a mask that nobody has made yet.
  if (const TokenId best = best_of(scores); greedy() && best >= 0) {
    Result<bool> allowed = constraint.allows(best);
    if (!allowed) return Error{allowed.error()};
    if (*allowed) return std::optional(best);
  }
  Result<bool> goes_on = constraint.narrow(scores);
  if (!goes_on) return Error{goes_on.error()};
  if (!*goes_on) return std::optional<TokenId>();
  Result<TokenId> chosen = choose(scores);
  if (!chosen) return Error{chosen.error() + ", or the grammar and logit_bias together forbid every token"};
  return std::optional(*chosen);
}

Result<std::optional<TokenId>> Sampler::pick_among(std::span<const Pick> best, int64_t vocabulary, Constraint& constraint) {
  if (best.empty() || settings_.penalises() || !settings_.logit_bias.empty()) return std::optional<TokenId>();
  // A constraint that is not open may forbid some, and then others behind them come to be candidates.
  const int64_t wanted = greedy() ? 1 : settings_.top_k;
  if (wanted == 0 || wanted > static_cast<int64_t>(best.size()) || (!greedy() && (wanted >= vocabulary || !constraint.open()))) return std::optional<TokenId>();
  if (best.front().id < 0) return std::optional<TokenId>();
  if (greedy()) {
    if (constraint.open()) return std::optional(best.front().id);
    Result<bool> allowed = constraint.allows(best.front().id);
    if (!allowed) return Error{allowed.error()};
    return *allowed ? std::optional(best.front().id) : std::nullopt;
  }
  candidates_.clear();
  for (const Pick& one : best.first(static_cast<size_t>(wanted))) {
    if (one.id >= 0) candidates_.push_back({one.score, one.id, 0});
  }
  top_ = best.front().score;
  return std::optional(draw(best.front().id));
}

Result<TokenId> Sampler::choose(std::span<const float> scores) {
  const TokenId best = best_of(scores);
  if (best < 0) return Error{"no usable score: the model gave only NaN or minus infinity"};
  if (greedy()) return best;
  collect(scores);
  top_ = scores[static_cast<size_t>(best)];
  return draw(best);
}

// One of the candidates, which top_k has narrowed; `best` is theirs.
TokenId Sampler::draw(TokenId best) {
  narrow_by_top_p();
  narrow_by_min_p();
  // Temperature last.
  weigh(settings_.temperature);
  double total = 0;
  for (const Candidate& candidate : candidates_) total += static_cast<double>(candidate.weight);
  double left = random_.uniform() * total;
  for (const Candidate& candidate : candidates_) {
    left -= static_cast<double>(candidate.weight);
    if (left < 0) return candidate.id;
  }
  return best;  // rounding ate the rest
}

void Sampler::adjust(std::span<float> scores, std::span<const TokenId> history) {
  for (const auto& [id, bias] : settings_.logit_bias) {
    float& score = scores[static_cast<size_t>(id)];
    score = to_float(static_cast<double>(score) + bias);
  }
  if (!settings_.penalises()) return;
  const size_t window = settings_.penalty_last_n < 0 ? history.size() : std::min(history.size(), static_cast<size_t>(settings_.penalty_last_n));
  seen_.assign(history.end() - static_cast<std::ptrdiff_t>(window), history.end());
  std::erase_if(seen_, [](TokenId id) { return id < 0; });  // rows of pictures
  std::sort(seen_.begin(), seen_.end());
  for (size_t i = 0; i < seen_.size();) {
    const TokenId id = seen_[i];
    const size_t first = i;
    while (i < seen_.size() && seen_[i] == id) ++i;
    double score = scores[static_cast<size_t>(id)];
    score = score > 0 ? score / settings_.penalty_repeat : score * settings_.penalty_repeat;
    score -= static_cast<double>(i - first) * settings_.penalty_freq + settings_.penalty_present;
    scores[static_cast<size_t>(id)] = to_float(score);
  }
}

// Usable scores, in order of id; with top_k the best so many, best first.
void Sampler::collect(std::span<const float> scores) {
  candidates_.clear();
  const size_t most = settings_.top_k == 0 ? scores.size() : std::min(scores.size(), static_cast<size_t>(settings_.top_k));
  // With a few wanted, what lies below the worst of them is passed over: they are sorted out when twice as many have come together.
  float least = -std::numeric_limits<float>::infinity();
  const auto keep_best = [&] {
    if (candidates_.size() <= most) return;
    std::nth_element(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(most) - 1, candidates_.end(), better);
    candidates_.resize(most);
    least = candidates_.back().score;
  };
  for (size_t i = 0; i < scores.size(); ++i) {
    if (!(scores[i] > least)) continue;  // NaN and minus infinity too
    candidates_.push_back({scores[i], static_cast<TokenId>(i), 0});
    if (most < scores.size() && candidates_.size() >= 2 * most + 64) keep_best();
  }
  keep_best();
  if (most < scores.size()) std::sort(candidates_.begin(), candidates_.end(), better);
}

// Each weight becomes e^((score - top) / temperature): 1 for the best. Differences to the best keep tiny temperatures finite.
void Sampler::weigh(double temperature) {
  const float inverse = static_cast<float>(1 / std::max(temperature, 1e-30));
  for (Candidate& candidate : candidates_) candidate.weight = candidate.score == top_ ? 1.0f : power_of_e((candidate.score - top_) * inverse);
}

// The fewest best candidates that together have `top_p` of the probability. Sorts only as far as they reach: a vocabulary has 100,000
// entries, a nucleus seldom 100.
void Sampler::narrow_by_top_p() {
  if (settings_.top_p >= 1) return;
  weigh(1);
  double total = 0;
  for (const Candidate& candidate : candidates_) total += static_cast<double>(candidate.weight);
  // The likely ones alone, if they are enough.
  constexpr float likely = 1e-4f;
  double likely_total = 0;
  for (const Candidate& candidate : candidates_) likely_total += candidate.weight >= likely ? static_cast<double>(candidate.weight) : 0.0;
  if (likely_total >= settings_.top_p * total) std::erase_if(candidates_, [](const Candidate& candidate) { return candidate.weight < likely; });
  double sum = 0;
  size_t keep = 0;
  for (size_t sorted = 256;; sorted *= 8) {
    sorted = std::min(sorted, candidates_.size());
    const auto rest = candidates_.begin() + static_cast<std::ptrdiff_t>(keep);
    std::partial_sort(rest, candidates_.begin() + static_cast<std::ptrdiff_t>(sorted), candidates_.end(), better);
    while (keep < sorted) {
      sum += static_cast<double>(candidates_[keep++].weight);
      if (sum >= settings_.top_p * total) return candidates_.resize(keep);
    }
    if (sorted == candidates_.size()) return;
  }
}

// What is less likely than that share of the best.
void Sampler::narrow_by_min_p() {
  if (settings_.min_p <= 0) return;
  const float least = std::isfinite(top_) ? static_cast<float>(static_cast<double>(top_) + std::log(settings_.min_p)) : top_;
  std::erase_if(candidates_, [&](const Candidate& candidate) { return candidate.score < least; });
}

void add_logprobs(std::span<const float> scores, int top, protocol::Token& token) {
  double best = -infinity;
  for (const float score : scores) best = std::max(best, std::isnan(score) ? -infinity : static_cast<double>(score));
  double sum = 0;
  for (const float score : scores) sum += std::isnan(score) ? 0.0 : weight_of(score, best);
  const double offset = std::log(sum);
  // The protocol carries numbers only: what cannot happen is a very small logarithm, not minus infinity.
  const auto logprob = [&](float score) {
    const double value = score == best ? -offset : static_cast<double>(score) - best - offset;
    return std::isfinite(value) ? value : -1e9;
  };
  token.logprob = logprob(scores[static_cast<size_t>(token.id)]);
  token.top.clear();
  std::vector<TokenId> ids;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (usable(scores[i])) ids.push_back(static_cast<TokenId>(i));
  }
  const size_t count = std::min(ids.size(), static_cast<size_t>(top));
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count), ids.end(), [&](TokenId a, TokenId b) {
    const float left = scores[static_cast<size_t>(a)], right = scores[static_cast<size_t>(b)];
    return left != right ? left > right : a < b;
  });
  for (size_t i = 0; i < count; ++i) token.top.push_back({ids[i], logprob(scores[static_cast<size_t>(ids[i])])});
}

}  // namespace vigil::sample
