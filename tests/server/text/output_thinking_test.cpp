// text/output_parser: thinking and content (cases D4, X6), white space at their border.
#include <catch2/catch.hpp>

#include "server/text/output_families.hpp"
#include "tests/server/text/output_support.hpp"

using namespace vigil::text;
using namespace vigil::text::test;

namespace {

using End = OutputParser::End;

// The same for every place to cut in two, one byte a push, and whole.
void check(std::string_view output, const std::string& thinking, const std::string& content, bool open = false, End end = End::complete) {
  const OutputFormat format = families::hermes();
  const OutputParser::Options options{.thinking_open = open};
  std::vector<Cutter> cutters{one_byte, whole};
  for (size_t cut = 1; cut < output.size(); ++cut) cutters.push_back([cut, size = output.size()](size_t left) { return left == size ? cut : left; });
  for (const Cutter& cutter : cutters) {
    const Reading reading = read_output(format, options, output, end, cutter);
    CHECK(reading.thinking == thinking);
    CHECK(reading.text == content);
    CHECK(reading.calls.empty());
  }
}

}  // namespace

TEST_CASE("Thinking is parted from the answer wherever tokens cut its tags", "[output]") {
  check("<think>why</think>\n\nAnswer", "why", "Answer");
  check("<think>\nwhy\nnot\n</think>\n\nAnswer\n  more", "why\nnot", "Answer\n  more");
  check("\n<think>why</think>Answer", "why", "Answer");
}

TEST_CASE("A prompt that opened thinking needs no opening tag", "[output]") {
  check("why</think>\n\nAnswer", "why", "Answer", true);
  check("\nwhy\n</think>\nAnswer", "why", "Answer", true);
}

TEST_CASE("Thinking that is never closed is all thinking", "[output]") {
  check("<think>why and", "why and", "", false, End::cut);
  check("why and </thin", "why and </thin", "", true, End::cut);
  check("why", "why", "", true);
}

TEST_CASE("What only looks like a tag comes through in order", "[output]") {
  check("a < b", "", "a < b");
  check("a </thin air", "", "a </thin air");
  check("<thin>a</think", "", "<thin>a</think");
  check("if a </thin then </think>ok", "if a </thin then", "ok", true);
  check("Say <think> to think.", "", "Say <think> to think.");
}

TEST_CASE("No thinking, and nothing of plain text is changed", "[output]") {
  check("", "", "");
  check(" \n Hello \n world \n", "", " \n Hello \n world \n");
  check("Grüße 😊", "", "Grüße 😊");
}

TEST_CASE("Thinking that is not to be parted is content, with its tags", "[output]") {
  const Reading reading = read_output(families::hermes(), {.split_thinking = false}, "<think>\nwhy\n</think>\n\nAnswer");
  CHECK(reading.text == "<think>\nwhy\n</think>\n\nAnswer");
  CHECK(reading.thinking.empty());
}

TEST_CASE("Whether thinking goes on can be asked", "[output]") {
  Reading reading;
  OutputParser parser(std::make_shared<const OutputFormat>(families::hermes()), {}, reading);
  CHECK_FALSE(parser.inside_thinking());
  parser.push("<think>a", OutputParser::Source::text);
  CHECK(parser.inside_thinking());
  parser.push("</think>", OutputParser::Source::control);
  CHECK_FALSE(parser.inside_thinking());
  parser.push("<|im_end|>", OutputParser::Source::control);  // no marker of this family: no text
  parser.push("b", OutputParser::Source::text);
  parser.finish(End::complete);
  CHECK(reading.thinking == "a");
  CHECK(reading.text == "b");
}
