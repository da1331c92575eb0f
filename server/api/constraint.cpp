// See constraint.hpp.
#include "server/api/constraint.hpp"

#include <algorithm>
#include <utility>

#include "server/text/output_format.hpp"
#include "server/text/schema_grammar.hpp"
#include "server/text/tool_grammar.hpp"
#include "server/text/utf8.hpp"

namespace vigil::api {

namespace {

using ChoiceKind = text::ToolChoice::Kind;

// "<place>: why" as an error about that place.
turn::RequestError wrong_at(const std::string& text) {
  constexpr size_t most_bytes = 1000, most_place_bytes = 300;  // a schema may have names of any length
  const std::string_view place = std::string_view(text).substr(0, text.find(": "));
  return {turn::ErrorCode::invalid_request, std::string(text::clip_utf8(text, most_bytes)) + ".", std::string(text::clip_utf8(place, most_place_bytes)), 1};
}

bool name_character(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_'; }

// The same grammar with `prefix` before each rule's name. Literals, character classes, comments and repetitions stay as they are.
std::string with_prefix(std::string_view gbnf, std::string_view prefix) {
  std::string out;
  char until = 0;  // inside something that ends with this
  bool in_name = false;
  for (size_t i = 0; i < gbnf.size(); ++i) {
    const char c = gbnf[i];
    if (until != 0) {
      out += c;
      if (c == '\\' && until != '\n' && i + 1 < gbnf.size()) {
        out += gbnf[++i];
      } else if (c == until) {
        until = 0;
      }
      continue;
    }
    if (name_character(c) && !in_name) out += prefix;
    in_name = name_character(c);
    if (c == '"') until = '"';
    if (c == '[') until = ']';
    if (c == '#') until = '\n';
    if (c == '{') until = '}';
    out += c;
  }
  return out;
}

std::variant<std::string, turn::RequestError> call_grammar(const GenerationPlan& plan, const text::Conversation& conversation, const text::ToolChoice& choice) {
  if (!plan.model->output) return bad_field("tool_choice", "cannot be enforced: this model has no known form of tool calls");
  auto grammar = text::tool_call_grammar(*plan.model->output, conversation.tools, choice, conversation.parallel_tool_calls);
  if (grammar) return std::move(*grammar);
  if (grammar.error().starts_with("tools[")) return wrong_at(grammar.error());
  return bad_field("tool_choice", "cannot be enforced: " + grammar.error());
}

std::variant<std::string, turn::RequestError> shape_grammar(const OutputShape& shape) {
  switch (shape.kind) {
    case OutputShape::Kind::object: return text::any_object_grammar();
    case OutputShape::Kind::schema: {
      auto grammar = text::schema_grammar(shape.schema, shape.strict ? text::Unenforceable::refuse : text::Unenforceable::ignore);
      if (grammar) return std::move(*grammar);
      return wrong_at(shape.field + grammar.error());
    }
    case OutputShape::Kind::grammar: {
      if (const auto good = text::check_grammar(shape.grammar); !good) return bad_field(shape.field, "is no good GBNF: " + good.error());
      return shape.grammar;
    }
    case OutputShape::Kind::free: break;
  }
  return std::string();
}

// What the answer is held to: a call, the shape, or, where a call may be made as well, either.
std::variant<std::string, turn::RequestError> grammar_of(const GenerationPlan& plan) {
  const auto* conversation = std::get_if<text::Conversation>(&plan.prompt);
  const bool may_call = conversation && !conversation->tools.empty();
  if (may_call && conversation->tool_choice.kind != ChoiceKind::automatic) return call_grammar(plan, *conversation, conversation->tool_choice);
  auto shape = shape_grammar(plan.shape);
  if (!may_call || plan.shape.kind == OutputShape::Kind::grammar || !std::holds_alternative<std::string>(shape)) return shape;
  auto calls = call_grammar(plan, *conversation, {ChoiceKind::required, {}});
  if (auto* error = std::get_if<turn::RequestError>(&calls)) {
    if (error->param == "tool_choice") *error = bad_field(plan.shape.field, "together with tools is not possible with this model; leave one of them out");
    return calls;
  }
  return "root ::= answer-root | call-root\n" + with_prefix(std::get<std::string>(shape), "answer-") + "\n" +
         with_prefix(std::get<std::string>(calls), "call-");
}

}  // namespace

std::string constrained_by(const GenerationPlan& plan) {
  if (const auto* conversation = std::get_if<text::Conversation>(&plan.prompt)) {
    const ChoiceKind kind = conversation->tool_choice.kind;
    if (kind == ChoiceKind::required || kind == ChoiceKind::named) return "tool_choice";
  }
  return plan.shape.kind == OutputShape::Kind::free ? "" : plan.shape.field;
}

std::optional<turn::RequestError> constrain(const GenerationPlan& plan, bool thinking_open, protocol::Sampling& sampling) {
  const std::string field = constrained_by(plan);
  if (field.empty()) return std::nullopt;
  auto grammar = grammar_of(plan);
  if (auto* error = std::get_if<turn::RequestError>(&grammar)) return std::move(*error);
  sampling.grammar = std::move(std::get<std::string>(grammar));
  if (sampling.grammar.size() > text::max_grammar_bytes) {
    return bad_field(field, "becomes a grammar of " + std::to_string(sampling.grammar.size()) + " bytes; at most " +
                                std::to_string(text::max_grammar_bytes) + " are allowed (max_grammar_bytes)");
  }
  if (!thinking_open) return std::nullopt;
  sampling.grammar_after = plan.model->output ? plan.model->vocabulary->find(plan.model->output->thinking.close) : std::nullopt;
  if (sampling.grammar_after) return std::nullopt;
  return bad_field(field, R"(cannot be enforced while this model thinks: its thinking ends with no token of its own; send "reasoning_effort":"none")");
}

std::optional<turn::ThinkingEnd> thinking_end(const Model& model, std::optional<int64_t> most, int64_t reserve) {
  if (!model.output || model.output->thinking.close_text.empty() || (!most && reserve == 0)) return std::nullopt;
  const auto close = model.vocabulary->find(model.output->thinking.close);
  if (!close) return std::nullopt;
  turn::ThinkingEnd end;
  end.ids = model.tokenizer->encode(model.output->thinking.close_text, gguf::Tokenizer::Markers::special, gguf::Tokenizer::Bos::none);
  end.unless = *close;
  if (most) end.most = std::max<int64_t>(*most, 1);
  end.reserve = reserve;
  if (end.ids.empty()) return std::nullopt;
  return end;
}

}  // namespace vigil::api
