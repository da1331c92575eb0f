// How a request wants its tokens chosen, checked: what passes cannot make the sampler fail.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "protocol/lines.hpp"
#include "protocol/result.hpp"

namespace vigil::sample {

using TokenId = int32_t;

inline constexpr int64_t default_penalty_last_n = 64;

struct Settings {
  double temperature = 0;         // 0 = the best token
  int64_t top_k = 0;              // 0 = off
  double top_p = 1;               // 1 = off; the best token always stays
  double min_p = 0;               // 0 = off
  std::optional<uint64_t> seed;   // absent = a fresh one for each request
  int64_t penalty_last_n = default_penalty_last_n;  // tokens looked back at, prompt included; 0 = off, -1 = all
  double penalty_repeat = 1;      // 1 = off
  double penalty_freq = 0, penalty_present = 0;
  std::vector<std::pair<TokenId, double>> logit_bias;
  std::optional<int> logprobs;    // best alternatives listed with each token; absent = none, 0 = the token's own only

  bool penalises() const {
    return penalty_last_n != 0 && (penalty_repeat != 1 || penalty_freq != 0 || penalty_present != 0);
  }
};

// Errors name the key and what it may be. `vocabulary`: ids run from 0 to vocabulary - 1.
Result<Settings> check_settings(const protocol::Sampling& wanted, int64_t vocabulary);

}  // namespace vigil::sample
