// text/output_parser: ways of writing calls that are no JSON objects, headers, and how a model's way is found.
#include <catch2/catch.hpp>

#include "server/text/output_families.hpp"
#include "tests/server/text/output_support.hpp"
#include "tests/server/text/text_support.hpp"

using namespace vigil::text;
using namespace vigil::text::test;

namespace {

using End = OutputParser::End;

Reading read(const OutputFormat& format, std::string_view output, End end = End::complete) {
  return read_every_way(format, with_tools(), output, end);
}

void check_content(const OutputFormat& format, const std::string& output) {
  const Reading reading = read(format, output);
  INFO(format.name << ": " << output);
  CHECK(reading.text == output);
  CHECK(reading.calls.empty());
}

Json only_call(const Reading& reading, const std::string& name) {
  REQUIRE(reading.calls.size() == 1);
  CHECK(reading.calls[0].name == name);
  return arguments_of(reading.calls[0]);
}

std::string set_option(const std::string& key, const std::string& value) {
  return "<tool_call>\n<function=set>\n<parameter=" + key + ">\n" + value + "\n</parameter>\n</function>\n</tool_call>";
}

}  // namespace

TEST_CASE("A raw value has the type that the schema says", "[output]") {
  const OutputFormat form = families::qwen_xml();
  const auto value = [&](const std::string& key, const std::string& raw) { return only_call(read(form, set_option(key, raw)), "set")[key]; };
  CHECK(value("flag", "true") == true);
  CHECK(value("flag", "True") == true);
  CHECK(value("ratio", "0.5") == 0.5);
  CHECK(value("ratio", "much") == "much");  // no number: the tool's owner may say so
  CHECK(value("options", "{\"tags\": [\"a\"]}") == Json({{"tags", {"a"}}}));
  CHECK(value("options", "{'tags': ['it\\'s', None]}") == Json({{"tags", {"it's", nullptr}}}));
  CHECK(value("maybe", "null") == nullptr);
  CHECK(value("maybe", "some") == "some");
  CHECK(value("unknown", "7") == 7);
  CHECK(value("unknown", "seven of 9") == "seven of 9");
}

TEST_CASE("A text value keeps all but one line break at each end", "[output]") {
  const auto written = [](const std::string& raw) {
    return read(families::qwen_xml(), "<tool_call>\n<function=write_file>\n<parameter=path>x</parameter>\n<parameter=content>" + raw +
                                          "</parameter>\n</function>\n</tool_call>");
  };
  for (const auto& [raw, content] : std::vector<std::pair<std::string, std::string>>{
           {"\na\n", "a"}, {"\n\n a\n\n", "\n a\n"}, {"a", "a"}, {"", ""}, {"\n", ""}, {"\n\n", ""}, {"\n\n\n", "\n"},
           {"\n00123\n", "00123"}, {"\nx </p> <parameter </paramet\n", "x </p> <parameter </paramet"}, {"\n\"q\" \\ \t é 😊\n", "\"q\" \\ \t é 😊"}}) {
    CHECK(only_call(written(raw), "write_file") == Json({{"path", "x"}, {"content", content}}));
  }
}

TEST_CASE("Calls as tags: what is none is content", "[output]") {
  const OutputFormat form = families::qwen_xml();
  check_content(form, "<tool_call>\n<function=fly>\n</function>\n</tool_call>");
  check_content(form, "<tool_call>\n<function=get_time>\nnow\n</function>\n</tool_call>");
  check_content(form, "<tool_call>\n<function=get_weather>\n<parameter=city>\nPar");
  check_content(form, "<tool_call>\n{\"name\": \"get_time\"}\n</tool_call>");
  check_content(form, "Use `<function=get_time>`: it needs no arguments");
  check_content(form, "</function>\n</tool_call>");
}

TEST_CASE("Calls as tags: ends that models forget", "[output]") {
  const OutputFormat form = families::qwen_xml();
  CHECK(only_call(read(form, "<function=get_time>\n</function>"), "get_time").empty());
  CHECK(only_call(read(form, "<tool_call>\n<function=get_time>\n</tool_call>Ok"), "get_time").empty());
  CHECK(read(form, "<tool_call>\n<function=get_time>\n</function>\n<function=get_time>\n</function>\n</tool_call>").calls.size() == 2);
}

TEST_CASE("A long text value is sent as it comes, and a broken call ends as valid JSON", "[output]") {
  const std::string begin = "<tool_call>\n<function=write_file>\n<parameter=content>\n" + std::string(2000, 'x');
  const Reading whole_call = read_output(families::qwen_xml(), with_tools(), begin + "\n</parameter>\n</function>\n</tool_call>");
  CHECK(only_call(whole_call, "write_file")["content"] == std::string(2000, 'x'));
  CHECK(whole_call.pieces > 1000);
  const Reading broken = read_output(families::qwen_xml(), with_tools(), begin + "\n</parameter>\nand so on");
  CHECK(only_call(broken, "write_file")["content"] == std::string(2000, 'x'));
  CHECK(broken.text == "and so on");
  const Reading cut = read_output(families::qwen_xml(), with_tools(), begin, End::cut);
  REQUIRE(cut.calls.size() == 1);
  CHECK_FALSE(cut.calls[0].ended);
}

TEST_CASE("Values in CDATA may hold tags", "[output]") {
  const Json arguments = only_call(read(families::minicpm(), "<function name=\"write_file\"><param name=\"path\"> <![CDATA[a]]></param>"
                                                             "<param name=\"content\"><![CDATA[<p></param></function>\n]] >]]></param></function>"), "write_file");
  CHECK(arguments == Json({{"path", " <![CDATA[a]]>"}, {"content", "<p></param></function>\n]] >"}}));
}

TEST_CASE("A tag may say itself whether its value is text", "[output]") {
  const std::string call = "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"set\">\n<｜DSML｜parameter name=\"flag\" string=\"true\">true</｜DSML｜parameter>\n"
                           "<｜DSML｜parameter name=\"x\" string=\"false\">[1]</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>";
  CHECK(only_call(read(families::dsml(), call), "set") == Json({{"flag", "true"}, {"x", {1}}}));
}

TEST_CASE("Tags within tags become objects and lists", "[output]") {
  const auto m = [](const std::string& tag) { return "]<]minimax[>[" + tag; };
  const std::string call = m("<tool_call>") + "\n" + m("<invoke name=\"set\">") + m("<options>") + m("<tags>") + m("</tags>") + m("<more>") + m("<item>") + "1" +
                           m("</item>") + m("<item>") + "b" + m("</item>") + m("</more>") + m("</options>") + m("<flag>") + "false" + m("</flag>") + m("</invoke>") +
                           "\n" + m("</tool_call>");
  CHECK(only_call(read(families::minimax_m3(), call), "set") == Json({{"options", {{"tags", Json::array()}, {"more", {1, "b"}}}}, {"flag", false}}));
  check_content(families::minimax_m3(), m("<tool_call>") + m("<invoke name=\"set\">") + m("<options>") + m("</flag>"));
}

TEST_CASE("Harmony: channels are thinking, answer and calls", "[output]") {
  const OutputFormat form = families::harmony();
  Reading reading = read(form, "<|channel|>analysis<|message|>One.<|end|><|start|>assistant<|channel|>analysis<|message|>Two.<|end|>"
                               "<|start|>assistant<|channel|>final<|message|>Hello.<|return|>");
  CHECK(reading.thinking == "One.\nTwo.");
  CHECK(reading.text == "Hello.");
  reading = read(form, "<|channel|>commentary to=functions.get_weather<|message|>{\"city\": \"<|end|>\"}<|call|>");
  CHECK(only_call(reading, "get_weather")["city"] == "<|end|>");
  check_content(form, "Hello, no header here.");
  check_content(form, " to whom it may concern");
  CHECK(read(form, "<|channel|>commentary to=functions.fly<|message|>{\"a\": 1}").text == "<|channel|>commentary to=functions.fly<|message|>{\"a\": 1}");
  CHECK(read(form, "<|channel|>commentary to=functions.get_time<|message|>{\"a\": 1,}").text ==
        "<|channel|>commentary to=functions.get_time<|message|>{\"a\": 1,}");
  CHECK(read(form, "<|channel|>commentary to=functions.get_weather<|message|>{\"city\": ", End::cut).cut_call == "get_weather");
  const Reading without = read_every_way(form, {}, "<|channel|>commentary to=functions.get_time<|message|>{}");
  CHECK(without.text == "<|channel|>commentary to=functions.get_time<|message|>{}");
}

TEST_CASE("A prompt's end says whether thinking is open", "[output]") {
  const OutputFormat form = families::hermes();
  CHECK(prompt_opens_thinking(form, "<|im_start|>assistant\n<think>\n"));
  CHECK(prompt_opens_thinking(form, "assistant: <think>"));
  CHECK_FALSE(prompt_opens_thinking(form, "<think>\n\n</think>\n\n"));
  CHECK_FALSE(prompt_opens_thinking(form, "<think> is a tag"));
  CHECK_FALSE(prompt_opens_thinking(form, ""));
  CHECK_FALSE(prompt_opens_thinking(families::gigachat(), "x"));  // a family that does not think aloud
  CHECK(prompt_opens_thinking(families::apriel(), "Here are my reasoning steps:\n"));
  using Source = PromptPart::Source;
  CHECK(prompt_opens_thinking(form, {{Source::typed, "Hi"}, {Source::fixed, "<|im_end|><th"}, {Source::fixed, "ink>"}, {Source::fixed, "\n"}}));
  CHECK_FALSE(prompt_opens_thinking(form, {{Source::fixed, "<think>"}, {Source::typed, "Hi"}}));
}

TEST_CASE("Harmony: a prompt may have opened thinking", "[output]") {
  OutputParser::Options options = with_tools();
  const std::string prompt = "<|start|>assistant<|channel|>analysis<|message|>";
  options.thinking_open = prompt_opens_thinking(families::harmony(), prompt);
  CHECK(options.thinking_open);
  const Reading reading = read_every_way(families::harmony(), options, "Why.<|end|><|start|>assistant<|channel|>final<|message|>Ok");
  CHECK(reading.thinking == "Why.");
  CHECK(reading.text == "Ok");
}

TEST_CASE("A line in front of each part says whom it is for", "[output]") {
  const OutputFormat form = families::functionary_lines();
  const Reading reading = read(form, "all\nA >>> b\n>>>get_time\n{}>>>get_weather\n{\"city\": \"x\"}");
  CHECK(reading.text == "A >>> b");
  CHECK(reading.calls.size() == 2);
  check_content(form, "Hello there");
  check_content(form, "fly\n{}");
  check_content(form, "get_time");
  check_content(form, "get_time\nsoon");
  check_content(form, "x>>>y");
}

TEST_CASE("JSON at the beginning of an answer is a call only when it can be nothing else", "[output]") {
  const OutputFormat form = families::llama();
  CHECK(only_call(read(form, " {\"name\": \"get_weather\", \"parameters\": {\"city\": \"x\"}}"), "get_weather")["city"] == "x");
  CHECK(read(form, "{\"name\": \"get_time\", \"parameters\": {}}; {\"name\": \"get_time\", \"parameters\": {}}").calls.size() == 2);
  check_content(form, "{\"name\": \"get_weather\", \"age\": 3}");
  check_content(form, "{\"name\": \"Ann\"}");
  check_content(form, "{\"a\": [1, 2]}");
  check_content(form, "Call {\"name\": \"get_time\", \"parameters\": {}}");
  check_content(form, "<|python_tag|>print(1)");
  CHECK(only_call(read(form, "<|python_tag|>brave_search.call(query=\"rain\")"), "brave_search")["query"] == "rain");
}

TEST_CASE("Code behind a mark is a call that ends with the output", "[output]") {
  CHECK(only_call(read(families::functionary_tags(), "<|python_tag|>print(\"a\")\n"), "python")["code"] == "print(\"a\")\n");
  const Reading cut = read(families::functionary_tags(), "<|python_tag|>print(", End::cut);
  CHECK(cut.calls.empty());
  CHECK(cut.cut_call == "python");
}

TEST_CASE("Python's notation", "[output]") {
  const OutputFormat form = families::lfm();
  const auto read_call = [&](const std::string& call) { return read(form, "<|tool_call_start|>[" + call + "]<|tool_call_end|>"); };
  CHECK(only_call(read_call("set(options={'tags': ('a', \"it's\", ), }, flag=None, ratio = -1.5e3 , x='\\x41\\u00e9\\n\"',)"), "set") ==
        Json({{"options", {{"tags", {"a", "it's"}}}}, {"flag", nullptr}, {"ratio", -1500.0}, {"x", "Aé\n\""}}));
  CHECK(read_call("get_time(), get_time()").calls.size() == 2);
  for (const std::string call : {"fly()", "get_time(1)", "get_time(a=b)", "get_time", "get_time(a=1 b=2)", "set(ratio=01)"}) {
    check_content(form, "<|tool_call_start|>[" + call + "]<|tool_call_end|>");
  }
}

TEST_CASE("Bare keys and marked strings", "[output]") {
  const OutputFormat form = families::gemma();
  CHECK(only_call(read(form, "<|tool_call>call:set{options:{tags:[<|\"|>a \"b\" <|x<|\"|>,true]},flag:false,ratio:2}<tool_call|>"), "set") ==
        Json({{"options", {{"tags", {"a \"b\" <|x", true}}}}, {"flag", false}, {"ratio", 2}}));
  check_content(form, "<|tool_call>call:fly{}<tool_call|>");
  check_content(form, "<|tool_call>call:set{flag:,}<tool_call|>");
}

TEST_CASE("Values are nested to a depth with a limit", "[output]") {
  const auto nested = [](size_t depth) {
    return "<tool_call>{\"name\": \"set\", \"arguments\": {\"a\": " + std::string(depth, '[') + std::string(depth, ']') + "}}</tool_call>";
  };
  CHECK(read_output(families::hermes(), with_tools(), nested(100)).calls.size() == 1);
  CHECK(read_output(families::hermes(), with_tools(), nested(200)).text == nested(200));
}

TEST_CASE("A model's way is told by its template, then by its vocabulary", "[output]") {
  const auto plain = make_vocabulary({});
  CHECK(output_format("", *plain)->name == "hermes");
  CHECK(output_format("… <tool_call>\\n<function=example> <parameter=p>", *plain)->name == "qwen-xml");
  CHECK(output_format("… <|channel|> … <|message|>", *plain)->name == "harmony");
  CHECK(output_format("[TOOL_CALLS] [ARGS]", *plain)->name == "mistral-arguments");
  CHECK(output_format("[TOOL_CALLS]", *plain)->name == "mistral-list");
  const auto glm = make_vocabulary({{"<arg_key>", 0, vigil::gguf::TokenKind::user_defined}});
  CHECK(output_format("", *glm)->name == "glm");
  CHECK(output_format("<minimax:tool_call>", *glm)->name == "minimax-m2");
}

TEST_CASE("What a grammar would write for a call is read as that call", "[output]") {
  for (const families::Form make : {families::hermes, families::minimax_m1, families::llama, families::functionary_tags, families::functionary_lines,
                                    families::functools, families::mistral_list, families::mistral_arguments, families::harmony, families::deepseek_fenced,
                                    families::deepseek, families::kimi_k2, families::granite_list, families::cohere_action, families::cohere_plain,
                                    families::toolcall_list, families::apertus, families::apriel, families::gigachat, families::qwen_xml, families::seed,
                                    families::glm, families::hunyuan, families::minimax_m2, families::minicpm}) {
    const OutputFormat format = make();
    const CallForm& form = format.form;
    INFO(format.name);
    REQUIRE(form.arguments != CallForm::Arguments::none);
    const auto call = [&](const std::string& name, const std::vector<std::pair<std::string, std::string>>& arguments) {
      std::string text;
      for (const auto& [key, value] : arguments) {
        if (form.arguments == CallForm::Arguments::xml) text += form.before_key + key + form.after_key + value + form.after_value;
        else text += (text.empty() ? "{\"" : ", \"") + key + "\": " + (value[0] == '4' ? value : '"' + value + '"');
      }
      if (form.arguments == CallForm::Arguments::json) text += text.empty() ? "{}" : "}";
      return form.before_name + name + form.after_name + text + form.after_arguments;
    };
    std::string output = form.begin + call("get_weather", {{"city", "Rome"}, {"days", "4"}});
    if (form.several) output += form.between + call("get_time", {});
    output += form.end;
    const Reading reading = read(format, output);
    REQUIRE(reading.calls.size() == (form.several ? 2 : 1));
    CHECK(arguments_of(reading.calls[0]) == Json({{"city", "Rome"}, {"days", 4}}));
    if (form.several) CHECK(arguments_of(reading.calls[1]).empty());
    CHECK(reading.text.empty());
  }
}
