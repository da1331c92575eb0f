// The settings of a generation that the OpenAI dialects share, read from a body and checked. Not here: prompts and messages, replies.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/gguf/vocabulary.hpp"
#include "protocol/lines.hpp"
#include "server/api/request_fields.hpp"
#include "server/turn/request.hpp"

namespace vigil::api {

inline constexpr size_t max_stop_strings = 4;           // OpenAI's limit
inline constexpr double max_temperature = 100;
inline constexpr double default_temperature = 1;        // OpenAI's default; an absent key on the GEN line would mean greedy
inline constexpr int64_t max_tokens_limit = int64_t{1} << 31;
inline constexpr size_t max_client_name_bytes = 256;

struct Parameters {
  protocol::Sampling sampling;           // temperature is always set; seed only when the client gave one
  int64_t max_new = 0;                   // tokens; 0 = as many as the context holds
  std::vector<std::string> stop;         // no empty ones
  bool stream = false;
  bool include_usage = false;            // stream_options.include_usage
  bool return_token_ids = false;
  std::string client;                    // the body's name for whose turn it is; empty = the connection
};

// Fields of both dialects. Failures stick to `fields`. docs/api.md lists ranges and defaults.
Parameters read_parameters(Fields& fields, const gguf::Vocabulary& vocabulary);

// A hash of prompt, pictures and parameters (FNV-1a, 64 bits) that is the same in every process; the seed does not count.
uint64_t fingerprint(const std::vector<gguf::TokenId>& prompt, const Parameters& parameters, const std::vector<turn::Picture>& pictures = {});

}  // namespace vigil::api
