// POST /v1/completions: a body to a generation. Replies are written by completions_reply.cpp.
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "server/api/completions_reply.hpp"
#include "server/api/dialect.hpp"
#include "server/api/generation.hpp"
#include "server/api/model_choice.hpp"

namespace vigil::api {

namespace {

using json = nlohmann::ordered_json;

// A prompt is text or ids.
struct Prompt {
  std::string text;
  std::vector<gguf::TokenId> ids;
  enum class Form { text, ids } form = Form::text;
};

void read_ids(Fields& fields, const json& list, const gguf::Vocabulary& vocabulary, const std::string& where, Prompt& prompt) {
  prompt.form = Prompt::Form::ids;
  for (size_t i = 0; i < list.size(); ++i) {
    const auto id = whole_number(list[i]);
    if (!id || *id < 0 || *id >= vocabulary.size()) {
      turn::RequestError error = bad_field("prompt", "holds something that is no token id of this model at " + where + "[" + std::to_string(i) +
                                                         "]; ids go from 0 to " + std::to_string(vocabulary.size() - 1));
      return fields.fail(std::move(error));
    }
    prompt.ids.push_back(static_cast<gguf::TokenId>(*id));
  }
}

Prompt read_prompt(Fields& fields, const gguf::Vocabulary& vocabulary) {
  Prompt prompt;
  const json* value = fields.find("prompt");
  std::string where = "prompt";
  if (!value) {
    fields.fail("prompt", "is missing");
    return prompt;
  }
  if (value->is_array() && !value->empty() && !value->front().is_number()) {
    if (value->size() > 1) {
      fields.fail("prompt", "holds " + std::to_string(value->size()) + " prompts; send one prompt a request");
      return prompt;
    }
    value = &value->front();
    where += "[0]";
  }
  if (value->is_string()) {
    prompt.text = value->get<std::string>();
  } else if (value->is_array()) {
    read_ids(fields, *value, vocabulary, where, prompt);
  } else {
    fields.fail("prompt", "must be a string, an array with one string, or an array of token ids");
  }
  return prompt;
}

void refuse_unsupported(Fields& fields) {
  refuse_tools_and_formats(fields);
  refuse_if_asked(fields, "suffix", "is not supported: this server does not fill in the middle yet; leave it out");
  fields.integer("best_of", 1, 1);
}

std::optional<GenerationPlan> read_completion(Fields& fields, const std::shared_ptr<const Model>& served) {
  GenerationPlan plan;
  plan.model = choose_model(fields, served);
  if (!plan.model) return std::nullopt;
  plan.parameters = read_parameters(fields, *plan.model->vocabulary);
  // A number here; clients of the chat dialect that send a flag mean 0 rivals by true.
  if (const json* logprobs = fields.find("logprobs"); logprobs && logprobs->is_boolean()) {
    if (logprobs->get<bool>()) plan.parameters.sampling.logprobs = 0;
  } else if (const auto count = fields.integer("logprobs", 0, protocol::max_logprobs)) {
    plan.parameters.sampling.logprobs = static_cast<int>(*count);
  }
  const bool echo = fields.flag("echo").value_or(false);
  if (echo && plan.parameters.sampling.logprobs) {
    fields.fail("echo", "together with logprobs is not supported: this server has no log probabilities of a prompt");
  }
  refuse_unsupported(fields);
  Prompt prompt = read_prompt(fields, *plan.model->vocabulary);
  if (fields.failed()) return std::nullopt;
  std::string echoed;
  if (echo) echoed = prompt.form == Prompt::Form::ids ? plan.model->tokenizer->decode(prompt.ids) : prompt.text;
  if (prompt.form == Prompt::Form::ids) {
    plan.text_bytes = prompt.ids.size();  // there is nothing to tokenise, but as many ids to go through
    plan.tokenise = [ids = std::move(prompt.ids)] { return ids; };
  } else {
    plan.text_bytes = prompt.text.size();
    plan.tokenise = [model = plan.model, typed = std::move(prompt.text)] {
      return model->tokenizer->encode(typed, gguf::Tokenizer::Markers::plain, gguf::Tokenizer::Bos::as_model);
    };
  }
  plan.prompt_field = "prompt";
  plan.id_prefix = "cmpl-";
  plan.format = [echoed = std::move(echoed)](ReplyFacts facts) { return make_completions_reply(std::move(facts), echoed); };
  return plan;
}

}  // namespace

std::unique_ptr<Exchange> Api::completions(HttpRequest request, std::shared_ptr<Channel> channel) {
  return guarded(request, channel, [&]() -> std::unique_ptr<Exchange> {
    return generate(state_, std::move(request), channel, read_completion);
  });
}

}  // namespace vigil::api
