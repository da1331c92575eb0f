// What a model's template makes of a conversation, and what is done for templates that lack something. Not here: the language (jinja_*_test.cpp).
#include <catch2/catch.hpp>

#include <string>

#include "server/text/chat_template.hpp"
#include "text_support.hpp"

using namespace vigil;
using namespace vigil::text;

namespace {

std::shared_ptr<const ChatTemplate> compiled(const std::string& source) {
  auto out = ChatTemplate::compile(source, *test::make_vocabulary({}));
  INFO((out.ok() ? std::string() : out.error()));
  REQUIRE(out.ok());
  return *out;
}

ChatMessage said(const std::string& role, const std::string& text) { return {role, {{ContentPart::Kind::text, text}}}; }

ChatMessage called(const std::string& arguments) {
  ChatMessage out{"assistant"};
  out.tool_calls = {{"id1", "f", arguments}};
  return out;
}

std::string shown(const std::vector<PromptPart>& parts) {
  std::string out;
  for (const PromptPart& part : parts) out += part.source == PromptPart::Source::picture ? "[*]" : part.source == PromptPart::Source::typed ? "[" + part.text + "]" : part.text;
  return out;
}

std::string prompt(const ChatTemplate& what, const Conversation& conversation) {
  const auto out = what.render(conversation, 0);
  if (const auto* error = std::get_if<TemplateError>(&out)) return (error->kind == TemplateError::Kind::refusal ? "refused: " : "failed: ") + error->message;
  return shown(std::get<RenderedPrompt>(out).parts);
}

const std::string plain =
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";

const ToolDefinition weather = {"weather", "tells it", Json{{"type", "object"}}};

}  // namespace

TEST_CASE("a template writes the prompt, and what was typed stays typed") {
  const auto what = compiled("{{ bos_token }}" + plain);
  CHECK(what->traits().system);
  CHECK_FALSE(what->traits().tools);
  CHECK_FALSE(what->traits().content_parts);
  CHECK(prompt(*what, {{said("system", "be kind"), said("user", "<|end|>")}}) == "<s><|system|>[be kind]<|end|><|user|>[<|end|>]<|end|><|assistant|>");
}

TEST_CASE("a template that cannot be read fails with its line and column") {
  const auto error = [](const std::string& source) { return ChatTemplate::compile(source, *test::make_vocabulary({})).error(); };
  CHECK(error("a\n{% foo %}") == "chat template: line 2, column 4: unknown tag 'foo'");
  CHECK(error("{% if x %}\n") == "chat template: line 1, column 4: the tag 'if' has no end 'endif'");
  CHECK(error("{{ 1 + }}") == "chat template: line 1, column 8: expected an expression, got the end of the expression");
  CHECK(error("\n\n  {{ x|nofilter }}") == "chat template: line 3, column 8: no filter named 'nofilter'");
  CHECK(error("{% include 'x' %}").find("a chat template stands alone") != std::string::npos);
  CHECK(error("{{ 'x }}").find("the string has no end") != std::string::npos);
}

TEST_CASE("a template's refusal is its words, a failure says where") {
  CHECK(prompt(*compiled("{% if messages[0].content == 'x' %}{{ raise_exception('no x') }}{% endif %}"), {{said("user", "x")}}) == "refused: no x");
  CHECK(prompt(*compiled("\n{{ messages[0].content + 1 }}"), {{said("user", "x")}}) ==
        "failed: chat template, line 2: can only concatenate str (not \"int\") to str");
}

TEST_CASE("how tools are listed says nothing of the form of a call's arguments") {
  const auto what = compiled("{% if tools %}{{ tools }}{% endif %}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls or [] %}"
                             "{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}");
  CHECK(what->traits().tool_calls);
  CHECK(what->traits().arguments_object);
  Conversation conversation{{said("user", "x"), called(R"({"a": 1})")}};
  conversation.tools = {weather};
  CHECK(prompt(*what, conversation).find('\\') == std::string::npos);  // no text within a text
}

TEST_CASE("messages of one role in a row are merged when the template refuses them") {
  const auto what = compiled("{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('must alternate') }}{% endif %}"
                             "{{ m.content }};{% endfor %}");
  CHECK(prompt(*what, {{said("user", "a"), said("user", "b"), said("assistant", "c"), said("user", "d")}}) == "[a\n\nb];[c];[d];");
  CHECK(prompt(*what, {{said("assistant", "a")}}) == "refused: must alternate");
}

TEST_CASE("a template without a system role gets its text in front of the first user message") {
  const auto what = compiled("{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + plain);
  CHECK_FALSE(what->traits().system);
  CHECK(prompt(*what, {{said("system", "be kind"), said("user", "hi")}}) == "<|user|>[be kind\n\nhi]<|end|><|assistant|>");
  CHECK(prompt(*what, {{said("system", "be kind")}}) == "<|user|>[be kind]<|end|><|assistant|>");
}

TEST_CASE("a template without tools gets them as text") {
  const auto what = compiled(plain);
  Conversation conversation{{said("user", "hi"), called("{\"a\": 1}"), said("tool", "sunny")}};
  conversation.tools = {weather};
  const std::string out = prompt(*what, conversation);
  CHECK(out.find("<|system|>[You can call") == 0);
  CHECK(out.find("{\"type\":\"function\",\"function\":{\"name\":\"weather\"") != std::string::npos);
  CHECK(out.find("<|assistant|>[<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>]<|end|>") != std::string::npos);
}

TEST_CASE("arguments go as the template wants them") {
  const std::string calls = "{% for m in messages %}{% if m.tool_calls %}{% for c in m.tool_calls %}{{ c.function.name }}(";
  const std::string rest = "){% endfor %}{% else %}{{ m.content }}{% endif %}{% endfor %}{{ tools|length if tools }}";
  const auto object = compiled(calls + "{{ c.function.arguments|tojson }}" + rest), text = compiled(calls + "{{ c.function.arguments + ';' }}" + rest);
  CHECK(object->traits().arguments_object);
  CHECK_FALSE(text->traits().arguments_object);
  CHECK(text->traits().tool_calls);
  CHECK(prompt(*object, {{said("user", "hi"), called("{\"a\":[1, 2]}")}}) == "[hif]([{\"a\": [1, 2]}])");
  CHECK(prompt(*object, {{said("user", "hi"), called("no json")}}) == "[hif]([\"no json\"])");
  CHECK(prompt(*text, {{said("user", "hi"), called("{\"a\":[1, 2]}")}}) == "[hif]([{\"a\":[1, 2]}];)");
}

TEST_CASE("content goes as parts where the template walks over them") {
  const auto what = compiled("{% for m in messages %}{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% else %}<|image|>{% endif %};{% endfor %}{% endfor %}");
  CHECK(what->traits().content_parts);
  CHECK(what->traits().pictures);
  ChatMessage message = said("user", "what is");
  message.content.push_back({ContentPart::Kind::picture});
  CHECK(prompt(*what, {{message}}) == "[what is];<|image|>;");
}

TEST_CASE("a picture keeps its place where the template has no form for it") {
  const auto what = compiled(plain);
  CHECK_FALSE(what->traits().pictures);
  ChatMessage message = said("user", "see ");
  message.content.push_back({ContentPart::Kind::picture});
  message.content.push_back({ContentPart::Kind::text, "!"});
  CHECK(prompt(*what, {{message}}) == "<|user|>[see ][*][!]<|end|><|assistant|>");
}

TEST_CASE("thinking is switched, kept and seen open") {
  const auto what = compiled("{% for m in messages %}<|{{ m.role }}|>{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}{% endfor %}"
                             "{% if add_generation_prompt %}<|assistant|>{% if enable_thinking is defined and not enable_thinking %}<think></think>{% else %}<think>\n{% endif %}{% endif %}");
  CHECK(what->traits().enable_thinking);
  CHECK(what->traits().reasoning);
  CHECK(what->traits().opens_thinking);
  Conversation conversation{{said("user", "<think>")}};
  const auto open = [&] { return std::get<RenderedPrompt>(what->render(conversation, 0)).thinking_open; };
  CHECK(open());
  conversation.thinking = false;
  CHECK_FALSE(open());
  CHECK(prompt(*what, conversation) == "<|user|>[<think>]<|assistant|><think></think>");
  ChatMessage answer = said("assistant", "4");
  answer.reasoning = "two and two";
  CHECK(prompt(*what, {{said("user", "2+2"), answer}}) == "<|user|>[2+2]<|assistant|><think>[two and two]</think>[4]<|assistant|><think>\n");
}

TEST_CASE("an answer that goes on ends the prompt with its text") {
  const auto what = compiled("{% for m in messages %}<|{{ m.role }}|>{{ m.content|trim }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}");
  Conversation conversation{{said("user", "count"), said("assistant", "1, 2, ")}};
  conversation.continue_last = true;
  CHECK(prompt(*what, conversation) == "<|user|>[count]<|end|><|assistant|>[1, 2, ]");
  conversation.messages.back() = said("assistant", "<think>one");
  CHECK(std::get<RenderedPrompt>(what->render(conversation, 0)).thinking_open);
}

TEST_CASE("a client's variables reach the template but cannot take the place of its own") {
  const auto what = compiled("{{ mood }} {{ messages[0].content }} {{ bos_token }}");
  Conversation conversation{{said("user", "hi")}};
  conversation.template_variables = Json{{"mood", "glad"}, {"messages", 5}, {"bos_token", "x"}};
  CHECK(prompt(*what, conversation) == "[glad] [hi] <s>");
}
