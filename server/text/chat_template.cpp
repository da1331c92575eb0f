// See chat_template.hpp.
#include "server/text/chat_template.hpp"

#include <algorithm>
#include <utility>

#include "server/text/chat_template_inputs.hpp"
#include "server/text/chat_template_probe.hpp"
#include "server/text/jinja/template.hpp"
#include "server/text/output_format.hpp"
#include "server/text/output_parser.hpp"

namespace vigil::text {

namespace {

constexpr uint64_t probe_steps = 300'000;  // some twenty probes: a hostile template does not hold up the load

using Source = PromptPart::Source;

PromptPart::Source part_source(jinja::Piece::Source source) {
  return source == jinja::Piece::Source::fixed ? Source::fixed : source == jinja::Piece::Source::picture ? Source::picture : Source::typed;
}

std::string text_of(const gguf::Vocabulary& vocabulary, std::optional<gguf::TokenId> id) { return id ? vocabulary.piece(*id) : std::string(); }

std::string joined(const std::vector<jinja::Piece>& pieces) {
  std::string out;
  for (const jinja::Piece& piece : pieces) out += piece.text;
  return out;
}

// What the template wrote last, behind everything that came from the conversation.
std::string fixed_end(const std::vector<PromptPart>& parts) { return !parts.empty() && parts.back().source == Source::fixed ? parts.back().text : std::string(); }

}  // namespace

class ChatTemplate::Compiled {
 public:
  using Rendered = std::variant<std::vector<jinja::Piece>, jinja::RenderFailure>;

  Rendered render(const Json& messages, const Json& tools, const Json& variables, bool generation_prompt, int64_t unix_seconds, uint64_t steps) const {
    const Json generation = generation_prompt, begin = bos, end = eos, nothing = nullptr;
    std::vector<jinja::Input> inputs = {{"documents", &nothing, true}};
    for (const auto& [name, value] : variables.items()) inputs.push_back({name, &value, false});
    // Behind the client's variables, which cannot take their place.
    inputs.push_back({"messages", &messages, false});
    inputs.push_back({"tools", &tools, false});
    inputs.push_back({"add_generation_prompt", &generation, true});
    inputs.push_back({"bos_token", &begin, true});
    inputs.push_back({"eos_token", &end, true});
    return program->render(inputs, unix_seconds, steps);
  }

  void probe() {
    shape = probe_template([this](const Json& messages, const Json& tools, const Json& variables, bool generation_prompt) -> std::optional<std::string> {
      auto out = render(messages, tools, variables, generation_prompt, 0, probe_steps);
      if (const auto* pieces = std::get_if<std::vector<jinja::Piece>>(&out)) return joined(*pieces);
      return std::nullopt;
    });
  }

  std::string source, bos, eos;
  std::shared_ptr<const jinja::Template> program;
  std::shared_ptr<const OutputFormat> format;
  TemplateShape shape;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::compile(std::string source, const gguf::Vocabulary& vocabulary) {
  auto program = jinja::Template::compile(source);
  if (!program) return Error{"chat template: " + program.error()};
  auto compiled = std::make_unique<Compiled>();
  compiled->program = std::move(*program);
  compiled->source = std::move(source);
  compiled->bos = text_of(vocabulary, vocabulary.bos());
  compiled->eos = text_of(vocabulary, vocabulary.eos());
  compiled->format = output_format(compiled->source, vocabulary);
  compiled->probe();
  const Conversation hello{{ChatMessage{"user", {{ContentPart::Kind::text, "hello"}}}}};
  const TemplateVariables variables = template_variables(hello, compiled->shape, Neighbours::apart);
  const auto prompt = compiled->render(variables.messages, variables.tools, Json::object(), true, 0, probe_steps);
  if (const auto* pieces = std::get_if<std::vector<jinja::Piece>>(&prompt)) {
    const bool fixed = !pieces->empty() && pieces->back().source == jinja::Piece::Source::fixed;
    compiled->shape.opens_thinking = fixed && prompt_opens_thinking(*compiled->format, pieces->back().text);
  }
  return std::shared_ptr<const ChatTemplate>(new ChatTemplate(std::move(compiled)));
}

const TemplateTraits& ChatTemplate::traits() const { return compiled_->shape; }
const std::string& ChatTemplate::source() const { return compiled_->source; }

namespace {

Json variables_of(const Conversation& conversation) {
  Json out = conversation.template_variables.is_object() ? conversation.template_variables : Json::object();
  // Two names for one wish, both in use.
  if (conversation.thinking) out["enable_thinking"] = out["thinking"] = *conversation.thinking;
  if (!conversation.reasoning_effort.empty()) out["reasoning_effort"] = conversation.reasoning_effort;
  return out;
}

// Ends the prompt where the last message's text ends. The last mark is the one that was put there.
void cut_behind_mark(std::vector<PromptPart>& parts) {
  const auto mark = std::find_if(parts.rbegin(), parts.rend(), [](const PromptPart& part) { return part.source == Source::picture; });
  if (mark != parts.rend()) parts.erase(mark.base() - 1, parts.end());
}

// Whether a text that the answer goes on from stands inside thinking: what opened it last is not closed.
bool left_open(const Thinking& thinking, const std::vector<PromptPart>& parts) {
  if (thinking.open.empty()) return false;
  std::string end;
  bool fixed = false;
  for (auto part = parts.rbegin(); part != parts.rend() && part->source != Source::picture && (part->source == Source::fixed || !fixed); ++part) {
    fixed = part->source == Source::fixed;
    end.insert(0, part->text);
  }
  const size_t open = end.rfind(thinking.open), close = end.rfind(thinking.close);
  return open != std::string::npos && (close == std::string::npos || close < open);
}

}  // namespace

std::variant<RenderedPrompt, TemplateError> ChatTemplate::render(const Conversation& conversation, int64_t unix_seconds) const {
  const Json variables = variables_of(conversation);
  const bool go_on = conversation.continue_last;
  std::optional<jinja::RenderFailure> refusal;
  for (const Neighbours neighbours : {Neighbours::apart, Neighbours::merged}) {
    const TemplateVariables inputs = template_variables(conversation, compiled_->shape, neighbours);
    auto rendered = compiled_->render(inputs.messages, inputs.tools, variables, !go_on, unix_seconds, jinja::max_steps);
    if (auto* failure = std::get_if<jinja::RenderFailure>(&rendered)) {
      if (failure->kind != jinja::RenderFailure::Kind::refusal) {
        if (refusal) break;  // the first words say more
        return TemplateError{TemplateError::Kind::failure, "chat template, " + failure->message};
      }
      if (!refusal) refusal = std::move(*failure);
      continue;  // many refuse two messages of one role in a row
    }
    RenderedPrompt out;
    for (jinja::Piece& piece : std::get<std::vector<jinja::Piece>>(rendered)) out.parts.push_back({part_source(piece.source), std::move(piece.text)});
    const Thinking& thinking = compiled_->format->thinking;
    if (go_on) {
      cut_behind_mark(out.parts);
      out.thinking_open = left_open(thinking, out.parts);
    } else {
      out.thinking_open = prompt_opens_thinking(*compiled_->format, fixed_end(out.parts));
    }
    if (out.thinking_open) out.thinking_tag = thinking.open;
    return out;
  }
  return TemplateError{TemplateError::Kind::refusal, refusal->message};
}

}  // namespace vigil::text
