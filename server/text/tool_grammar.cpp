// One rule for each tool's call, joined as the family's CallForm says. Arguments are the JSON of the tool's schema, or tags around values.
#include "server/text/tool_grammar.hpp"

#include <algorithm>

#include "protocol/gbnf.hpp"
#include "server/text/call_types.hpp"
#include "server/text/json_rules.hpp"
#include "server/text/output_format.hpp"
#include "server/text/schema_compiler.hpp"
#include "server/text/schema_grammar.hpp"

namespace vigil::text {
namespace {

class Writer {
 public:
  Writer(const CallForm& form, const gguf::Vocabulary* vocabulary) : form_(form), vocabulary_(vocabulary) {}

  Result<void> add(const ToolDefinition& tool, size_t index) {
    const std::string name = "t" + std::to_string(index);
    Result<std::string> arguments = form_.arguments == CallForm::Arguments::json ? json_arguments(tool, name) : xml_arguments(tool, name);
    if (!arguments) return Error{"tools[" + std::to_string(index) + "].function.parameters" + arguments.error()};
    rules_ += name + "c ::= " + fixed(form_.before_name + tool.name + form_.after_name) + *arguments + " " + fixed(form_.after_arguments) + "\n";
    calls_ += (calls_.empty() ? "" : " | ") + name + "c";
    return {};
  }

  std::string finish(bool parallel) {
    std::string text = "root ::= lead " + fixed(form_.begin) + "call";
    if (parallel && form_.several) text += " (" + fixed(form_.between) + "call){0," + std::to_string(max_forced_calls - 1) + "}";
    return text + " " + fixed(form_.end) + "\ncall ::= " + calls_ + "\n" + rules_ + std::string(json_rules());
  }

 private:
  // What the family writes itself, markers as their tokens where there are such.
  std::string fixed(const std::string& text) const {
    std::string out, plain;
    const auto flush = [&] {
      if (!plain.empty()) out += gbnf_literal(plain) + " ";
      plain.clear();
    };
    for (size_t at = 0; at < text.size();) {
      const std::string marker = marker_at(text, at);
      if (marker.empty()) {
        plain += text[at++];
        continue;
      }
      flush();
      out += "(<[" + std::to_string(*vocabulary_->find(marker)) + "]> | " + gbnf_literal(marker) + ") ";
      at += marker.size();
    }
    flush();
    return out;
  }
  std::string marker_at(const std::string& text, size_t at) const {
    if (!vocabulary_ || (text[at] != '<' && text[at] != '[')) return {};
    for (size_t end = text.find(text[at] == '<' ? '>' : ']', at); end != std::string::npos; end = std::string::npos) {
      const std::string piece = text.substr(at, end + 1 - at);
      const auto id = vocabulary_->find(piece);
      if (id && vocabulary_->kind(*id) == gguf::TokenKind::control && !vocabulary_->ends(*id)) return piece;
    }
    return {};
  }

  static Unenforceable mode(const ToolDefinition& tool) { return tool.strict ? Unenforceable::refuse : Unenforceable::ignore; }

  Result<std::string> json_arguments(const ToolDefinition& tool, const std::string& name) {
    if (!tool.parameters.is_object() || tool.parameters.empty()) return std::string(object_rule);
    Json schema = tool.parameters;
    if (!schema.contains("type")) schema["type"] = "object";  // arguments are one, said or not
    Result<std::string> rules = SchemaCompiler(schema, mode(tool), name + "r").run();
    if (!rules) return rules;
    rules_ += *rules;
    return name + "r0";
  }

  // Parameters in the schema's order; the optional ones may be left out.
  Result<std::string> xml_arguments(const ToolDefinition& tool, const std::string& name) {
    const Json& schema = tool.parameters;
    if (!schema.is_object() || !schema.contains("properties") || !schema["properties"].is_object()) return std::string();
    const Json required = schema.contains("required") && schema["required"].is_array() ? schema["required"] : Json::array();
    size_t number = 0;
    for (const auto& [key, value] : schema["properties"].items()) {
      const std::string own = name + "a" + std::to_string(number++), next = name + "a" + std::to_string(number);
      Result<std::string> content = xml_value(tool, key, value, own);
      if (!content) return content;
      rules_ += own + " ::= " + fixed(form_.before_key) + gbnf_literal(key) + " " + fixed(form_.after_key) + *content + " " + fixed(form_.after_value) + next;
      if (std::find(required.begin(), required.end(), key) == required.end()) rules_ += " | " + next;
      rules_ += "\n";
    }
    rules_ += name + "a" + std::to_string(number) + " ::= \"\"\n";
    return name + "a0";
  }

  Result<std::string> xml_value(const ToolDefinition& tool, const std::string& key, const Json& schema, const std::string& own) {
    if (schema_type(schema) != ArgumentType::text) {
      Result<std::string> rules = SchemaCompiler(tool.parameters, mode(tool), own + "r").run_property(key);
      if (!rules) return rules;
      rules_ += *rules;
      return own + "r0";
    }
    std::string choices;
    if (schema.contains("enum") && schema["enum"].is_array()) {
      for (const Json& one : schema["enum"]) {
        if (one.is_string() && one.get_ref<const std::string&>().find(form_.after_value) == std::string::npos) {
          choices += (choices.empty() ? "" : " | ") + gbnf_literal(one.get<std::string>());
        }
      }
      return choices.empty() ? "[]" : "(" + choices + ")";
    }
    write_raw_text();
    return std::string("raw0");
  }

  // Any text in which what ends a value does not stand: a state for each of its bytes that was just read.
  void write_raw_text() {
    if (raw_written_) return;
    raw_written_ = true;
    const std::string& stop = form_.after_value;
    const auto border = [&](std::string seen) {  // how much of `stop` the end of `seen` is the beginning of
      while (stop.compare(0, seen.size(), seen) != 0) seen.erase(0, 1);
      return seen.size();
    };
    std::string letters;
    for (const char c : stop) {
      if (letters.find(c) == std::string::npos) letters += c;
    }
    std::string others;
    for (const char c : letters) {
      if (static_cast<unsigned char>(c) < 0x80) others += class_letter(c);
    }
    for (size_t state = 0; state < stop.size(); ++state) {
      std::string rule = "raw" + std::to_string(state) + " ::= [^" + others + "] raw0";
      for (const char c : letters) {
        const size_t next = border(stop.substr(0, state) + c);
        if (static_cast<unsigned char>(c) < 0x80 && next < stop.size()) rule += " | [" + class_letter(c) + "] raw" + std::to_string(next);
      }
      rules_ += rule + " | \"\"\n";
    }
  }
  static std::string class_letter(char c) {
    constexpr char digits[] = "0123456789ABCDEF";
    return {'\\', 'x', digits[static_cast<unsigned char>(c) >> 4], digits[static_cast<unsigned char>(c) & 15]};
  }

  const CallForm& form_;
  const gguf::Vocabulary* const vocabulary_;
  std::string rules_, calls_;
  bool raw_written_ = false;
};

}  // namespace

Result<std::string> tool_call_grammar(const OutputFormat& format, const std::vector<ToolDefinition>& tools, const ToolChoice& choice, bool parallel,
                                      const gguf::Vocabulary* vocabulary) {
  using Kind = ToolChoice::Kind;
  if (choice.kind != Kind::required && choice.kind != Kind::named) return Error{"no tool call was demanded"};
  if (format.form.arguments == CallForm::Arguments::none) return Error{"the way in which this model writes calls cannot be described by a grammar"};
  Writer writer(format.form, vocabulary);
  bool any = false;
  for (size_t i = 0; i < tools.size(); ++i) {
    if (choice.kind == Kind::named && tools[i].name != choice.name) continue;
    if (Result<void> added = writer.add(tools[i], i); !added) return Error{added.error()};
    any = true;
  }
  if (!any) return Error{choice.kind == Kind::named ? "there is no tool named " + choice.name : std::string("there are no tools")};
  std::string text = writer.finish(parallel);
  if (text.size() > max_grammar_bytes) return Error{"the grammar of these tools would be larger than " + std::to_string(max_grammar_bytes) + " bytes; send fewer or simpler tools"};
  if (const Result<protocol::gbnf::Grammar> parsed = protocol::gbnf::parse(text); !parsed) {
    if (parsed.error().find("root can never end") != std::string::npos) return Error{"no arguments satisfy the schemas of these tools"};
    return Error{"the grammar of these tools is not usable: " + parsed.error()};
  }
  return text;
}

}  // namespace vigil::text
