// POST /v1/completions: a body to a generation. Replies are written by completions_reply.cpp.
#include <optional>
#include <utility>

#include "server/api/completions_reply.hpp"
#include "server/api/dialect.hpp"
#include "server/api/generation.hpp"
#include "server/api/model_choice.hpp"
#include "server/json/json.hpp"

namespace vigil::api {

namespace {

using json = nlohmann::ordered_json;

constexpr size_t max_prompts = 8;  // of one request; each takes a place in the queue, n times

void read_ids(Fields& fields, const json& list, const gguf::Vocabulary& vocabulary, const std::string& where, TextPrompt& prompt) {
  prompt.form = TextPrompt::Form::ids;
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

TextPrompt read_prompt(Fields& fields, const json& value, const gguf::Vocabulary& vocabulary, const std::string& where) {
  TextPrompt prompt;
  if (value.is_string()) {
    prompt.text = value.get<std::string>();
  } else if (value.is_array()) {
    read_ids(fields, value, vocabulary, where, prompt);
  } else {
    fields.fail("prompt", "must be a string, an array of strings, an array of token ids, or an array of such arrays");
  }
  return prompt;
}

std::vector<TextPrompt> read_prompts(Fields& fields, const gguf::Vocabulary& vocabulary) {
  std::vector<TextPrompt> out;
  const json* value = fields.find("prompt");
  if (!value) {
    fields.fail("prompt", "is missing");
    return out;
  }
  const bool several = value->is_array() && !value->empty() && !value->front().is_number();
  if (!several) {
    out.push_back(read_prompt(fields, *value, vocabulary, "prompt"));
    return out;
  }
  if (value->size() > max_prompts) {
    fields.fail("prompt", "holds " + std::to_string(value->size()) + " prompts; at most " + std::to_string(max_prompts) + " are allowed (max_prompts)");
    return out;
  }
  for (size_t i = 0; i < value->size() && !fields.failed(); ++i) {
    out.push_back(read_prompt(fields, (*value)[i], vocabulary, "prompt[" + std::to_string(i) + "]"));
  }
  return out;
}

void refuse_unsupported(Fields& fields, const Parameters& parameters) {
  constexpr std::string_view chat_only = "belongs to chat; send it to /v1/chat/completions";
  for (const std::string_view name : {"tools", "functions"}) refuse_if_asked(fields, name, chat_only);
  const auto best_of = fields.integer("best_of", 1, max_choices);
  if (best_of && static_cast<size_t>(*best_of) != parameters.choices) {
    fields.fail("best_of", "is " + std::to_string(*best_of) + ", and n is " + std::to_string(parameters.choices) +
                               ": this server gives every answer that it makes; send both alike");
  }
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
  plan.shape = read_shape(fields);
  refuse_unsupported(fields, plan.parameters);
  std::vector<TextPrompt> prompts = read_prompts(fields, *plan.model->vocabulary);
  if (fields.failed()) return std::nullopt;
  if (const auto suffix = fields.text("suffix"); suffix && !suffix->empty()) {
    if (!plan.model->vocabulary->infill().complete()) fields.fail("suffix", "is not possible: this model's vocabulary has no tokens to fill in the middle");
    for (TextPrompt& prompt : prompts) prompt.suffix = *suffix;
  }
  if (fields.failed()) return std::nullopt;
  std::vector<std::string> echoes;
  for (const TextPrompt& prompt : prompts) {
    if (echo) echoes.push_back(prompt.form == TextPrompt::Form::ids ? plan.model->tokenizer->decode(prompt.ids) : prompt.text);
  }
  plan.prompt = std::move(prompts);
  plan.prompt_field = "prompt";
  plan.id_prefix = "cmpl-";
  plan.format = [echoes = std::move(echoes)](ReplyFacts facts) { return make_completions_reply(std::move(facts), echoes); };
  return plan;
}

}  // namespace

std::unique_ptr<Exchange> Api::completions(HttpRequest request, std::shared_ptr<Channel> channel) {
  return guarded(request, channel, [&]() -> std::unique_ptr<Exchange> {
    return generate(state_, std::move(request), channel, read_completion);
  });
}

}  // namespace vigil::api
