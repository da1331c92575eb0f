// Families that write a call as tags, or in a notation of their own. Not here: families with JSON (output_families_json.cpp).
#include "server/text/output_families.hpp"

namespace vigil::text::families {
namespace {

using Kind = CallSyntax::Kind;
using Arguments = CallForm::Arguments;

CallSyntax dsml_calls(const std::string& section) {
  return {.kind = Kind::xml_parameters, .section_open = "<｜DSML｜" + section + ">", .section_close = "</｜DSML｜" + section + ">",
          .call_open = "<｜DSML｜invoke name=\"", .call_close = "</｜DSML｜invoke>", .name_end = "\"", .name_close = ">",
          .parameter_open = "<｜DSML｜parameter name=\"", .key_end = "\"", .value_open = ">", .parameter_close = "</｜DSML｜parameter>"};
}

// <invoke name="f"><parameter name="a">…</parameter></invoke>, the tags perhaps with a prefix.
CallSyntax invoke_calls(const std::string& section, const std::string& prefix) {
  return {.kind = Kind::xml_parameters, .section_open = "<" + section + ">", .section_close = "</" + section + ">",
          .call_open = "<" + prefix + "invoke name=\"", .call_close = "</" + prefix + "invoke>", .name_end = "\"", .name_close = ">",
          .parameter_open = "<" + prefix + "parameter name=\"", .key_end = "\"", .value_open = ">", .parameter_close = "</" + prefix + "parameter>"};
}

}  // namespace

OutputFormat qwen_xml() {
  return {.name = "qwen-xml", .thinking = plain_thinking(),
          .calls = {{.kind = Kind::xml_parameters, .section_open = "<tool_call>", .section_close = "</tool_call>", .call_open = "<function=",
                     .call_close = "</function>", .name_end = ">", .parameter_open = "<parameter=", .key_end = ">", .parameter_close = "</parameter>",
                     .strip_newlines = true}},
          .form = {.arguments = Arguments::xml, .before_name = "<tool_call>\n<function=", .after_name = ">\n", .after_arguments = "</function>\n</tool_call>",
                   .between = "\n", .before_key = "<parameter=", .after_key = ">\n", .after_value = "\n</parameter>\n"}};
}

OutputFormat seed() {
  return {.name = "seed", .thinking = {.open = "<seed:think>", .close = "</seed:think>", .close_text = "</seed:think>"},
          .calls = {{.kind = Kind::xml_parameters, .section_open = "<seed:tool_call>", .section_close = "</seed:tool_call>", .call_open = "<function=",
                     .call_close = "</function>", .name_end = ">", .parameter_open = "<parameter=", .key_end = ">", .parameter_close = "</parameter>"}},
          .form = {.arguments = Arguments::xml, .before_name = "<seed:tool_call>\n<function=", .after_name = ">\n",
                   .after_arguments = "</function>\n</seed:tool_call>", .between = "\n", .before_key = "<parameter=", .after_key = ">",
                   .after_value = "</parameter>\n"}};
}

OutputFormat dsml() {
  // Whether a value is raw text stands in its tag, so a grammar of the other kind does not describe it.
  return {.name = "dsml", .thinking = {.open = "<think>", .close = "</think>", .close_text = "</think>"},
          .calls = {dsml_calls("function_calls"), dsml_calls("tool_calls")}, .form = {}};
}

OutputFormat glm() {
  return {.name = "glm", .thinking = {.open = "<think>", .close = "</think>", .close_text = "</think>\n"},
          .calls = {{.kind = Kind::xml_parameters, .call_open = "<tool_call>", .call_close = "</tool_call>", .parameter_open = "<arg_key>",
                     .key_end = "</arg_key>", .value_open = "<arg_value>", .parameter_close = "</arg_value>"}},
          .form = {.arguments = Arguments::xml, .before_name = "<tool_call>", .after_name = "\n", .after_arguments = "</tool_call>", .between = "\n",
                   .before_key = "<arg_key>", .after_key = "</arg_key>\n<arg_value>", .after_value = "</arg_value>\n"}};
}

OutputFormat hunyuan() {
  return {.name = "hunyuan",
          .thinking = {.open = "<think:opensource>", .close = "</think:opensource>", .close_text = "</think:opensource>"},
          .calls = {{.kind = Kind::xml_parameters, .section_open = "<tool_calls:opensource>", .section_close = "</tool_calls:opensource>",
                     .call_open = "<tool_call:opensource>", .call_close = "</tool_call:opensource>", .name_end = "<tool_sep:opensource>",
                     .parameter_open = "<arg_key:opensource>", .key_end = "</arg_key:opensource>", .value_open = "<arg_value:opensource>",
                     .parameter_close = "</arg_value:opensource>"}},
          .form = {.arguments = Arguments::xml, .begin = "<tool_calls:opensource>\n", .before_name = "<tool_call:opensource>",
                   .after_name = "<tool_sep:opensource>\n", .after_arguments = "</tool_call:opensource>\n", .end = "</tool_calls:opensource>",
                   .before_key = "<arg_key:opensource>", .after_key = "</arg_key:opensource>\n<arg_value:opensource>",
                   .after_value = "</arg_value:opensource>\n"}};
}

OutputFormat kimi_k3() {
  return {.name = "kimi-k3",
          .thinking = {.open = "<|open|>think<|sep|>", .close = "<|close|>think<|sep|>", .close_text = "<|close|>think<|sep|><|open|>response<|sep|>"},
          .dropped = {"<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>"},
          .calls = {{.kind = Kind::xml_parameters, .section_open = "<|open|>tools<|sep|>", .section_close = "<|close|>tools<|sep|>",
                     .call_open = "<|open|>call tool=\"", .call_close = "<|close|>call<|sep|>", .name_end = "\"", .name_close = "<|sep|>",
                     .parameter_open = "<|open|>argument key=\"", .key_end = "\"", .value_open = "<|sep|>", .parameter_close = "<|close|>argument<|sep|>"}},
          .form = {}};
}

OutputFormat minimax_m2() {
  return {.name = "minimax-m2", .thinking = plain_thinking(), .calls = {invoke_calls("minimax:tool_call", "")},
          .form = {.arguments = Arguments::xml, .begin = "<minimax:tool_call>\n", .before_name = "<invoke name=\"", .after_name = "\">\n",
                   .after_arguments = "</invoke>\n", .end = "</minimax:tool_call>", .before_key = "<parameter name=\"", .after_key = "\">",
                   .after_value = "</parameter>\n"}};
}

OutputFormat minimax_m3() {
  return {.name = "minimax-m3", .thinking = {.open = "<mm:think>", .close = "</mm:think>", .close_text = "</mm:think>"},
          .calls = {{.kind = Kind::nested_tags, .section_open = "]<]minimax[>[<tool_call>", .section_close = "]<]minimax[>[</tool_call>",
                     .call_open = "]<]minimax[>[<invoke name=\"", .call_close = "]<]minimax[>[</invoke>", .name_end = "\">", .parameter_open = "]<]minimax[>["}},
          .form = {}};
}

OutputFormat muse() {
  return {.name = "muse",
          .thinking = {.open = " to=self<|message|>", .close = "<|eom|>", .close_text = "<|eom|><|start|>assistant to=user<|message|>"},
          .headers = Headers::recipient, .dropped = {"<|eom|>"}, .calls = {invoke_calls("atem:function_calls", "atem:")}, .form = {}};
}

OutputFormat minicpm() {
  return {.name = "minicpm", .thinking = plain_thinking(),
          .calls = {{.kind = Kind::xml_parameters, .call_open = "<function name=\"", .call_close = "</function>", .name_end = "\"", .name_close = ">",
                     .parameter_open = "<param name=\"", .key_end = "\"", .value_open = ">", .parameter_close = "</param>", .cdata = true}},
          .form = {.arguments = Arguments::xml, .before_name = "<function name=\"", .after_name = "\">", .after_arguments = "</function>", .between = "\n",
                   .before_key = "<param name=\"", .after_key = "\">", .after_value = "</param>"}};
}

OutputFormat gemma() {
  return {.name = "gemma", .thinking = {.open = "<|channel>thought\n", .close = "<channel|>", .close_text = "<channel|>"},
          .calls = {{.kind = Kind::bare_keys, .call_open = "<|tool_call>call:", .call_close = "<tool_call|>"}}, .form = {}};
}

OutputFormat lfm() {
  return {.name = "lfm", .thinking = plain_thinking(),
          .calls = {{.kind = Kind::python_calls, .section_open = "<|tool_call_start|>", .section_close = "<|tool_call_end|>"}}, .form = {}};
}

}  // namespace vigil::text::families
