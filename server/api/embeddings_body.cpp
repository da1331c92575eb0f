// See embeddings_body.hpp.
#include "server/api/embeddings_body.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "protocol/base64.hpp"
#include "server/api/generation.hpp"
#include "server/api/json_text.hpp"
#include "server/json/json.hpp"

namespace vigil::api {

namespace {

using json = nlohmann::ordered_json;

TextPrompt read_ids(Fields& fields, const json& list, const gguf::Vocabulary& vocabulary, const std::string& where) {
  TextPrompt prompt;
  prompt.form = TextPrompt::Form::ids;
  for (size_t i = 0; i < list.size(); ++i) {
    const auto id = whole_number(list[i]);
    if (!id || *id < 0 || *id >= vocabulary.size()) {
      fields.fail(bad_field(where + "[" + std::to_string(i) + "]",
                            "is no token id of this model; ids go from 0 to " + std::to_string(vocabulary.size() - 1)));
      break;
    }
    prompt.ids.push_back(static_cast<gguf::TokenId>(*id));
  }
  return prompt;
}

TextPrompt read_one(Fields& fields, const json& value, const gguf::Vocabulary& vocabulary, const std::string& where) {
  TextPrompt prompt;
  if (value.is_string()) {
    prompt.text = value.get<std::string>();
  } else if (value.is_array()) {
    prompt = read_ids(fields, value, vocabulary, where);
  } else {
    fields.fail(bad_field(where, "must be a string or an array of token ids"));
  }
  if (prompt.text.empty() && prompt.ids.empty()) fields.fail(bad_field(where, "is empty"));
  return prompt;
}

void append_float(std::string& out, float value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  out.append(text.data(), end);
}

}  // namespace

EmbeddingsBody read_embeddings_body(Fields& fields, const gguf::Vocabulary& vocabulary) {
  EmbeddingsBody out;
  const json* input = fields.find("input");
  if (!input) {
    fields.fail("input", "is missing");
  } else if (input->is_array() && !input->empty() && !input->front().is_number()) {
    if (input->size() > max_embedding_inputs) {
      fields.fail("input", "holds " + std::to_string(input->size()) + " texts; at most " + std::to_string(max_embedding_inputs) +
                               " are allowed (max_embedding_inputs)");
    }
    for (size_t i = 0; i < input->size() && !fields.failed(); ++i) {
      out.inputs.push_back(read_one(fields, (*input)[i], vocabulary, "input[" + std::to_string(i) + "]"));
    }
  } else {
    out.inputs.push_back(read_one(fields, *input, vocabulary, "input"));
  }
  size_t bytes = 0;
  for (const TextPrompt& prompt : out.inputs) bytes += prompt.text.size();
  if (bytes > max_prompt_text_bytes) {
    fields.fail("input", "has " + std::to_string(bytes) + " bytes of text; at most " + std::to_string(max_prompt_text_bytes) +
                             " are allowed (max_prompt_text_bytes)");
  }
  const auto format = fields.text("encoding_format");
  if (format && *format != "float" && *format != "base64") fields.fail("encoding_format", "must be float or base64");
  out.base64 = format && *format == "base64";
  if (fields.find("dimensions")) fields.fail("dimensions", "is not supported: vectors are given as long as the model makes them; leave it out");
  if (const auto pooling = fields.text("pooling")) {
    if (*pooling != "mean" && *pooling != "cls" && *pooling != "last") fields.fail("pooling", "must be mean, cls or last");
    out.pool = *pooling == "cls" ? protocol::Pooling::cls : *pooling == "last" ? protocol::Pooling::last : protocol::Pooling::mean;
  }
  return out;
}

void normalise(std::vector<float>& vector) {
  double sum = 0;
  for (const float value : vector) sum += double{value} * double{value};
  if (sum == 0) return;
  const double length = std::sqrt(sum);
  for (float& value : vector) value = static_cast<float>(value / length);
}

std::string embeddings_reply(const std::string& model, const std::vector<std::vector<float>>& vectors, bool base64, int64_t tokens) {
  std::string out = R"({"object":"list","data":[)";
  for (size_t i = 0; i < vectors.size(); ++i) {
    if (i > 0) out += ',';
    out += R"({"object":"embedding","index":)";
    append_json_integer(out, static_cast<int64_t>(i));
    out += R"(,"embedding":)";
    if (base64) {
      out += '"';
      out += protocol::encode_base64({reinterpret_cast<const char*>(vectors[i].data()), vectors[i].size() * sizeof(float)});
      out += '"';
    } else {
      char separator = '[';
      for (const float value : vectors[i]) {
        out += separator;
        append_float(out, value);
        separator = ',';
      }
      out += ']';
    }
    out += '}';
  }
  out += R"(],"model":)";
  append_json_string(out, model);
  out += R"(,"usage":{"prompt_tokens":)";
  append_json_integer(out, tokens);
  out += R"(,"total_tokens":)";
  append_json_integer(out, tokens);
  out += "}}";
  return out;
}

}  // namespace vigil::api
