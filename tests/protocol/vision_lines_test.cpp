// The vision child's lines and commands, and the percent coding that lets paths hold blanks.
#include <catch2/catch.hpp>

#include "protocol/lines.hpp"

using namespace vigil::protocol;

TEST_CASE("vision lines are read") {
  CHECK(std::get<VisionReady>(*parse_vision_line("READY 2048 ")).width == 2048);
  CHECK(std::get<VisionOk>(*parse_vision_line("OK 64 8 8 12.5")) == VisionOk{64, 8, 8, 12.5});
  CHECK(std::get<VisionOk>(*parse_vision_line("OK 64 8 8 12 later")).ms == 12);
  CHECK(std::get<EngineError>(*parse_vision_line("ERR cannot decode it")).text == "cannot decode it");
  CHECK(std::get<EngineError>(*parse_vision_line("ERR")).text.empty());
  CHECK(std::get<Info>(*parse_vision_line("INFO load=0.5")).load() == 0.5);
  const auto command = parse_vision_command("ENC /a%20b.png /out%25.sve");
  REQUIRE(command.ok());
  CHECK(std::get<Encode>(*command) == Encode{"/a b.png", "/out%.sve"});
}

TEST_CASE("malformed vision lines and commands are errors") {
  for (const char* line : {"", "READY", "READY 0", "READY wide", "READY 1048577", "OK", "OK 1 1 1", "OK 0 1 1 1", "OK 1 -1 1 1", "OK 1 1 1 nan",
                           "T 5", "INFO =x", "@1 OK 1 1 1 1"}) {
    INFO(line);
    const auto result = parse_vision_line(line);
    REQUIRE_FALSE(result.ok());
    CHECK((result.error().find(line) != std::string::npos));
  }
  for (const char* line : {"", "ENC", "ENC a", "ENC a b c", "ENC a%00 b", "ENC %q b", "QUIT now", "GEN 5 1"}) {
    INFO(line);
    CHECK_FALSE(parse_vision_command(line).ok());
  }
  CHECK_FALSE(parse_vision_line(std::string(max_line_from_child_bytes + 1, 'E')).ok());
  CHECK_FALSE(parse_vision_command(std::string(max_line_from_child_bytes + 1, 'E')).ok());
}

TEST_CASE("vision events and commands round-trip") {
  const VisionEvent events[] = {Info{{{"load", "0.25"}, {"a b", "%"}}}, VisionReady{1}, VisionOk{1, 0, 0, 0}, VisionOk{64, 8, 8, 0.1},
                                EngineError{"text"}, EngineError{}};
  for (const VisionEvent& event : events) {
    const std::string text = encode(event);
    INFO(text);
    const auto back = parse_vision_line(std::string_view(text).substr(0, text.size() - 1));
    REQUIRE(back.ok());
    CHECK((*back == event));
  }
  for (const VisionCommand& command : {VisionCommand(Quit{}), VisionCommand(Encode{"/a b\n%/\xc3\xa9.png", "/tmp/x=y"})}) {
    const std::string text = encode(command);
    INFO(text);
    CHECK(text.find('\n') == text.size() - 1);
    const auto back = parse_vision_command(std::string_view(text).substr(0, text.size() - 1));
    REQUIRE(back.ok());
    CHECK((*back == command));
  }
}

TEST_CASE("percent coding keeps every byte") {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  const std::string encoded = percent_encode(all);
  CHECK(encoded.find_first_of(" \t\n\r") == std::string::npos);
  REQUIRE(percent_decode(encoded).ok());
  CHECK(*percent_decode(encoded) == all);
  CHECK(percent_encode("a b%\n") == "a%20b%25%0A");
  CHECK(*percent_decode("%41%4a%4A") == "AJJ");
  for (const char* bad : {"%", "a%", "%4", "%4g", "%g4", "%%41"}) {
    INFO(bad);
    const auto result = percent_decode(bad);
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().find("hexadecimal") != std::string::npos);
  }
}

TEST_CASE("printable clips and shows what a terminal would not") {
  CHECK(printable("plain \"text\"") == "plain \"text\"");
  CHECK(printable(std::string_view("a\0\n\x7f\xe9", 5)) == "a\\x00\\x0A\\x7F\\xE9");
  CHECK(printable("abcdef", 3) == "abc...");
  CHECK(printable("abc", 3) == "abc");
  CHECK(printable("", 3).empty());
}
