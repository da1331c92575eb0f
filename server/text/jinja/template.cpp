// See template.hpp. Failures that this room throws end here.
#include "server/text/jinja/template.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "server/text/jinja/failure.hpp"
#include "server/text/jinja/input.hpp"
#include "server/text/jinja/interpreter.hpp"
#include "server/text/jinja/lexer.hpp"
#include "server/text/jinja/limits.hpp"
#include "server/text/jinja/parser.hpp"
#include "server/text/jinja/resolver.hpp"

namespace vigil::text::jinja {

struct Template::Compiled {
  Options options;
  Tokens tokens;
  Heap heap{max_syntax_heap_bytes};
  Program program;
};

Template::Template(std::unique_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}
Template::~Template() = default;

Result<std::shared_ptr<const Template>> Template::compile(std::string_view source, Options options) {
  if (source.size() > max_source_bytes) return Error{"longer than " + std::to_string(max_source_bytes) + " bytes (max_source_bytes)"};
  auto compiled = std::make_unique<Compiled>();
  compiled->options = options;
  try {
    read_tokens(source, compiled->tokens);
    compiled->program = resolve(compiled->heap, parse(compiled->heap, compiled->tokens, options.from_json));
  } catch (const Failure& failure) {
    return Error{failure.message};
  }
  return std::shared_ptr<const Template>(new Template(std::move(compiled)));
}

namespace {

Piece::Source piece_source(Source source) {
  return source == Source::fixed ? Piece::Source::fixed : source == Source::picture ? Piece::Source::picture : Piece::Source::typed;
}

std::vector<Piece> pieces_of(const Buffer* buffer) {
  std::vector<Piece> out;
  if (!buffer) return out;
  constexpr size_t picture_bytes = 3;
  for (size_t i = 0; i < buffer->mark_count; ++i) {
    const size_t begin = buffer->marks[i].begin, end = i + 1 < buffer->mark_count ? buffer->marks[i + 1].begin : buffer->used;
    const Piece::Source source = piece_source(buffer->marks[i].source);
    if (source == Piece::Source::picture) {
      for (size_t at = begin; at + picture_bytes <= end; at += picture_bytes) out.push_back({source, ""});
    } else if (end > begin) {
      out.push_back({source, std::string(buffer->data + begin, end - begin)});
    }
  }
  return out;
}

}  // namespace

bool Template::names(std::string_view variable) const {
  const auto& inputs = compiled_->program.inputs;
  return std::any_of(inputs.begin(), inputs.end(), [&](const String* name) { return name->view() == variable; });
}

std::variant<std::vector<Piece>, RenderFailure> Template::render(const std::vector<Input>& inputs, int64_t unix_seconds, uint64_t steps) const {
  const Program& program = compiled_->program;
  Interpreter interpreter(program, compiled_->options, unix_seconds, steps);
  try {
    std::vector<Value> values(program.inputs.size(), unset());
    for (size_t i = 0; i < values.size(); ++i) {
      const std::string_view name = program.inputs[i]->view();
      // The last input of a name counts; a function only where no input has its name.
      const auto given = std::find_if(inputs.rbegin(), inputs.rend(), [&](const Input& input) { return input.name == name; });
      if (given != inputs.rend()) {
        values[i] = value_of_json(interpreter.heap, *given->value, given->trusted ? Source::fixed : Source::typed);
      } else if (const int number = global_number(name); number >= 0) {
        values[i] = Value::with(Type::function);
        values[i].function = number;
      }
    }
    interpreter.run(values);
    return pieces_of(interpreter.prompt.buffer());
  } catch (const Failure& failure) {
    if (failure.kind == Failure::Kind::refusal) return RenderFailure{RenderFailure::Kind::refusal, failure.message};
    return RenderFailure{RenderFailure::Kind::failure, "line " + std::to_string(interpreter.line()) + ": " + failure.message};
  }
}

}  // namespace vigil::text::jinja
