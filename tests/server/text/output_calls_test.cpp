// text/output_parser: which text is a call, and that nothing else is lost (cases C2, D7, X4, X5), in the form with <tool_call> and JSON.
#include <catch2/catch.hpp>

#include "server/text/output_families.hpp"
#include "tests/server/text/output_support.hpp"

using namespace vigil::text;
using namespace vigil::text::test;

namespace {

using End = OutputParser::End;
const OutputFormat hermes = families::hermes();
const std::string paris = R"(<tool_call>
{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}
</tool_call>)";

Reading read(std::string_view output, End end = End::complete) { return read_every_way(hermes, with_tools(), output, end); }

// All of it is content, to the byte.
void check_content(const std::string& output) {
  const Reading reading = read(output);
  CHECK(reading.text == output);
  CHECK(reading.thinking.empty());
  CHECK(reading.calls.empty());
}

// A call whose content argument is this long.
std::string long_call(size_t bytes) {
  return "<tool_call>\n{\"name\": \"write_file\", \"arguments\": {\"path\": \"a\", \"content\": \"" + std::string(bytes, 'x') + "\"}}\n</tool_call>";
}

}  // namespace

TEST_CASE("Prose and then a call gives both", "[output]") {
  const Reading reading = read("Let me see.\n" + paris + "\n");
  CHECK(reading.text == "Let me see.");
  CHECK(reading.order == "c(a)");
  REQUIRE(reading.calls.size() == 1);
  CHECK(reading.calls[0].name == "get_weather");
  CHECK(arguments_of(reading.calls[0]) == Json({{"city", "Paris"}, {"days", 3}}));
}

TEST_CASE("Calls follow one another, one without arguments has an empty object", "[output]") {
  const Reading reading = read(paris + "\n<tool_call>\n{\"name\": \"get_time\", \"arguments\": {}}\n</tool_call><tool_call>{\"name\":\"get_time\"}</tool_call>");
  REQUIRE(reading.calls.size() == 3);
  CHECK(reading.order == "(a)(a)(a)");
  CHECK(reading.calls[1].arguments == "{}");
  CHECK(reading.calls[2].arguments == "{}");
  CHECK(reading.text.empty());
}

TEST_CASE("Text behind a call is content again", "[output]") {
  const Reading reading = read("A\n" + paris + "\n\nB\n" + paris + "C");
  CHECK(reading.text == "A\n\nBC");
  CHECK(reading.order == "c(a)c(a)c");
}

TEST_CASE("What is no valid call is content", "[output]") {
  check_content("Done.</tool_call>");
  check_content("<tool_call>");
  check_content("<tool_call>\n");
  check_content("So:\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Par");
  check_content("<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\",}}\n</tool_call>");
  check_content("<tool_call>\n{\"name\": \"fly\", \"arguments\": {}}\n</tool_call>");
  check_content("<tool_call>\n{\"name\": \"get_weather\", \"arguments\": [1]}\n</tool_call>");
  check_content("<tool_call>\n{\"arguments\": {}}\n</tool_call>");
  check_content("<tool_call>\n{\"name\": 5}\n</tool_call>");
  check_content("<tool_call>\nget_weather Paris\n</tool_call>");
  check_content("<tool_call>\n[]\n</tool_call>");
  check_content("<tool_call>\n{\"name\": \"get_weather\", \"name\": \"get_time\"}\n</tool_call>");
  check_content("a <tool_cal");
}

TEST_CASE("Calls that are quoted are content", "[output]") {
  check_content("Use `<tool_call>` to call.");
  check_content("Write `" + paris + "` there.");  // its line break ends the span, but not before the call began
  check_content("Like this:\n```xml\n" + paris + "\n```\nDone.");
  const Reading behind = read("`a` and ```b``` and\n```\ncode\n```\n" + paris);
  CHECK(behind.calls.size() == 1);
  CHECK(read("5 ` of\n" + paris).calls.size() == 1);
}

TEST_CASE("A failed call hides no good one", "[output]") {
  const Reading reading = read("<tool_call>x<tool_call>\n<tool_call>" + paris);
  CHECK(reading.text == "<tool_call>x<tool_call>\n<tool_call>");
  CHECK(reading.calls.size() == 1);
  const Reading unclosed = read("<tool_call>{\"name\": \"get_weather\", " + paris);
  CHECK(unclosed.text == "<tool_call>{\"name\": \"get_weather\",");
  CHECK(unclosed.calls.size() == 1);
}

TEST_CASE("Without declared tools all is content", "[output]") {
  for (const std::string& output : {paris, "A " + paris + paris, std::string("<tool_call>")}) {
    const Reading reading = read_every_way(hermes, {}, output);
    CHECK(reading.text == output);
    CHECK(reading.calls.empty());
  }
}

TEST_CASE("Calls in forms that models write by mistake are calls", "[output]") {
  for (const std::string& output : {
           std::string(R"(<tool_call>{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}})"),            // no end
           std::string(R"(<tool_call>{"arguments": {"city": "Paris", "days": 3}, "name": "get_weather"}</tool_call>)"),  // the other way round
           std::string(R"(<tool_call>{"name": "get_weather", "parameters": {"city": "Paris", "days": 3}, "id": "7"}</tool_call>)"),
           std::string(R"(<tool_call>{"name": "get_weather", "arguments": "{\"city\": \"Paris\", \"days\": 3}"}</tool_call>)"),
           std::string(R"(<tool_call>[{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}]</tool_call>)"),
           std::string(R"(<tool_call>{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}}</tool_call>)")}) {
    const Reading reading = read(output);
    INFO(output);
    REQUIRE(reading.calls.size() == 1);
    CHECK(reading.calls[0].name == "get_weather");
    CHECK(arguments_of(reading.calls[0]) == Json({{"city", "Paris"}, {"days", 3}}));
    CHECK(reading.text.empty());
  }
}

TEST_CASE("Line breaks and unknown escapes in strings are repaired", "[output]") {
  const Reading reading = read("<tool_call>{\"name\": \"write_file\", \"arguments\": {\"path\": \"C:\\d\", \"content\": \"a\n\tb \\ud83d\\ude0a \\ud83d\"}}</tool_call>");
  REQUIRE(reading.calls.size() == 1);
  CHECK(arguments_of(reading.calls[0]) == Json({{"path", "C:\\d"}, {"content", "a\n\tb 😊 \xEF\xBF\xBD"}}));
}

TEST_CASE("A call cut by a limit is not sent, and not content", "[output]") {
  for (size_t left = 1; left < paris.size() - std::string("\n</tool_call>").size(); ++left) {
    const std::string output = "Yes.\n" + paris.substr(0, paris.size() - std::string("\n</tool_call>").size() - left);
    const Reading reading = read_output(hermes, with_tools(), output, End::cut);
    CHECK(reading.calls.empty());
    if (output.find("get_weather\"") != std::string::npos) {
      CHECK(reading.text == "Yes.");
      CHECK(reading.cut_call == "get_weather");
    }
  }
  CHECK(read(paris + "\n<tool_ca", End::cut).calls.size() == 1);
  CHECK(read(paris.substr(0, paris.size() - 4), End::cut).calls.size() == 1);  // only its closing tag is cut
}

TEST_CASE("A long call is sent as it comes", "[output]") {
  const Reading reading = read_output(hermes, with_tools(), long_call(5000));
  REQUIRE(reading.calls.size() == 1);
  CHECK(reading.pieces > 1000);
  CHECK(arguments_of(reading.calls[0])["content"] == std::string(5000, 'x'));
  CHECK(reading.calls == read_output(hermes, with_tools(), long_call(5000), End::complete, whole).calls);

  const Reading cut = read_output(hermes, with_tools(), long_call(5000).substr(0, 3000), End::cut);
  REQUIRE(cut.calls.size() == 1);
  CHECK_FALSE(cut.calls[0].ended);
  CHECK(cut.text.empty());
  CHECK_FALSE(read_output(hermes, with_tools(), long_call(5000).substr(0, 3000), End::complete).calls[0].ended);
}

TEST_CASE("A long call that breaks ends as valid JSON, and what follows is content", "[output]") {
  std::string output = long_call(5000);
  for (const std::string& broken : {output.substr(0, output.size() - 15) + ",}}</tool_call>", output.substr(0, output.size() - 14) + " oh</tool_call>",
                                    output.substr(0, output.size() - 15) + ", \"a\": tru, 5</tool_call>"}) {
    const Reading reading = read_output(hermes, with_tools(), broken);
    REQUIRE(reading.calls.size() == 1);
    CHECK(arguments_of(reading.calls[0])["content"].get<std::string>().starts_with(std::string(4000, 'x')));
    CHECK(reading.text.ends_with("</tool_call>"));
    CHECK(reading.text == read_output(hermes, with_tools(), broken, End::complete, whole).text);
    CHECK(reading.calls == read_output(hermes, with_tools(), broken, End::complete, whole).calls);
  }
}

TEST_CASE("A call inside thinking is a call when nothing more is thought", "[output]") {
  for (const std::string& output : {"<think>Need it. " + paris, "<think>Need it.\n" + paris + "\n</think>\n", "<think>Need it.\n" + paris + "\n</think>\n\nOk."}) {
    const Reading reading = read(output);
    CHECK(reading.thinking == "Need it.");
    REQUIRE(reading.calls.size() == 1);
    CHECK(arguments_of(reading.calls[0])["city"] == "Paris");
    CHECK(reading.text == (output.ends_with("Ok.") ? "Ok." : ""));
  }
  CHECK(read("<think>" + paris + "\n" + paris).calls.size() == 2);
}

TEST_CASE("Behind a call, thinking has come to its end, unless it goes on", "[output]") {
  Reading reading;
  OutputParser parser(std::make_shared<const OutputFormat>(hermes), with_tools(), reading);
  parser.push("<think>Need it. ", OutputParser::Source::text);
  CHECK(parser.inside_thinking());
  parser.push(paris.substr(0, paris.size() - 12), OutputParser::Source::text);
  CHECK_FALSE(parser.inside_thinking());  // the call is complete, whatever becomes of its closing tag
  parser.push("</tool_call>\n", OutputParser::Source::text);
  CHECK_FALSE(parser.inside_thinking());
  parser.push("<tool_call>{\"name\": ", OutputParser::Source::text);
  CHECK(parser.inside_thinking());
  parser.push("\"get_time\"}</tool_call>", OutputParser::Source::text);
  parser.finish(End::complete);
  CHECK_FALSE(parser.inside_thinking());
  CHECK(reading.calls.size() == 2);
}

TEST_CASE("A call inside thinking that is quoted or talked about is thinking", "[output]") {
  for (const std::string& thought : {"I could write `" + paris + "`", "Like\n```\n" + paris + "\n```", "I write " + paris + " but need not.",
                                     "I write " + paris + paris + " but need not.", std::string("Use <tool_call> then {}"), std::string("<tool_call>{\"name\": \"get_w")}) {
    const Reading reading = read("<think>" + thought + "</think>Done.");
    CHECK(reading.thinking == thought);
    CHECK(reading.text == "Done.");
    CHECK(reading.calls.empty());
  }
}

TEST_CASE("When one call is wanted, what follows the first is dropped", "[output]") {
  OutputParser::Options options = with_tools();
  options.parallel_calls = false;
  const Reading reading = read_every_way(hermes, options, "A " + paris + paris + "B");
  CHECK(reading.calls.size() == 1);
  CHECK(reading.text == "A");
}

TEST_CASE("A control token begins a call wherever it stands", "[output]") {
  Reading reading;
  OutputParser parser(std::make_shared<const OutputFormat>(hermes), with_tools(), reading);
  parser.push("See `a", OutputParser::Source::text);
  parser.push("<tool_call>", OutputParser::Source::control);
  parser.push("{\"name\": \"get_time\"}", OutputParser::Source::text);
  parser.push("</tool_call>", OutputParser::Source::control);
  parser.push("<|im_end|>", OutputParser::Source::control);
  parser.finish(End::complete);
  CHECK(reading.text == "See `a");
  CHECK(reading.calls.size() == 1);
}

TEST_CASE("Nothing makes reading slow", "[output]") {
  // Each would take hours if what is held were read again for each byte or for each opening.
  const auto repeated = [](std::string_view part, size_t bytes) {
    std::string text;
    while (text.size() < bytes) text += part;
    return text;
  };
  const auto read_big = [](const OutputFormat& format, const std::string& output, const Cutter& cutter) {
    OutputParser::Options options = with_tools();
    const Reading content = read_output(format, options, output, End::complete, cutter);
    options.thinking_open = true;
    const Reading thinking = read_output(format, options, output, End::complete, cutter);
    if (content.calls.empty()) CHECK(content.text.size() + 512 >= output.size());  // a header that the end cuts has no text
    CHECK(thinking.thinking.size() + thinking.text.size() >= output.size() / 2);
  };
  constexpr size_t bytes = 1 << 16;
  for (const Cutter& cutter : {Cutter(one_byte), Cutter([](size_t) { return 4096; })}) {
    read_big(hermes, repeated("<tool_call>", bytes), cutter);
    read_big(hermes, repeated("<tool_call>{\"a\":\"", bytes), cutter);
    read_big(hermes, repeated("<tool_call>{\"arguments\":[", bytes), cutter);
    read_big(families::qwen_xml(), repeated("<tool_call>\n<function=get_time>\n<parameter=", bytes), cutter);
    read_big(families::qwen_xml(), repeated("<tool_call>\n<function=get_weather>\n<parameter=city>", bytes), cutter);
    read_big(families::minimax_m3(), repeated("]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=\"set\">]<]minimax[>[<a>", bytes), cutter);
    read_big(families::harmony(), repeated("<|start|>", bytes), cutter);
    read_big(families::lfm(), repeated("<|tool_call_start|>[set(a=[", bytes), cutter);
  }
}
