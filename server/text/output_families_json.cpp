// Families that write a call as a JSON object, or as a name and a JSON object. Not here: families with tags (output_families_xml.cpp).
#include "server/text/output_families.hpp"

namespace vigil::text::families {
namespace {

using Kind = CallSyntax::Kind;
using Arguments = CallForm::Arguments;

// A list of {"name": …, "arguments": …} between two markers.
CallForm list_form(std::string open, std::string close) {
  return {.arguments = Arguments::json, .begin = std::move(open) + "[", .before_name = "{\"name\": \"", .after_name = "\", \"arguments\": ",
          .after_arguments = "}", .between = ", ", .end = "]" + std::move(close)};
}

}  // namespace

Thinking plain_thinking() { return {.open = "<think>", .close = "</think>", .close_text = "\n</think>\n\n"}; }

OutputFormat hermes() {
  return {.name = "hermes", .thinking = plain_thinking(), .calls = {{.call_open = "<tool_call>", .call_close = "</tool_call>"}},
          .form = {.arguments = Arguments::json, .before_name = "<tool_call>\n{\"name\": \"", .after_name = "\", \"arguments\": ",
                   .after_arguments = "}\n</tool_call>", .between = "\n"}};
}

OutputFormat minimax_m1() {
  return {.name = "minimax-m1", .thinking = plain_thinking(), .calls = {{.section_open = "<tool_calls>", .section_close = "</tool_calls>"}},
          .form = {.arguments = Arguments::json, .begin = "<tool_calls>\n", .before_name = "{\"name\": \"", .after_name = "\", \"arguments\": ",
                   .after_arguments = "}", .between = "\n", .end = "\n</tool_calls>"}};
}

OutputFormat llama() {
  return {.name = "llama", .thinking = plain_thinking(),
          .calls = {{.arguments_key = "parameters", .at_start = true},
                    {.kind = Kind::python_tag, .call_open = "<|python_tag|>", .arguments_key = "parameters"}},
          .form = {.arguments = Arguments::json, .before_name = "{\"name\": \"", .after_name = "\", \"parameters\": ", .after_arguments = "}",
                   .several = false}};
}

OutputFormat functionary_tags() {
  return {.name = "functionary-tags",
          .calls = {{.kind = Kind::name_then_json, .call_open = "<function=", .call_close = "</function>", .arguments_open = ">"},
                    {.kind = Kind::python_code, .call_open = "<|python_tag|>"}},
          .form = {.arguments = Arguments::json, .before_name = "<function=", .after_name = ">", .after_arguments = "</function>"}};
}

OutputFormat functionary_lines() {
  return {.name = "functionary-lines", .headers = Headers::recipient_line,
          .calls = {{.kind = Kind::name_then_json, .arguments_open = "\n"}},
          .form = {.arguments = Arguments::json, .after_name = "\n", .between = ">>>"}};
}

OutputFormat functools() {
  return {.name = "functools", .thinking = plain_thinking(), .calls = {{.section_open = "functools["}},
          .form = list_form(" functools", "")};
}

OutputFormat mistral_list() {
  return {.name = "mistral-list", .thinking = {.open = "[THINK]", .close = "[/THINK]", .close_text = "[/THINK]"},
          .calls = {{.section_open = "[TOOL_CALLS]"}}, .form = list_form("[TOOL_CALLS]", "")};
}

OutputFormat mistral_arguments() {
  return {.name = "mistral-arguments", .thinking = {.open = "[THINK]", .close = "[/THINK]", .close_text = "[/THINK]"},
          .calls = {{.kind = Kind::name_then_json, .call_open = "[TOOL_CALLS]", .arguments_open = "[ARGS]", .name_until = "[CALL_ID]"}},
          .form = {.arguments = Arguments::json, .before_name = "[TOOL_CALLS]", .after_name = "[ARGS]"}};
}

OutputFormat harmony() {
  return {.name = "harmony",
          .thinking = {.open = "<|channel|>analysis<|message|>", .close = "<|end|>", .close_text = "<|end|><|start|>assistant<|channel|>final<|message|>"},
          .headers = Headers::harmony, .dropped = {"<|end|>", "<|return|>", "<|call|>"},
          .calls = {{.kind = Kind::name_then_json, .call_close = "<|call|>", .arguments_open = "<|message|>"}},
          .form = {.arguments = Arguments::json, .before_name = "<|channel|>commentary to=functions.",
                   .after_name = " <|constrain|>json<|message|>", .several = false}};
}

OutputFormat deepseek_fenced() {
  return {.name = "deepseek-fenced", .thinking = plain_thinking(),
          .calls = {{.kind = Kind::name_then_json, .section_open = "<｜tool▁calls▁begin｜>", .section_close = "<｜tool▁calls▁end｜>",
                     .call_open = "<｜tool▁call▁begin｜>", .call_close = "```<｜tool▁call▁end｜>", .arguments_open = "```json",
                     .name_after = "<｜tool▁sep｜>"}},
          .form = {.arguments = Arguments::json, .begin = "<｜tool▁calls▁begin｜>", .before_name = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
                   .after_name = "\n```json\n", .after_arguments = "\n```<｜tool▁call▁end｜>", .between = "\n", .end = "<｜tool▁calls▁end｜>"}};
}

OutputFormat deepseek() {
  return {.name = "deepseek", .thinking = plain_thinking(),
          .calls = {{.kind = Kind::name_then_json, .section_open = "<｜tool▁calls▁begin｜>", .section_close = "<｜tool▁calls▁end｜>",
                     .call_open = "<｜tool▁call▁begin｜>", .call_close = "<｜tool▁call▁end｜>", .arguments_open = "<｜tool▁sep｜>"}},
          .form = {.arguments = Arguments::json, .begin = "<｜tool▁calls▁begin｜>", .before_name = "<｜tool▁call▁begin｜>",
                   .after_name = "<｜tool▁sep｜>", .after_arguments = "<｜tool▁call▁end｜>", .end = "<｜tool▁calls▁end｜>"}};
}

OutputFormat kimi_k2() {
  // The written form has an index behind the name; a forced call always says 0, which the template does not read back from us.
  return {.name = "kimi-k2", .thinking = plain_thinking(),
          .calls = {{.kind = Kind::name_then_json, .section_open = "<|tool_calls_section_begin|>", .section_close = "<|tool_calls_section_end|>",
                     .call_open = "<|tool_call_begin|>", .call_close = "<|tool_call_end|>", .arguments_open = "<|tool_call_argument_begin|>",
                     .name_after = "functions.", .name_until = ":"}},
          .form = {.arguments = Arguments::json, .begin = "<|tool_calls_section_begin|>", .before_name = "<|tool_call_begin|>functions.",
                   .after_name = ":0<|tool_call_argument_begin|>", .after_arguments = "<|tool_call_end|>", .end = "<|tool_calls_section_end|>"}};
}

OutputFormat granite_list() {
  return {.name = "granite-list", .thinking = plain_thinking(), .wrapper_open = "<response>", .wrapper_close = "</response>",
          .calls = {{.section_open = "<|tool_call|>", .section_close = "<|/tool_call|>"}}, .form = list_form("<|tool_call|>", "")};
}

OutputFormat cohere_action() {
  return {.name = "cohere-action",
          .thinking = {.open = "<|START_THINKING|>", .close = "<|END_THINKING|>", .close_text = "<|END_THINKING|>"},
          .dropped = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"},
          .calls = {{.section_open = "<|START_ACTION|>", .section_close = "<|END_ACTION|>", .name_key = "tool_name", .arguments_key = "parameters"}},
          .form = {.arguments = Arguments::json, .begin = "<|START_ACTION|>[\n    ", .before_name = "{\"tool_call_id\": \"0\", \"tool_name\": \"",
                   .after_name = "\", \"parameters\": ", .after_arguments = "}", .between = ",\n    ", .end = "\n]<|END_ACTION|>"}};
}

OutputFormat cohere_plain() {
  return {.name = "cohere-plain",
          .calls = {{.section_open = "Action:\n```json", .section_close = "```", .name_key = "tool_name", .arguments_key = "parameters"}},
          .form = {.arguments = Arguments::json, .begin = "Action:\n```json\n[\n    ", .before_name = "{\n        \"tool_name\": \"",
                   .after_name = "\",\n        \"parameters\": ", .after_arguments = "\n    }", .between = ",\n    ", .end = "\n]\n```"}};
}

OutputFormat toolcall_list() {
  return {.name = "toolcall-list", .thinking = plain_thinking(), .calls = {{.section_open = "<TOOLCALL>", .section_close = "</TOOLCALL>"}},
          .form = list_form("<TOOLCALL>", "</TOOLCALL>")};
}

OutputFormat apertus() {
  return {.name = "apertus", .thinking = {.open = "<|inner_prefix|>", .close = "<|inner_suffix|>", .close_text = "<|inner_suffix|>"},
          .calls = {{.section_open = "<|tools_prefix|>", .section_close = "<|tools_suffix|>", .name_is_key = true}},
          .form = {.arguments = Arguments::json, .begin = "<|tools_prefix|>[", .before_name = "{\"", .after_name = "\": ", .after_arguments = "}",
                   .between = ", ", .end = "]<|tools_suffix|>"}};
}

OutputFormat apriel() {
  return {.name = "apriel",
          .thinking = {.open = "Here are my reasoning steps:", .close = "[BEGIN FINAL RESPONSE]", .close_text = "\n[BEGIN FINAL RESPONSE]\n",
                       .lead = "Here are my reasoning steps:\n"},
          .dropped = {"[END FINAL RESPONSE]"}, .calls = {{.section_open = "<tool_calls>", .section_close = "</tool_calls>"}},
          .form = list_form("<tool_calls>", "</tool_calls>")};
}

OutputFormat gigachat() {
  return {.name = "gigachat", .calls = {{.call_open = "<|function_call|>"}, {.call_open = "function call<|role_sep|>"}},
          .form = {.arguments = Arguments::json, .before_name = "<|function_call|>{\"name\": \"", .after_name = "\", \"arguments\": ",
                   .after_arguments = "}", .several = false}};
}

OutputFormat solar() {
  return {.name = "solar", .thinking = {.open = "<|think|>", .close = "<|end|>", .close_text = "<|end|><|begin|>assistant<|content|>"},
          .dropped = {"<|end|>", "<|begin|>assistant", "<|content|>", "<|calls|>"},
          .calls = {{.kind = Kind::name_then_json, .section_open = "<|tool_calls|>", .call_open = "<|tool_call:begin|>", .call_close = "<|tool_call:end|>",
                     .arguments_open = "<|tool_call:args|>", .name_after = "<|tool_call:name|>"}},
          // The id that stands in front of the name is the model's own to choose, so no fixed text describes it.
          .form = {}};
}

}  // namespace vigil::text::families
