// The body of POST /v1/embeddings, and the reply's. Source: OpenAI's API reference (Embeddings). Not here: how vectors are had (embeddings.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "protocol/lines.hpp"
#include "server/api/prompt.hpp"
#include "server/api/request_fields.hpp"

namespace vigil::api {

inline constexpr size_t max_embedding_inputs = 2048;                  // OpenAI's limit
inline constexpr size_t max_embedding_numbers = 16 * 1024 * 1024;     // of all vectors of a reply: 64 MiB

struct EmbeddingsBody {
  std::vector<TextPrompt> inputs;
  protocol::Pooling pool = protocol::Pooling::mean;
  bool base64 = false;
};

// `input`: a string, an array of strings, of ids, or of arrays of ids; `encoding_format`; `pooling` (ours); `dimensions` is refused. Failures
// stick to `fields`.
EmbeddingsBody read_embeddings_body(Fields& fields, const gguf::Vocabulary& vocabulary);

// Brings the vector to length 1; one of zeros stays as it is.
void normalise(std::vector<float>& vector);

std::string embeddings_reply(const std::string& model, const std::vector<std::vector<float>>& vectors, bool base64, int64_t tokens);

}  // namespace vigil::api
