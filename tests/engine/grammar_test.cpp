// Grammars as automata and masks: against a slow matcher, token by token, and through a request's whole constraint.
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/sample/constraint.hpp"
#include "engine/sample/grammar_shelf.hpp"
#include "engine/sample/sampler.hpp"
#include "engine/sample/utf8_ranges.hpp"
#include "grammar_support.hpp"

using namespace vigil;
using namespace vigil::sample;
using namespace vigil::testing;

namespace {

bool accepts(Automaton& automaton, std::string_view text) {
  Automaton::State state = automaton.start();
  automaton.begin_operation();
  for (const char c : text) state = automaton.step(state, static_cast<uint8_t>(c));
  REQUIRE_FALSE(automaton.overflowed());
  return automaton.accepts(state);
}
bool fits(std::string_view grammar, std::string_view text) {
  Automaton automaton(program_of(grammar));
  return accepts(automaton, text);
}

std::string random_text(std::mt19937& random) {
  static const char* const parts[] = {"a", "b", "c", "\xC3\xA9", "ab", "ca", "\xC3", "z"};
  std::string text;
  for (size_t n = random() % 9; n > 0; --n) text += parts[random() % (random() % 8 == 0 ? 8 : 6)];
  return text;
}

// Every byte and some longer tokens; id 0 ends an answer.
std::vector<std::string> byte_vocabulary() {
  std::vector<std::string> texts = {""};
  for (int byte = 0; byte < 256; ++byte) texts.push_back(std::string(1, static_cast<char>(byte)));
  for (const char* text : {"ab", "abc", "aa", "ca", "\xC3\xA9", "\xA9", "a\xC3", "bb", "{\"", "\":", "true", "cab", "abcabc", "\xA9z"}) texts.push_back(text);
  return texts;
}
std::shared_ptr<const TokenTrie> byte_trie() { return std::make_shared<const TokenTrie>(byte_vocabulary()); }
constexpr int32_t id_of(char c) { return static_cast<int32_t>(static_cast<unsigned char>(c)) + 1; }

}  // namespace

TEST_CASE("utf8 ranges: every code point has its form in exactly one sequence") {
  for (const protocol::gbnf::Range range : {protocol::gbnf::Range{0, 0xD7FF}, {0xE000, 0x10FFFF}, {0x7F, 0x80}, {0x3A, 0x12345}, {0x800, 0x800}, {0xFFFE, 0x10001}}) {
    if (range.first < 0xD800 && range.last > 0xDFFF) continue;
    std::vector<ByteSequence> sequences;
    append_utf8_sequences(range, sequences);
    uint64_t count = 0;
    for (const ByteSequence& sequence : sequences) {
      uint64_t product = 1;
      for (size_t i = 0; i < sequence.length; ++i) product *= static_cast<uint64_t>(sequence.bytes[i].last - sequence.bytes[i].first + 1);
      count += product;
    }
    CHECK(count == range.last - range.first + 1);  // together with the next test: disjoint, and nothing besides
  }
  Automaton automaton(program_of("root ::= [\\x41-\\u07FF\\uE123-\\U00010FFF]"));
  for (char32_t c = 0; c < 0x12000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    if (c < 0x80) text = {static_cast<char>(c)};
    else if (c < 0x800) text = {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
    else if (c < 0x10000) text = {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3F)), static_cast<char>(0x80 | (c & 0x3F))};
    else text = {static_cast<char>(0xF0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 0x3F)), static_cast<char>(0x80 | (c >> 6 & 0x3F)), static_cast<char>(0x80 | (c & 0x3F))};
    const bool inside = (c >= 0x41 && c <= 0x7FF) || (c >= 0xE123 && c <= 0x10FFF);
    if (accepts(automaton, text) != inside) FAIL(static_cast<uint32_t>(c));
  }
}

TEST_CASE("automaton: the same texts as a slow matcher on random grammars") {
  std::mt19937 random(20260401);
  size_t yes = 0, texts = 0;
  for (int round = 0; round < 800; ++round) {
    const std::string text = random_grammar(random);
    const auto parsed = protocol::gbnf::parse(text);
    INFO(text << (parsed ? "" : parsed.error()));
    if (!parsed) {  // a rule that begins with itself through something that may be empty
      REQUIRE(parsed.error().find("begins with itself") != std::string::npos);
      continue;
    }
    auto program = make_program(*parsed);
    REQUIRE(program.ok());
    Automaton automaton(*program);
    for (int i = 0; i < 12; ++i, ++texts) {
      const std::string sample = random_text(random);
      INFO("text: " << sample);
      const bool wanted = SlowMatcher(*parsed, sample).accepts();
      yes += wanted;
      REQUIRE(accepts(automaton, sample) == wanted);
    }
  }
  CHECK(yes > 400);
  CHECK(texts > 7000);
}

TEST_CASE("automaton: repetitions count, however often and however deep") {
  CHECK(fits("root ::= [a]{1000,2000}", std::string(1000, 'a')));
  CHECK(fits("root ::= [a]{1000,2000}", std::string(2000, 'a')));
  CHECK_FALSE(fits("root ::= [a]{1000,2000}", std::string(999, 'a')));
  CHECK_FALSE(fits("root ::= [a]{1000,2000}", std::string(2001, 'a')));
  CHECK(fits("root ::= (\"a\"{2} \"b\"){3}", "aabaabaab"));
  CHECK_FALSE(fits("root ::= (\"a\"{2} \"b\"){3}", "aabaab"));
  CHECK(fits("root ::= \"ab\"{20,}", [] { std::string s; for (int i = 0; i < 500; ++i) s += "ab"; return s; }()));
  CHECK(fits("root ::= (\"a\"?){200}", ""));
  CHECK(fits("root ::= (\"a\"?){200}", std::string(200, 'a')));
  CHECK_FALSE(fits("root ::= (\"a\"?){200}", std::string(201, 'a')));
  CHECK(fits("root ::= (\"a\"*)* \"b\"", "aaab"));
  CHECK(fits("root ::= \"a\"{0} \"b\"", "b"));
}

TEST_CASE("automaton: lists written as right recursion keep their states few") {
  Automaton automaton(program_of("root ::= item\nitem ::= \"a\" item | \"b\" item | \"\""));
  CHECK(accepts(automaton, std::string(5000, 'a') + std::string(5000, 'b')));
  CHECK(automaton.states() < 10);
}

TEST_CASE("automaton: a grammar that is too ambiguous ends as an error, not as a hang") {
  const auto masks = std::make_unique<GrammarMasks>(program_of("root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"a\""), byte_trie());
  std::string error;
  {
    GrammarMasks::Cursor cursor(*masks);
    for (int i = 0; i < 30 && error.empty(); ++i) {  // twice as many stacks with each
      const auto taken = cursor.accept(id_of('a'));
      if (!taken) error = taken.error();
    }
  }
  CHECK(error.find("too ambiguous") != std::string::npos);
  // Others with the same grammar, now and later, do not pay for it.
  CHECK(masks->bytes() < 1u << 20);
  GrammarMasks::Cursor other(*masks);
  CHECK(other.accept(id_of('a')).value());
  CHECK_FALSE(other.mask().value()->has(id_of('d')));
}

TEST_CASE("masks: a token is allowed exactly when its bytes lead on") {
  std::mt19937 random(7);
  const auto trie = byte_trie();
  for (int round = 0; round < 300; ++round) {
    const auto parsed = protocol::gbnf::parse(random_grammar(random));
    if (!parsed) continue;
    auto program = make_program(*parsed);
    GrammarMasks masks(*program, trie);
    GrammarMasks::Cursor cursor(masks);
    for (int step = 0; step < 12; ++step) {
      if (step % 4 == 3) masks.forget();  // nothing that is in use may be lost
      GrammarMasks fresh(*program, trie);
      std::vector<int32_t> allowed;
      std::vector<bool> one_by_one;
      for (int32_t id = 0; id < static_cast<int32_t>(trie->size()); ++id) one_by_one.push_back(*cursor.allows(id));
      const auto mask = cursor.mask();
      REQUIRE(mask.ok());
      for (int32_t id = 0; id < static_cast<int32_t>(trie->size()); ++id) {
        REQUIRE((*mask)->has(id) == one_by_one[static_cast<size_t>(id)]);
        if ((*mask)->has(id)) allowed.push_back(id);
      }
      REQUIRE((*mask)->allowed == allowed.size());
      REQUIRE((cursor.reads() == !allowed.empty()));
      if (allowed.empty()) break;
      REQUIRE(*cursor.accept(allowed[random() % allowed.size()]));
    }
  }
}

TEST_CASE("masks: tokens named by number, and what was found out is kept") {
  GrammarMasks masks(program_of("root ::= <[0]> \"a\" | \"ab\" <[3]>"), byte_trie());
  GrammarMasks::Cursor cursor(masks);
  CHECK((*cursor.mask())->has(0));
  CHECK((*cursor.mask())->has(id_of('a')));
  CHECK_FALSE((*cursor.mask())->has(id_of('b')));
  CHECK(masks.kept_masks() == 1);
  REQUIRE(*cursor.accept(0));
  CHECK((*cursor.mask())->allowed == 1);
  CHECK_FALSE(*cursor.accept(id_of('b')));
  REQUIRE(*cursor.accept(id_of('a')));
  CHECK(cursor.accepts());
  CHECK_FALSE(cursor.reads());
}

TEST_CASE("masks: memory stays under its limit however many states a text goes through") {
  const auto trie = byte_trie();
  GrammarMasks masks(program_of("root ::= [^\"]{0,1000000}"), trie);
  GrammarMasks::Cursor cursor(masks), other(masks);
  REQUIRE(*other.accept(id_of('x')));
  size_t most = 0;
  for (int i = 0; i < 150000; ++i) {
    REQUIRE(*cursor.accept(id_of('a')));
    if (i % 50 == 0) REQUIRE(cursor.mask().ok());
    most = std::max(most, masks.bytes());
  }
  CHECK(most < 2 * max_mask_cache_bytes);
  CHECK(*other.allows(id_of('a')));
  CHECK_FALSE(*other.allows(id_of('"')));
}

namespace {

protocol::Sampling sampling_with(std::string grammar) {
  protocol::Sampling sampling;
  sampling.grammar = std::move(grammar);
  return sampling;
}

// A constraint over the byte vocabulary with end token 0, and scores to narrow.
struct Held {
  explicit Held(const protocol::Sampling& sampling, std::vector<int32_t> ends = {0}) : compiler([] { return byte_trie(); }, 271) {
    auto planned = compiler.plan(sampling);
    INFO((planned ? "" : planned.error()));
    REQUIRE(planned.ok());
    plan = std::move(*planned);
    constraint.emplace(plan, shelf.get(plan), ends);
  }
  std::string allowed() {  // the bytes that may come, '$' for the end; "!" when nothing but the end may
    std::vector<float> scores(300, 1);
    auto open = constraint->narrow(scores);
    if (!open) return open.error();
    if (!*open) return "!";
    std::string out = std::isinf(scores[0]) ? "" : "$";
    for (int32_t id = 1; id <= 256; ++id) {
      if (!std::isinf(scores[static_cast<size_t>(id)])) out += static_cast<char>(id - 1);
    }
    CHECK(std::isinf(scores[299]));  // behind the vocabulary
    return out;
  }
  void take(std::string_view text) {
    for (const char c : text) REQUIRE(constraint->accept(id_of(c)).ok());
  }
  GrammarCompiler compiler;
  MaskShelf shelf;
  ConstraintPlan plan;
  std::optional<Constraint> constraint;
};

}  // namespace

TEST_CASE("constraint: end tokens only where the grammar may end, and the end where nothing else is left") {
  Held held(sampling_with("root ::= \"ab\" \"c\"?"));
  CHECK(held.allowed() == "a");
  CHECK_FALSE(*held.constraint->allows(0));
  held.take("ab");
  CHECK(held.allowed() == "$c");
  CHECK(*held.constraint->allows(0));
  held.take("c");
  CHECK(held.allowed() == "!");
  CHECK(held.constraint->accept(id_of('x')).error().find("does not fit the grammar") != std::string::npos);
}

TEST_CASE("constraint: a grammar that begins behind a token forbids the end until then") {
  protocol::Sampling sampling = sampling_with("root ::= \"x\"");
  sampling.grammar_after = id_of('>');
  Held held(sampling);
  CHECK_FALSE(*held.constraint->allows(0));
  CHECK(*held.constraint->allows(id_of('q')));
  std::vector<float> scores(271, 1);
  REQUIRE(*held.constraint->narrow(scores));
  CHECK(std::isinf(scores[0]));
  CHECK(scores[5] == 1);
  held.take("thinking x");
  CHECK(*held.constraint->allows(id_of('y')));
  held.take(">");
  CHECK(held.allowed() == "x");
}

TEST_CASE("constraint: forced ids come at their token, once, and the grammar begins behind the last of them") {
  protocol::Sampling sampling = sampling_with("root ::= \"x\"");
  sampling.grammar_after = id_of('>');
  sampling.force_at = protocol::ForceAt{3, {id_of('>'), id_of('n')}, {}};
  SECTION("when the closing token has not come") {
    Held held(sampling);
    held.take("ab");
    CHECK_FALSE(held.constraint->forced());
    held.take("c");
    CHECK(held.constraint->forced() == id_of('>'));
    held.take(">");
    CHECK(held.constraint->forced() == id_of('n'));
    held.take("n");
    CHECK_FALSE(held.constraint->forced());
    CHECK(held.allowed() == "x");
  }
  SECTION("not when it has") {
    Held held(sampling);
    held.take("a>");
    CHECK(held.allowed() == "x");
    held.take("x");
    CHECK_FALSE(held.constraint->forced());
  }
}

TEST_CASE("constraint: which token makes forcing needless") {
  protocol::Sampling sampling;
  sampling.force_at = protocol::ForceAt{2, {id_of('p'), id_of('q')}, {}};
  const auto forced_after = [&](std::string_view text) {
    Held held(sampling);
    held.take(text);
    return held.constraint->forced().has_value();
  };
  CHECK(forced_after("ab"));
  CHECK(forced_after("ap"));
  CHECK_FALSE(forced_after("aq"));  // the last of the ids
  sampling.force_at->unless = id_of('u');
  CHECK(forced_after("aq"));
  CHECK_FALSE(forced_after("ua"));
  sampling.force_at->tokens = 0;
  CHECK(forced_after(""));
}

TEST_CASE("constraint: forced ids that break a grammar, and vocabularies that cannot write it, are errors") {
  protocol::Sampling sampling = sampling_with("root ::= \"ab\"");
  sampling.force_at = protocol::ForceAt{1, {id_of('z')}, {}};
  Held held(sampling);
  held.take("a");
  CHECK(held.constraint->accept(*held.constraint->forced()).error().find("which force_at brings, does not fit the grammar") != std::string::npos);

  GrammarCompiler compiler([] { return std::make_shared<const TokenTrie>(std::vector<std::string>{"", "a"}); }, 2);
  const auto plan = compiler.plan(sampling_with("root ::= \"ab\""));
  MaskShelf shelf;
  const std::vector<int32_t> ends = {0};
  Constraint poor(*plan, shelf.get(*plan), ends);
  REQUIRE(poor.accept(1).ok());
  std::vector<float> scores(2, 1);
  CHECK(poor.narrow(scores).error().find("dead end after 1 tokens") != std::string::npos);
}

TEST_CASE("constraint: the best scores tell a greedy choice that the grammar allows, and nothing more") {
  Held held(sampling_with("root ::= [ab] [ab]"));
  const auto told = [&](Settings settings, std::string_view best) {
    std::vector<Pick> picks;
    for (const char c : best) picks.push_back({id_of(c), 1});
    auto chosen = Sampler(std::move(settings), 1).pick_among(picks, 271, *held.constraint);
    REQUIRE(chosen.ok());
    return *chosen;
  };
  Settings among_two;
  among_two.temperature = 1;
  among_two.top_k = 2;
  CHECK(told({}, "bx") == id_of('b'));
  CHECK_FALSE(told({}, "xa"));
  CHECK_FALSE(told(among_two, "ab"));  // what the grammar forbids may leave room for others
  protocol::Sampling later = sampling_with("root ::= [ab]");
  later.grammar_after = id_of('>');
  Held waiting(later);
  CHECK_FALSE(waiting.constraint->open());  // the end is forbidden until then
  Held free{protocol::Sampling{}};
  CHECK(free.constraint->open());
}

TEST_CASE("constraint: keys are checked with their names") {
  GrammarCompiler compiler([] { return byte_trie(); }, 271), blind([] { return nullptr; }, 271);
  protocol::Sampling sampling = sampling_with("root ::= \"a\"");
  CHECK(blind.plan(sampling).error().find("grammar: the texts of this model's tokens are not known") != std::string::npos);
  sampling.grammar_after = 271;
  CHECK(compiler.plan(sampling).error().find("grammar_after names token 271; ids run from 0 to 270") != std::string::npos);
  sampling.grammar_after.reset();
  sampling.force_at = protocol::ForceAt{1, {5, 300}, {}};
  CHECK(compiler.plan(sampling).error().find("force_at names token 300") != std::string::npos);
  CHECK(compiler.plan(sampling_with("root ::= <[999]>")).error().find("grammar names token 999") != std::string::npos);
  CHECK(compiler.plan(sampling_with("root ::= x")).error().find("grammar line 1, column 10: rule x is not defined") != std::string::npos);
}

TEST_CASE("shelves: the same grammar is compiled once and its masks are shared") {
  GrammarCompiler compiler([] { return byte_trie(); }, 271);
  MaskShelf shelf;
  const auto first = compiler.plan(sampling_with("root ::= \"a\"")), again = compiler.plan(sampling_with("root ::= \"a\""));
  CHECK(first->program == again->program);
  const auto masks = shelf.get(*first);
  CHECK(shelf.get(*again) == masks);
  for (size_t i = 0; i < kept_grammars; ++i) CHECK(shelf.get(*compiler.plan(sampling_with("root ::= \"b\"{" + std::to_string(i) + "}"))) != masks);
  CHECK(shelf.get(*compiler.plan(sampling_with("root ::= \"a\""))) != masks);
  CHECK(shelf.get({}) == nullptr);
}

TEST_CASE("sampler: a grammar changes which token is best, greedy or not") {
  for (const double temperature : {0.0, 0.8}) {
    Settings settings;
    settings.temperature = temperature;
    settings.seed = 5;
    Sampler sampler(settings, 0);
    Held held(sampling_with("root ::= [bc] \"a\""));
    std::vector<float> scores(271, 0);
    scores[static_cast<size_t>(id_of('z'))] = 50;
    scores[static_cast<size_t>(id_of('c'))] = 20;
    const auto picked = sampler.pick(scores, {}, *held.constraint);
    REQUIRE(picked.ok());
    CHECK(**picked == id_of('c'));
    held.take("ca");
    scores.assign(271, 1);
    scores[0] = 0;
    CHECK_FALSE(sampler.pick(scores, {}, *held.constraint)->has_value());
  }
}
