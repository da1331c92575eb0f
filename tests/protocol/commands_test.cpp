// Commands to engines: GEN, GENI, STOP, QUIT.
#include <catch2/catch.hpp>

#include <limits>

#include "protocol/gbnf.hpp"
#include "protocol/lines.hpp"

using namespace vigil::protocol;

namespace {

Generate generate(std::string_view line) {
  const auto result = parse_engine_command(line);
  INFO("line: " << line << (result.ok() ? "" : " error: " + result.error()));
  REQUIRE(result.ok());
  REQUIRE(std::holds_alternative<Generate>(*result));
  return std::get<Generate>(*result);
}

void round_trip(const EngineCommand& command) {
  const std::string text = encode(command);
  INFO("text: " << text.substr(0, 300));
  REQUIRE(text.find('\n') == text.size() - 1);
  const auto back = parse_engine_command(std::string_view(text).substr(0, text.size() - 1));
  INFO("error: " << (back.ok() ? "" : back.error()));
  REQUIRE(back.ok());
  CHECK(*back == command);
}

}  // namespace

TEST_CASE("GEN in its short and its long form") {
  const Generate plain = generate("GEN 16 1,2,3");
  CHECK(plain.max_new == 16);
  CHECK(plain.ids == std::vector<TokenId>{1, 2, 3});
  CHECK(plain.sampling == Sampling{});
  CHECK(generate("GEN 0 0 ").ids == std::vector<TokenId>{0});

  const Generate full = generate(
      "GEN  9007199254740992  req=17 temperature=0.7 top_p=0.9 min_p=0.05 top_k=40 seed=18446744073709551615 penalty_last_n=-1 "
      "penalty_repeat=1.1 penalty_freq=-0.5 penalty_present=0.25 logit_bias=5:-100,6:1.5 logprobs=20 grammar=root%20::=%20%22a%22 grammar_after=9 "
      "force_unless=8 force_at=64:9,10 x=  7");
  CHECK(full.request == RequestTag{17});
  CHECK(full.sampling.temperature == 0.7);
  CHECK(full.sampling.top_p == 0.9);
  CHECK(full.sampling.min_p == 0.05);
  CHECK(full.sampling.top_k == 40);
  CHECK(full.sampling.seed == std::numeric_limits<uint64_t>::max());
  CHECK(full.sampling.penalty_last_n == -1);
  CHECK(full.sampling.penalty_repeat == 1.1);
  CHECK(full.sampling.penalty_freq == -0.5);
  CHECK(full.sampling.penalty_present == 0.25);
  CHECK(full.sampling.logit_bias == std::vector<std::pair<TokenId, double>>{{5, -100}, {6, 1.5}});
  CHECK(full.sampling.logprobs == 20);
  CHECK(full.sampling.grammar == "root ::= \"a\"");
  CHECK(full.sampling.grammar_after == TokenId{9});
  CHECK(full.sampling.force_at == ForceAt{64, {9, 10}, 8});
  CHECK(full.others == std::vector<std::pair<std::string, std::string>>{{"x", ""}});
  CHECK(full.ids == std::vector<TokenId>{7});
}

TEST_CASE("GENI takes the embeddings file before the ids") {
  const Generate plain = generate("GENI 8 temperature=0 /tmp/a%20b%3Dc.sve 1,2");
  CHECK(plain.embeddings_file == "/tmp/a b=c.sve");
  CHECK(plain.ids == std::vector<TokenId>{1, 2});
}

TEST_CASE("STOP and QUIT") {
  CHECK(std::get<Stop>(*parse_engine_command("STOP")).request == std::nullopt);
  CHECK(std::get<Stop>(*parse_engine_command("STOP 17 ")).request == RequestTag{17});
  CHECK(std::holds_alternative<Quit>(*parse_engine_command("QUIT")));
  CHECK(encode(EngineCommand(Stop{})) == "STOP\n");
  CHECK(encode(EngineCommand(Stop{17})) == "STOP 17\n");
  CHECK(encode(EngineCommand(Quit{})) == "QUIT\n");
}

TEST_CASE("malformed commands are errors that name the field") {
  struct Row {
    const char* line;
    const char* says;
  };
  const Row rows[] = {
      {"", "empty command"},
      {"gen 5 1", "unknown command 'gen'"},
      {"GEN", "max_new is missing"},
      {"GEN -1 5", "max_new '-1'"},
      {"GEN many 5", "max_new 'many'"},
      {"GEN 5", "ids are missing"},
      {"GEN 5 ", "ids are missing"},
      {"GEN 5 temperature=1", "ids are missing"},
      {"GEN 5 1,,2", "prompt id 2 ''"},
      {"GEN 5 1,2,", "prompt id 3 ''"},
      {"GEN 5 ,1", "prompt id 1 ''"},
      {"GEN 5 1,-2", "prompt id 2 '-2'"},
      {"GEN 5 1,x", "prompt id 2 'x'"},
      {"GEN 5 2147483648", "prompt id 1 '2147483648'"},
      {"GEN 5 1,2 3", "'3' after the prompt's ids"},
      {"GEN 5 1,2 temperature=1", "after the prompt's ids"},
      {"GEN 5 =1 7", "no key"},
      {"GEN 5 temperature=nan 7", "temperature 'nan'"},
      {"GEN 5 temperature=inf 7", "temperature 'inf'"},
      {"GEN 5 temperature=-1 7", "temperature '-1'"},
      {"GEN 5 temperature= 7", "temperature ''"},
      {"GEN 5 temperature=1 temperature=2 7", "temperature stands twice"},
      {"GEN 5 top_p=1.5 7", "top_p '1.5'"},
      {"GEN 5 min_p=-0.1 7", "min_p '-0.1'"},
      {"GEN 5 top_k=-1 7", "top_k '-1'"},
      {"GEN 5 top_k=1.5 7", "top_k '1.5'"},
      {"GEN 5 penalty_last_n=-2 7", "penalty_last_n '-2'"},
      {"GEN 5 penalty_freq=x 7", "penalty_freq 'x'"},
      {"GEN 5 seed=-1 7", "seed '-1'"},
      {"GEN 5 req=x 7", "req 'x'"},
      {"GEN 5 req=1 req=2 7", "req stands twice"},
      {"GEN 5 logprobs=21 7", "logprobs '21'"},
      {"GEN 5 logit_bias= 7", "logit_bias ''"},
      {"GEN 5 logit_bias=5:1, 7", "logit_bias '5:1,'"},
      {"GEN 5 logit_bias=5 7", "logit_bias '5'"},
      {"GEN 5 logit_bias=5:nan 7", "logit_bias '5:nan'"},
      {"GEN 5 logit_bias=5:1 logit_bias=6:1 7", "logit_bias stands twice"},
      {"GEN 5 grammar=%zz 7", "grammar: '%'"},
      {"GEN 5 grammar= 7", "grammar is empty"},
      {"GEN 5 grammar=a grammar=b 7", "grammar stands twice"},
      {"GEN 5 grammar_after=3 7", "grammar_after without grammar"},
      {"GEN 5 grammar=a grammar_after=x 7", "grammar_after 'x'"},
      {"GEN 5 force_at=3 7", "force_at '3'"},
      {"GEN 5 force_at=3: 7", "force_at '3:'"},
      {"GEN 5 force_at=-1:4 7", "force_at '-1:4'"},
      {"GEN 5 force_at=1:4,x 7", "force_at '1:4,x'"},
      {"GEN 5 force_at=1:4 force_at=1:4 7", "force_at stands twice"},
      {"GEN 5 force_unless=4 7", "force_unless without force_at"},
      {"GENI 5", "embeddings file is missing"},
      {"GENI 5 file", "ids are missing"},
      {"GENI 5 a%2 7", "embeddings file: '%'"},
      {"GENI 5 a%00b 7", "NUL"},
      {"STOP x", "'x' is not a request number"},
      {"STOP 1 2", "'2' after"},
      {"STOP -1", "'-1'"},
      {"QUIT now", "takes no field"},
  };
  for (const Row& row : rows) {
    const auto result = parse_engine_command(row.line);
    INFO(row.line << (result.ok() ? " was accepted" : " -> " + result.error()));
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().find(row.says) != std::string::npos);
  }
}

TEST_CASE("commands round-trip") {
  round_trip(Quit{});
  round_trip(Stop{});
  round_trip(Stop{std::numeric_limits<RequestTag>::max()});
  round_trip(Generate{0, {}, {}, "", {}, {0}});
  Sampling sampling;
  sampling.temperature = 0.1;
  sampling.top_p = 1;
  sampling.min_p = 0;
  sampling.top_k = 0;
  sampling.seed = 1;
  sampling.penalty_last_n = -1;
  sampling.penalty_repeat = 1.0 / 3.0;
  sampling.penalty_freq = -2;
  sampling.penalty_present = 1e-300;
  sampling.logit_bias = {{0, -100}, {2147483647, 0.1}};
  sampling.logprobs = 0;
  sampling.grammar = "root ::= \"a b\" | [=%]\n";
  sampling.grammar_after = 7;
  sampling.force_at = ForceAt{0, {1, 2}, 3};
  round_trip(Generate{1, 0, sampling, "", {{"img", ""}}, {1, 2, 2147483647}});
  sampling.force_at->unless.reset();
  round_trip(Generate{1, 42, sampling, "/a b/c=d%/\xc3\xa9.sve", {}, {1}});
}

TEST_CASE("EMB names its pooling and its ids, and nothing is guessed") {
  CHECK(encode(EngineCommand(Embed{{}, Pooling::mean, {1, 2}})) == "EMB pool=mean 1,2\n");
  CHECK(encode(EngineCommand(Embed{17, Pooling::last, {5}})) == "EMB req=17 pool=last 5\n");
  round_trip(Embed{0, Pooling::cls, {2147483647}});
  CHECK(parse_engine_command("EMB later=1 pool=cls 1").ok());
  for (const char* wrong : {"EMB 1,2", "EMB pool=max 1", "EMB pool=mean", "EMB pool=mean 1,x", "EMB pool=mean 1 2", "EMB req=x pool=mean 1"}) {
    INFO(wrong);
    CHECK_FALSE(parse_engine_command(wrong).ok());
  }
}

TEST_CASE("a grammar has its own cap on the line") {
  const std::string grammar(gbnf::max_text_bytes, '#');
  CHECK(generate("GEN 5 grammar=" + grammar + " 7").sampling.grammar == grammar);
  const auto longer = parse_engine_command("GEN 5 grammar=" + grammar + "# 7");
  REQUIRE_FALSE(longer.ok());
  CHECK(longer.error().find("at most 262144") != std::string::npos);
}

TEST_CASE("a prompt of a million tokens fits the line cap, and one byte over the cap is an error") {
  Generate big;
  big.max_new = 1;
  big.ids.assign(1'048'576, 151'935);
  const std::string text = encode(EngineCommand(big));
  CHECK(text.size() < max_line_to_child_bytes);
  const auto back = parse_engine_command(std::string_view(text).substr(0, text.size() - 1));
  REQUIRE(back.ok());
  CHECK((*back == EngineCommand(big)));

  const std::string over(max_line_to_child_bytes + 1, '1');
  const auto refused = parse_engine_command(over);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().size() < 200);
}
