// Which form a model writes, told by its template's text and, where that says nothing, by its vocabulary. See output_format.hpp.
#include "server/text/output_format.hpp"

#include <algorithm>
#include <array>

#include "server/text/output_families.hpp"
#include "server/text/output_parser.hpp"

namespace vigil::text {
namespace {

// A template that holds all needles writes this form. The first row that fits wins, so a form whose marks also occur in another's template
// stands behind it.
struct Mark {
  std::array<std::string_view, 2> needles;
  families::Form form;
};

constexpr Mark marks[] = {
    {{"｜DSML｜", ""}, families::dsml},
    {{"<|channel|>", "<|message|>"}, families::harmony},
    {{"<atem:", ""}, families::muse},
    {{"]<]minimax[>[", ""}, families::minimax_m3},
    {{"<minimax:tool_call>", ""}, families::minimax_m2},
    {{"<seed:tool_call>", ""}, families::seed},
    {{"<seed:think>", ""}, families::seed},
    {{"<|open|>", "<|sep|>"}, families::kimi_k3},
    {{"<|tool_calls_section_begin|>", ""}, families::kimi_k2},
    {{"<｜tool▁sep｜>", "```json"}, families::deepseek_fenced},
    {{"<｜tool▁sep｜>", ""}, families::deepseek},
    {{":opensource", ""}, families::hunyuan},
    {{"hy_Assistant", ""}, families::hunyuan},
    {{"<arg_key>", ""}, families::glm},
    {{"<|tool_call:begin|>", ""}, families::solar},
    {{"<|tool_call>", ""}, families::gemma},
    {{"<|tools_prefix|>", ""}, families::apertus},
    {{"<|START_ACTION|>", ""}, families::cohere_action},
    {{"Action:", "tool_name"}, families::cohere_plain},
    {{"<TOOLCALL>", ""}, families::toolcall_list},
    {{"[BEGIN FINAL RESPONSE]", ""}, families::apriel},
    {{"<|tool_call_start|>", ""}, families::lfm},
    {{"<|tool_list_start|>", ""}, families::lfm},
    {{"<|im_start|>", "List of tools: ["}, families::lfm},
    {{"<|function_call|>", ""}, families::gigachat},
    {{"function call<|role_sep|>", ""}, families::gigachat},
    {{"<|role_sep|>", "function call"}, families::gigachat},
    {{"functools", ""}, families::functools},
    {{">>>", "recipient"}, families::functionary_lines},
    {{">>>all", ""}, families::functionary_lines},
    {{"<|python_tag|>", "<function="}, families::functionary_tags},
    {{"[TOOL_CALLS]", "[ARGS]"}, families::mistral_arguments},
    {{"[TOOL_CALLS]", ""}, families::mistral_list},
    {{"<function name=", ""}, families::minicpm},
    {{"<function=", "<parameter="}, families::qwen_xml},
    {{"<function=", "</function>"}, families::functionary_tags},
    {{"<|tool_call|>", ""}, families::granite_list},
    {{"<tool_calls>", ""}, families::minimax_m1},
    {{"<tool_call>", ""}, families::hermes},
    {{"<|python_tag|>", ""}, families::llama},
    {{"<|start_header_id|>", "\"parameters\":"}, families::llama},
};

// Pieces that only one form's models have, for model files without a template or with one that knows no tools.
struct Piece {
  std::string_view piece;
  families::Form form;
};

constexpr Piece pieces[] = {
    {"｜DSML｜", families::dsml},
    {"<minimax:tool_call>", families::minimax_m2},
    {"<seed:tool_call>", families::seed},
    {"<|tool_calls_section_begin|>", families::kimi_k2},
    {"<｜tool▁sep｜>", families::deepseek},
    {"<arg_key>", families::glm},
    {"<|tool_call:begin|>", families::solar},
    {"<|tool_call>", families::gemma},
    {"<|tools_prefix|>", families::apertus},
    {"<|START_ACTION|>", families::cohere_action},
    {"<TOOLCALL>", families::toolcall_list},
    {"<|tool_call_start|>", families::lfm},
    {"<|function_call|>", families::gigachat},
    {"[ARGS]", families::mistral_arguments},
    {"[TOOL_CALLS]", families::mistral_list},
    {"<tool_call>", families::hermes},
    {"<|tool_call|>", families::granite_list},
    {"<|python_tag|>", families::llama},
};

OutputFormat told_by(std::string_view template_source, const gguf::Vocabulary& vocabulary) {
  const auto holds = [&](std::string_view needle) { return template_source.find(needle) != std::string_view::npos; };
  for (const Mark& mark : marks) {
    if (std::all_of(mark.needles.begin(), mark.needles.end(), holds)) return mark.form();
  }
  for (const Piece& piece : pieces) {
    if (vocabulary.find(piece.piece)) return piece.form();
  }
  return families::hermes();
}

}  // namespace

std::shared_ptr<const OutputFormat> output_format(std::string_view template_source, const gguf::Vocabulary& vocabulary) {
  return std::make_shared<const OutputFormat>(told_by(template_source, vocabulary));
}

bool prompt_opens_thinking(const OutputFormat& format, std::string_view prompt) {
  constexpr std::string_view white = " \t\r\n";
  const auto trimmed = [&](std::string_view text) { return text.substr(0, text.find_last_not_of(white) + 1); };
  const std::string_view open = trimmed(format.thinking.open);
  return !open.empty() && trimmed(prompt).ends_with(open);
}

bool prompt_opens_thinking(const OutputFormat& format, const std::vector<PromptPart>& prompt) {
  constexpr size_t enough_bytes = 256;  // a tag may be spread over parts, with white space behind it
  std::string end;
  for (size_t part = prompt.size(); part > 0 && end.size() < enough_bytes; --part) end.insert(0, prompt[part - 1].text);
  return prompt_opens_thinking(format, end);
}

}  // namespace vigil::text
