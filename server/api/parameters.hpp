// The settings of a generation that the OpenAI dialects share, read from a body and checked. Not here: prompts and messages, replies.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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
inline constexpr int64_t max_choices = 8;               // n; each takes a place in the queue

struct Parameters {
  protocol::Sampling sampling;           // temperature is always set; seed only when the client gave one
  int64_t max_new = 0;                   // tokens; 0 = as many as the context holds
  std::vector<std::string> stop;         // no empty ones
  bool stream = false;
  bool include_usage = false;            // stream_options.include_usage
  bool return_token_ids = false;
  size_t choices = 1;                    // n: for each prompt
  bool split_thinking = true;            // false: thinking and its tags stay in the content
  std::optional<int64_t> max_thinking;   // tokens; nothing = what engine.thinking_reserve leaves
  std::string client;                    // the body's name for whose turn it is; empty = the connection
};

// Fields of both dialects. Failures stick to `fields`. docs/api.md lists ranges and defaults.
Parameters read_parameters(Fields& fields, const gguf::Vocabulary& vocabulary);

// Parts of it, for dialects whose other fields have other names: temperature to logit_bias; and whose turn it is.
void read_sampling(Fields& fields, const gguf::Vocabulary& vocabulary, protocol::Sampling& sampling);
void read_client(Fields& fields, Parameters& out);
// Strings that end an answer: a string or a list of at most `most` of them; empty ones are ignored.
std::vector<std::string> read_stop_strings(Fields& fields, std::string_view name, size_t most);

// A hash of prompt, pictures and parameters (FNV-1a, 64 bits) that is the same in every process; the seed does not count.
uint64_t fingerprint(const std::vector<gguf::TokenId>& prompt, const Parameters& parameters, const std::vector<turn::Picture>& pictures = {});

}  // namespace vigil::api
