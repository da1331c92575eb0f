// Lines from engines: what users' scripts write is accepted, every malformed line is an error that names the word and quotes the line.
#include <catch2/catch.hpp>

#include <limits>
#include <vector>

#include "protocol/lines.hpp"

using namespace vigil::protocol;

namespace {

template <typename T>
T parsed(std::string_view line) {
  const auto result = parse_engine_line(line);
  INFO("line: " << line << (result.ok() ? "" : " error: " + result.error()));
  REQUIRE(result.ok());
  REQUIRE(std::holds_alternative<T>(result->event));
  return std::get<T>(result->event);
}

std::string error_of(std::string_view line) {
  const auto result = parse_engine_line(line);
  INFO("line: " << printable(line));
  REQUIRE_FALSE(result.ok());
  return result.error();
}

void round_trip(const EngineLine& line) {
  const std::string text = encode(line);
  INFO("text: " << text);
  REQUIRE(text.back() == '\n');
  REQUIRE(text.find('\n') == text.size() - 1);
  const auto back = parse_engine_line(std::string_view(text).substr(0, text.size() - 1));
  INFO("error: " << (back.ok() ? "" : back.error()));
  REQUIRE(back.ok());
  CHECK(*back == line);
  CHECK(encode(*back) == text);
}

}  // namespace

// A bare token has a short way through the parser; a second blank sends the same words the long way. Both must say the same.
TEST_CASE("the short way of a bare token agrees with the long one") {
  for (const std::string tag : {"", "@0 ", "@17 ", "@18446744073709551615 ", "@18446744073709551616 ", "@-1 ", "@+1 ", "@ ", "@x ", "@1x ", "@"}) {
    for (const std::string id : {"0", "7", "007", "2147483647", "2147483648", "99999999999999999999", "-1", "-0", "+1", "", "x", "1x", "1.5", "0x10",
                                 "7 lp=-0.5", "7 unknown", "7 ", "7\t", "7\r"}) {
      const std::string short_way = tag + "T " + id, long_way = tag + "T  " + id;
      const auto one = parse_engine_line(short_way), other = parse_engine_line(long_way);
      INFO("line: " << printable(short_way));
      REQUIRE(one.ok() == other.ok());
      if (one.ok()) CHECK(*one == *other);
    }
  }
  CHECK(*parse_engine_line("@17 T 5") == EngineLine{17, Token{5, {}, {}}});
  CHECK(*parse_engine_line("T 5") == EngineLine{{}, Token{5, {}, {}}});
}

TEST_CASE("what users' scripts write is accepted") {
  const Ready ready = parsed<Ready>("READY 32768 stop");
  CHECK(ready.context == 32768);
  CHECK(ready.stop);
  CHECK_FALSE(ready.ids);
  CHECK(ready.slots == 1);
  CHECK_FALSE(ready.beat_ms);
  CHECK(parsed<Ready>("READY 1").context == 1);
  CHECK(parsed<Token>("T 123") == Token{123, {}, {}});
  CHECK(parsed<Token>("T 0").id == 0);
  CHECK(parsed<Token>("T 2147483647").id == 2147483647);
  const Done done = parsed<Done>("DONE 0 5 0 0 stop");
  CHECK(done == Done{0, 5, 0, 0, "stop", {}});
  CHECK(parsed<EngineError>("ERR anything at all: 50% of \"it\"").text == "anything at all: 50% of \"it\"");
  CHECK(parsed<EngineError>("ERR").text.empty());
  CHECK(parsed<EngineError>("ERR ").text.empty());
  CHECK(parsed<Fatal>("FATAL cuda error 700").why == "cuda error 700");
  CHECK(parsed<Fatal>("FATAL").why.empty());
  CHECK(parsed<PromptProgress>("PP 512 2048") == PromptProgress{512, 2048, 0, 0});
  CHECK(parsed<PromptProgress>("PP 512 2048 1000.5") == PromptProgress{512, 2048, 1000.5, 0});
  CHECK(parsed<PromptProgress>("PP 512 2048 1000 512") == PromptProgress{512, 2048, 1000, 512});
  CHECK(parsed<Resume>("RESUME 12").tokens == 12);
  CHECK(parsed<Wait>("SWAIT load-experts 30") == Wait{"load-experts", 30});
  CHECK(parsed<Beat>("BEAT step=18446744073709551615").step == std::numeric_limits<uint64_t>::max());
}

TEST_CASE("blanks between and after fields do not matter") {
  CHECK(parsed<Token>("  T   5  ").id == 5);
  CHECK(parsed<Token>("T\t5").id == 5);
  CHECK(parsed<Ready>("READY  8   stop   ids ").ids);
  CHECK(parsed<EngineError>("ERR   two  words  ").text == "two  words");
  CHECK(parsed<Done>("DONE  1  2  3  4  length  ").finish == "length");
  const auto tagged = parse_engine_line("@7   T  5 ");
  REQUIRE(tagged.ok());
  CHECK(tagged->request == RequestTag{7});
}

TEST_CASE("fields after the known ones are kept or passed over") {
  CHECK(parsed<Done>("DONE 1 2 3 4 stop 17 cached=3").more == std::vector<std::string>{"17", "cached=3"});
  CHECK(parsed<Done>("DONE 1 2 3 4 eos").finish == "eos");
  CHECK(parsed<Token>("T 5 later=1 lp=-0.5").logprob == -0.5);
  CHECK(parsed<Resume>("RESUME 3 more").tokens == 3);
  CHECK(parsed<PromptProgress>("PP 1 2 3 4 5 six").tokens_per_s == 4);
  CHECK(parsed<Beat>("BEAT step=4 layer=2").step == 4);
  CHECK_FALSE(parsed<Beat>("BEAT step=4 layer=2").active);
  CHECK(parsed<Beat>("BEAT step=4 active=17,18 more=1").active == std::vector<RequestTag>{17, 18});
  CHECK(parsed<Beat>("BEAT step=4 active=").active == std::vector<RequestTag>{});
  CHECK_FALSE(parse_engine_line("BEAT step=4 active=17,x"));
  CHECK_FALSE(parse_engine_line("BEAT step=4 active=,"));
  const Ready ready = parsed<Ready>("READY 8 zstd stop v2=yes 50%");
  CHECK(ready.stop);
  CHECK(ready.others == std::vector<std::string>{"zstd", "v2=yes", "50%"});
}

TEST_CASE("READY words") {
  const Ready ready = parsed<Ready>("READY 4096 gpu grammar embeddings logprobs slots=4 ids beat=250 stop");
  CHECK(ready == Ready{4096, true, true, true, true, true, true, 4, 250, {}});
  CHECK(parsed<Ready>("READY 8 slots=1").slots == 1);
}

TEST_CASE("INFO values are decoded, a foreign engine's remarks are kept") {
  const Info info = parsed<Info>("INFO load=0.37 name=two%20words%0Aand%25 done=50% warm");
  REQUIRE(info.values.size() == 4);
  CHECK(info.values[1].second == "two words\nand%");
  CHECK(info.values[2] == std::pair<std::string, std::string>{"done", "50%"});
  CHECK(info.values[3] == std::pair<std::string, std::string>{"warm", ""});
  CHECK(info.load() == 0.37);
  CHECK(parsed<Info>("INFO load=1").load() == 1.0);
  for (const char* line : {"INFO", "INFO kv=f16", "INFO load=", "INFO load=1.01", "INFO load=-0.1", "INFO load=nan", "INFO load=x", "INFO overload=0.5"}) {
    INFO(line);
    CHECK_FALSE(parsed<Info>(line).load());
  }
}

TEST_CASE("malformed lines are errors that name the word and quote the line") {
  struct Row {
    const char* line;
    const char* says;
  };
  const Row rows[] = {
      {"", "empty line"},
      {"   ", "empty line"},
      {"HELLO", "unknown word 'HELLO'"},
      {"ready 5", "unknown word 'ready'"},
      {"T5", "unknown word 'T5'"},
      {"BT 0 5", "unknown word 'BT'"},
      {"T", "token id is missing"},
      {"T ", "token id is missing"},
      {"T x", "token id 'x'"},
      {"T -1", "token id '-1'"},
      {"T -0", "token id '-0'"},
      {"T +5", "token id '+5'"},
      {"T 5x", "token id '5x'"},
      {"T 1.0", "token id '1.0'"},
      {"T 0x10", "token id '0x10'"},
      {"T 2147483648", "token id '2147483648'"},
      {"T 99999999999999999999", "token id"},
      {"T 5 lp=nan", "lp 'nan'"},
      {"T 5 lp=-inf", "lp '-inf'"},
      {"T 5 lp=", "lp ''"},
      {"T 5 lp=-1 top=", "top ''"},
      {"T 5 lp=-1 top=5", "top '5'"},
      {"T 5 lp=-1 top=5:-1,", "top '5:-1,'"},
      {"T 5 lp=-1 top=5:-1,,6:-2", "top"},
      {"T 5 lp=-1 top=-5:-1", "top"},
      {"T 5 lp=-1 top=5:inf", "top"},
      {"T 5 lp=-1 top=5:-1 top=6:-1", "twice"},
      {"T 5 top=5:-1", "top needs lp"},
      {"READY", "context length is missing"},
      {"READY stop", "context length 'stop'"},
      {"READY 0", "context length '0'"},
      {"READY -5", "context length '-5'"},
      {"READY 1e9", "context length '1e9'"},
      {"READY 9007199254740993", "context length"},
      {"READY 8 ids slots=0", "slots '0'"},
      {"READY 8 ids slots=1025", "slots '1025'"},
      {"READY 8 ids slots=", "slots ''"},
      {"READY 8 ids slots=2 slots=3", "slots stands twice"},
      {"READY 8 slots=4", "slots=4 needs the word ids"},
      {"READY 8 beat=9", "beat '9'"},
      {"READY 8 beat=3600001", "beat '3600001'"},
      {"READY 8 beat=fast", "beat 'fast'"},
      {"RESUME", "reused tokens is missing"},
      {"RESUME -1", "reused tokens '-1'"},
      {"PP", "tokens read is missing"},
      {"PP 5", "tokens in all is missing"},
      {"PP -1 5", "tokens read '-1'"},
      {"PP 1 5 nan", "ms 'nan'"},
      {"PP 1 5 -3", "ms '-3'"},
      {"PP 1 5 3 inf", "tokens per second 'inf'"},
      {"DONE", "generated tokens is missing"},
      {"DONE 0 5 0 0", "finish reason is missing"},
      {"DONE -1 5 0 0 stop", "generated tokens '-1'"},
      {"DONE 0 5 x 0 stop", "prompt ms 'x'"},
      {"DONE 0 5 0 -1 stop", "decode ms '-1'"},
      {"DONE 0 5 0 1e999 stop", "decode ms '1e999'"},
      {"SWAIT", "phase is missing"},
      {"SWAIT load", "seconds is missing"},
      {"SWAIT load -1", "seconds '-1'"},
      {"SWAIT load nan", "seconds 'nan'"},
      {"BEAT", "step count is missing"},
      {"BEAT 5", "step count '5'"},
      {"BEAT step=", "step count"},
      {"BEAT step=-1", "step count"},
      {"INFO =5", "no key"},
      {"@ T 5", "request tag '@'"},
      {"@x T 5", "request tag '@x'"},
      {"@-1 T 5", "request tag '@-1'"},
      {"@18446744073709551616 T 5", "request tag"},
      {"@17", "nothing after the request tag"},
      {"@17 READY 5", "takes no tag"},
      {"@17 INFO a=b", "takes no tag"},
      {"@17 BEAT step=1", "takes no tag"},
      {"@17 T", "token id is missing"},
  };
  for (const Row& row : rows) {
    const std::string error = error_of(row.line);
    INFO(row.line << " -> " << error);
    CHECK(error.find(row.says) != std::string::npos);
    if (std::string_view(row.line).find_first_not_of(' ') != std::string_view::npos) {
      CHECK(error.find("\"" + std::string(row.line)) != std::string::npos);
    }
  }
}

TEST_CASE("control bytes: an error in words, blanks in free text") {
  using namespace std::string_view_literals;
  CHECK(error_of("T 5\0"sv).find("\\x00") != std::string::npos);
  CHECK(error_of("READY 5 a\x1b[0m"sv).find("\\x1B") != std::string::npos);
  CHECK(error_of("DONE 0 5 0 0 st\nop"sv).find("\\x0A") != std::string::npos);
  CHECK(error_of("\xff\xfe"sv).find("\\xFF\\xFE") != std::string::npos);
  CHECK(parsed<EngineError>("ERR \x1b[31mboom\0 \nlast\r"sv).text == "[31mboom   last");
}

TEST_CASE("a line over the cap is an error however it was split, an error text is clipped") {
  std::string line = "ERR ";
  line.append(max_line_from_child_bytes - 4, 'x');
  CHECK(parsed<EngineError>(line).text.size() == 8 * 1024);
  line += 'x';
  const std::string error = error_of(line);
  CHECK(error.find("over the limit of 65536") != std::string::npos);
  CHECK(error.size() < 400);
  CHECK(error_of(std::string(60000, 'Q')).size() < 400);
}

TEST_CASE("top holds at most 20 candidates") {
  std::string line = "T 5 lp=-1 top=0:-1";
  for (int i = 1; i < 20; ++i) line += "," + std::to_string(i) + ":-1";
  CHECK(parsed<Token>(line).top.size() == 20);
  CHECK(error_of(line + ",20:-1").find("at most 20") != std::string::npos);
}

TEST_CASE("every engine event round-trips, tagged and not") {
  const EngineEvent events[] = {
      Info{{{"load", "0.5"}, {"name", "a b=%\n"}, {"k=ey", ""}}},
      Info{},
      Ready{1, false, false, false, false, false, false, 1, {}, {}},
      Ready{32768, true, true, true, true, true, true, max_slots, 3'600'000, {"zstd", "a=b", "50%"}},
      Resume{0},
      Resume{9007199254740992},
      PromptProgress{512, 4096, 0.1, 1e300},
      Token{0, {}, {}},
      Token{2147483647, -0.123456789012345, {}},
      Token{5, -1e-300, {{5, -1e-300}, {6, -2.5}}},
      Done{0, 0, 0, 0, "stop", {}},
      Done{7, 9, 0.25, 1e6, "cancel", {"x", "y=1"}},
      EngineError{"any text, \"quotes\" and 100%"},
      EngineError{},
      Fatal{"why"},
      Fatal{},
      Wait{"load experts", 2.5},
      Beat{0},
      Beat{std::numeric_limits<uint64_t>::max()},
      Beat{7, std::vector<RequestTag>{}},
      Beat{7, std::vector<RequestTag>{1, std::numeric_limits<uint64_t>::max()}},
  };
  for (const EngineEvent& event : events) {
    round_trip({std::nullopt, event});
    const bool untaggable = std::holds_alternative<Info>(event) || std::holds_alternative<Ready>(event) || std::holds_alternative<Beat>(event);
    if (!untaggable) {
      round_trip({RequestTag{0}, event});
      round_trip({std::numeric_limits<RequestTag>::max(), event});
    }
  }
}

TEST_CASE("V carries float32 in base64; what is no finite number is an error") {
  const auto part = parsed<VectorPart>("V 9216 AACAPwAAAMA=");
  CHECK(part.offset == 9216);
  CHECK(part.values == std::vector<float>{1, -2});
  CHECK(encode(EngineLine{{17}, VectorPart{0, {1, -2}}}) == "@17 V 0 AACAPwAAAMA=\n");
  round_trip({{}, VectorPart{max_vector, std::vector<float>(max_vector_part, 0.1F)}});
  for (const char* wrong : {"V", "V 0", "V -1 AACAPw==", "V 0 AACAPw", "V 0 AACAP===", "V 0 AAAA", "V 0 ====", "V 0 AAB*Pw==", "V 0 AADAfw==", "V 0 AACAfw==", "V 1048577 AACAPw=="}) {
    INFO(wrong);
    CHECK_FALSE(parse_engine_line(wrong).ok());
  }
  CHECK_FALSE(parse_engine_line(encode(EngineLine{{}, VectorPart{0, std::vector<float>(max_vector_part + 1, 0)}})).ok());
}

TEST_CASE("encoding writes what the documents show") {
  CHECK(encode(EngineLine{{}, Ready{32768, true, false, false, false, false, false, 1, {}, {}}}) == "READY 32768 stop\n");
  CHECK(encode(EngineLine{{17}, Token{5, -0.12, {{5, -0.12}, {9, -3}}}}) == "@17 T 5 lp=-0.12 top=5:-0.12,9:-3\n");
  CHECK(encode(EngineLine{{}, Done{3, 5, 1.5, 20, "length", {}}}) == "DONE 3 5 1.5 20 length\n");
  CHECK(encode(EngineLine{{}, Beat{12}}) == "BEAT step=12\n");
  CHECK(encode(EngineLine{{}, Info{{{"load", "0.37"}}}}) == "INFO load=0.37\n");
  CHECK(encode(EngineLine{{}, PromptProgress{512, 2048, 10, 51.2}}) == "PP 512 2048 10 51.2\n");
}

TEST_CASE("encoding never writes a second line or a broken number") {
  const EngineEvent events[] = {
      EngineError{"two\nlines\r\n"}, Fatal{std::string("nul\0byte", 8)}, Info{{{"a\nb", "c\nd"}, {"", "no key"}}},
      Done{0, 0, 0, 0, "st op\n", {"a\nb"}}, Done{}, Wait{"", 1}, Wait{"a\nb", std::numeric_limits<double>::infinity()},
      Token{1, -std::numeric_limits<double>::infinity(), {}}, Token{1, std::numeric_limits<double>::quiet_NaN(), {}},
      Ready{8, false, false, false, false, false, false, 1, {}, {"two words", ""}},
  };
  for (const EngineEvent& event : events) {
    const std::string text = encode(EngineLine{{}, event});
    INFO(text);
    CHECK(text.find('\n') == text.size() - 1);
    CHECK(parse_engine_line(std::string_view(text).substr(0, text.size() - 1)).ok());
  }
}
