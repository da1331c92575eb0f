// Which models use which split patterns: the names that GGUF converters write into tokenizer.ggml.pre, and the passes behind each.
// Where a converter's own pattern and the model's differ, the comment at the pass says which one it is.
#include "engine/gguf/pre_tokenizer.hpp"

#include <algorithm>

namespace vigil::gguf {

namespace {

using namespace pattern;
using namespace char_class;

constexpr WordRules gpt2_rules = {.contractions = Contractions::lower_case, .words = Words::behind_blank, .digits = 0, .tail = Tail::none,
                                  .line_ends = LineEnds::as_blanks};
constexpr WordRules llama3_rules = {};
constexpr WordRules with_digits(WordRules rules, uint32_t digits) {
  rules.digits = digits;
  return rules;
}
constexpr WordRules qwen2_rules = with_digits(llama3_rules, 1);
constexpr WordRules qwen35_rules = {.word_classes = letter | mark, .digits = 1, .apart = space | letter | mark | number};
constexpr WordRules no_contractions_rules = {.contractions = Contractions::none, .digits = 1};
constexpr WordRules seed_coder_rules = {.digits = 1, .tail = Tail::none};
constexpr WordRules exaone_moe_rules = {.words = Words::linked, .digits = 1, .tail = Tail::one_line_end_or_slash};
// GPT-4o's and Tekken's own patterns know the case of every letter and count marks as part of words; the reference, whose ids the test data
// holds, knows the case of ASCII letters alone.
constexpr WordRules gpt4o_rules = {.contractions = Contractions::none, .words = Words::cased_ascii, .suffixes = Contractions::any_case,
                                   .tail = Tail::line_ends_slashes};
constexpr WordRules tekken_rules = {.contractions = Contractions::none, .words = Words::cased_ascii, .digits = 1, .tail = Tail::line_ends_slashes};
// The models' own patterns.
constexpr WordRules cased_rules = {.contractions = Contractions::none, .words = Words::cased, .suffixes = Contractions::any_case,
                                   .tail = Tail::line_ends_slashes};
constexpr WordRules kimi_rules = {.contractions = Contractions::none, .words = Words::cased_no_han, .suffixes = Contractions::any_case};

template <const auto& ranges>
size_t range_run(const Character* text, size_t at, size_t end) {
  return run(text, at, end, [](Character c) { return in_ranges(c, ranges) && !c.is(space); });
}

constexpr Range kana_and_han[] = {{0x3040, 0x309f}, {0x30a0, 0x30ff}, {0x4e00, 0x9fa5}};
constexpr Range deepseek_scripts[] = {{0x0800, 0x9fa5}, {0xac00, 0xd7ff}};
constexpr Range afmoe_scripts[] = {{0x0e40, 0x0e7f}, {0x0e80, 0x0eff}, {0x1000, 0x109f}, {0x1100, 0x11ff}, {0x1780, 0x17ff}, {0x2f00, 0x2fdf},
                                   {0x3040, 0x30ff}, {0x3400, 0x4dbf}, {0x4e00, 0x9fff}, {0xa9e0, 0xa9ff}, {0xaa60, 0xaa7f}, {0xac00, 0xd7af},
                                   {0xf900, 0xfaff}, {0xff65, 0xff9f}};
constexpr Range hangul[] = {{0x3131, 0x318e}, {0xac00, 0xd7a3}};
constexpr Range east_asian_marks[] = {{0x2014, 0x2014}, {0x2018, 0x2019}, {0x201c, 0x201d}, {0x2026, 0x2026}, {0x3001, 0x303f}, {0xfe30, 0xfe4f},
                                      {0xff01, 0xff01}, {0xff0c, 0xff0c}, {0xff1a, 0xff1b}};
constexpr Range bopomofo[] = {{0x3105, 0x312f}};
// Letters with a case as DeepSeek LLM lists them (Unicode 11 without Georgian).
constexpr Range cased_letters[] = {
    {0x0041, 0x005a}, {0x0061, 0x007a}, {0x00b5, 0x00b5}, {0x00c0, 0x00d6}, {0x00d8, 0x00f6}, {0x00f8, 0x01ba}, {0x01bc, 0x01bf}, {0x01c4, 0x0293},
    {0x0295, 0x02af}, {0x0370, 0x0373}, {0x0376, 0x0377}, {0x037b, 0x037d}, {0x037f, 0x037f}, {0x0386, 0x0386}, {0x0388, 0x038a}, {0x038c, 0x038c},
    {0x038e, 0x03a1}, {0x03a3, 0x03f5}, {0x03f7, 0x0481}, {0x048a, 0x052f}, {0x0531, 0x0556}, {0x10a0, 0x10c5}, {0x13a0, 0x13f5}, {0x13f8, 0x13fd},
    {0x1c90, 0x1cba}, {0x1cbd, 0x1cbf}, {0x1d00, 0x1d2b}, {0x1d6b, 0x1d77}, {0x1d79, 0x1d9a}, {0x1e00, 0x1f15}, {0x1f18, 0x1f1d}, {0x1f20, 0x1f45},
    {0x1f48, 0x1f4d}, {0x1f50, 0x1f57}, {0x1f59, 0x1f59}, {0x1f5b, 0x1f5b}, {0x1f5d, 0x1f5d}, {0x1f5f, 0x1f7d}, {0x1f80, 0x1fb4}, {0x1fb6, 0x1fbc},
    {0x1fbe, 0x1fbe}, {0x1fc2, 0x1fc4}, {0x1fc6, 0x1fcc}, {0x1fd0, 0x1fd3}, {0x1fd6, 0x1fdb}, {0x1fe0, 0x1fec}, {0x1ff2, 0x1ff4}, {0x1ff6, 0x1ffc},
    {0x2102, 0x2102}, {0x2107, 0x2107}, {0x210a, 0x2113}, {0x2115, 0x2115}, {0x2119, 0x211d}, {0x2124, 0x2124}, {0x2126, 0x2126}, {0x2128, 0x2128},
    {0x212a, 0x212d}, {0x212f, 0x2134}, {0x2139, 0x2139}, {0x213c, 0x213f}, {0x2145, 0x2149}, {0x214e, 0x214e}, {0x2183, 0x2184}, {0x2c00, 0x2c7b},
    {0x2c7e, 0x2ce4}, {0x2ceb, 0x2cee}, {0x2cf2, 0x2cf3}, {0xa640, 0xa66d}, {0xa680, 0xa69b}, {0xa722, 0xa76f}, {0xa771, 0xa787}, {0xa78b, 0xa78e},
    {0xab70, 0xabbf}, {0xfb00, 0xfb06}, {0xfb13, 0xfb17}, {0xff21, 0xff3a}, {0xff41, 0xff5a}, {0x10400, 0x1044f}, {0x104b0, 0x104d3},
    {0x104d8, 0x104fb}, {0x10c80, 0x10cb2}, {0x10cc0, 0x10cf2}, {0x118a0, 0x118df}, {0x1e900, 0x1e943}};
constexpr Range deepseek_marks[] = {{'!', '/'}, {':', '~'}, {0x2018, 0x201f}, {0x3001, 0x3002}, {0xff01, 0xff0f}, {0xff1a, 0xff5e}};

size_t line_end(const Character* text, size_t at, size_t) { return text[at].is(newline) ? at + 1 : at; }

// `\s?X+`
template <typename Wanted>
size_t behind_space(const Character* text, size_t at, size_t end, Wanted wanted) {
  const size_t first = text[at].is(space) ? at + 1 : at;
  const size_t stop = run(text, first, end, wanted);
  return stop > first ? stop : at;
}

template <uint32_t classes>
size_t classes_behind_space(const Character* text, size_t at, size_t end) {
  return behind_space(text, at, end, [](Character c) { return c.is(classes); });
}

template <const auto& ranges>
size_t ranges_behind_space(const Character* text, size_t at, size_t end) {
  return behind_space(text, at, end, [](Character c) { return in_ranges(c, ranges) && !c.is(space); });
}

// `\s+$`
void space_at_the_end(const Character* text, size_t begin, size_t end, std::vector<uint32_t>& ends) {
  size_t first = end;
  while (first > begin && text[first - 1].is(space)) --first;
  if (first > begin && first < end) ends.push_back(static_cast<uint32_t>(first));
  ends.push_back(static_cast<uint32_t>(end));
}

enum class Backquote { with, without };

// `[\p{P}$+<=>^~|]+`, Falcon's with the backquote
template <Backquote backquote>
size_t marks_run(const Character* text, size_t at, size_t end) {
  return run(text, at, end, [](Character c) {
    if (c.is(punctuation)) return true;
    return c.is_char('$') || c.is_char('+') || c.within('<', '>') || c.is_char('^') || c.is_char('~') || c.is_char('|') ||
           (backquote == Backquote::with && c.is_char('`'));
  });
}

size_t three_digits(const Character* text, size_t at, size_t end) {
  const size_t stop = run(text, at, std::min(end, at + 3), [](Character c) { return c.within('0', '9'); });
  return stop == at + 3 ? stop : at;
}

// ` ?[^(\s|.,!?…。，、।۔،)]+`
size_t bloom_words(const Character* text, size_t at, size_t end) {
  static constexpr Range stops[] = {{'!', '!'}, {'(', ')'}, {',', ','}, {'.', '.'}, {'?', '?'}, {'|', '|'}, {0x060c, 0x060c}, {0x06d4, 0x06d4},
                                    {0x0964, 0x0964}, {0x2026, 0x2026}, {0x3001, 0x3002}, {0xff0c, 0xff0c}};
  const size_t first = text[at].is_char(' ') ? at + 1 : at;
  const size_t stop = run(text, first, end, [](Character c) { return !c.is(space) && !in_ranges(c, stops); });
  return stop > first ? stop : at;
}

// `[^\n]+|[\n]+`
size_t lines(const Character* text, size_t at, size_t end) {
  const bool breaks = text[at].is_char('\n');
  return run(text, at, end, [breaks](Character c) { return c.is_char('\n') == breaks; });
}

// Jais 2: Llama 3's pattern, but white space without line ends is cut into powers of two, the largest first: `\s{512}(?!\S)|...|\s`.
void jais2_words(const Character* text, size_t begin, size_t end, std::vector<uint32_t>& ends) {
  for (size_t at = begin; at < end; ends.push_back(static_cast<uint32_t>(at))) {
    const size_t stop = words<llama3_rules>(text, at, end);
    if (!text[at].is(space) || !text[stop - 1].is(space) || text[stop - 1].is(newline)) {
      at = stop;
      continue;
    }
    while (at < stop) {
      size_t length = 512;
      while (length > stop - at) length /= 2;
      at += length;
      if (at < stop) ends.push_back(static_cast<uint32_t>(at));
    }
  }
}

size_t youtu_scripts(const Character* text, size_t at, size_t end) {
  for (const Matcher match : {Matcher(range_run<hangul>), Matcher(range_run<east_asian_marks>), Matcher(range_run<bopomofo>), Matcher(range_run<kana_and_han>)}) {
    if (const size_t stop = match(text, at, end); stop > at) return stop;
  }
  return at;
}

size_t chameleon_image(const Character* text, size_t at, size_t end) {  // `IMGIMG[A-I]{1,4}Z`
  size_t place = at;
  for (const char c : std::string_view("IMGIMG")) {
    if (place >= end || !text[place].is_char(c)) return at;
    ++place;
  }
  const size_t stop = run(text, place, std::min(end, place + 4), [](Character c) { return c.within('A', 'I'); });
  return stop > place && stop < end && text[stop].is_char('Z') ? stop + 1 : at;
}

size_t chameleon_blanks(const Character* text, size_t at, size_t end) {  // `[\t\n]|    |  `
  if (text[at].is_char('\t') || text[at].is_char('\n')) return at + 1;
  const size_t blanks = run(text, at, std::min(end, at + 4), [](Character c) { return c.is_char(' '); }) - at;
  return blanks == 4 ? at + 4 : blanks >= 2 ? at + 2 : at;
}

size_t one_mark(const Character* text, size_t at, size_t) { return text[at].is(punctuation) || (text[at].is(symbol) && text[at].code() < 0x80) ? at + 1 : at; }

constexpr Matcher number_runs = classes_run<number>;
constexpr Matcher three_numbers = classes_run<number, 3>;
constexpr Matcher one_number = classes_run<number, 1>;
constexpr Matcher deepseek3_words = deepseek_v3_words<LineEnds::own_piece, Tail::line_ends>;
constexpr Matcher spark_words = deepseek_v3_words<LineEnds::one_by_one, Tail::none>;

constexpr Pass default_passes[] = {each<marks_run<Backquote::without>>, each<words<gpt2_rules>>, each<number_runs>, each<three_digits>};
constexpr Pass gpt2_passes[] = {each<words<gpt2_rules>>};
constexpr Pass falcon_passes[] = {each<marks_run<Backquote::with>>, each<words<gpt2_rules>>, each<three_digits>};
constexpr Pass starcoder_passes[] = {each<one_number>, each<words<gpt2_rules>>};
constexpr Pass llama3_passes[] = {each<words<llama3_rules>>};
constexpr Pass qwen2_passes[] = {each<words<qwen2_rules>>};
constexpr Pass qwen35_passes[] = {each<words<qwen35_rules>>};
constexpr Pass no_contractions_passes[] = {each<words<no_contractions_rules>>};
constexpr Pass seed_coder_passes[] = {each<words<seed_coder_rules>>};
constexpr Pass exaone_moe_passes[] = {each<words<exaone_moe_rules>>};
constexpr Pass laguna_passes[] = {each<lines>, each<words<qwen2_rules>>};
constexpr Pass minicpm5_passes[] = {each<three_numbers>, each<words<llama3_rules>>};
constexpr Pass jais2_passes[] = {jais2_words};
constexpr Pass gpt4o_passes[] = {each<words<gpt4o_rules>>};
constexpr Pass tekken_passes[] = {each<words<tekken_rules>>};
constexpr Pass granite_passes[] = {each<words<cased_rules>>};
constexpr Pass tiny_aya_passes[] = {grouped_digits, each<words<cased_rules>>};
constexpr Pass youtu_passes[] = {each<youtu_scripts>, each<words<with_digits(cased_rules, 1)>>};
constexpr Pass kimi_passes[] = {each<words<kimi_rules>>};
constexpr Pass deepseek_llm_passes[] = {each<line_end>, each<ranges_behind_space<cased_letters>>, each<ranges_behind_space<deepseek_marks>>, space_at_the_end,
                                        each<range_run<deepseek_scripts>>, each<number_runs>};
constexpr Pass deepseek_coder_passes[] = {each<line_end>, each<classes_behind_space<letter>>, each<classes_behind_space<punctuation>>,
                                          each<range_run<deepseek_scripts>>, each<one_number>};
constexpr Pass deepseek3_passes[] = {each<three_numbers>, each<range_run<kana_and_han>>, each<deepseek3_words>};
constexpr Pass spark_passes[] = {each<three_numbers>, each<range_run<kana_and_han>>, each<spark_words>, each<one_number>};
constexpr Pass afmoe_passes[] = {grouped_digits_of_numbers, each<range_run<afmoe_scripts>>, each<deepseek3_words>};
constexpr Pass superbpe_passes[] = {each<number_runs>, grouped_digits_of_numbers};
constexpr Pass bloom_passes[] = {each<bloom_words>};
constexpr Pass viking_passes[] = {each<bloom_words>, each<one_number>};
constexpr Pass chameleon_passes[] = {each<chameleon_image>, each<chameleon_blanks>, each<one_number>, each<one_mark>, each<words<gpt2_rules>>};
constexpr Pass line_passes[] = {each<lines>};

constexpr bool whole_words = true, add_bos = true, sentence_pieces = false;

// In alphabetical order.
constexpr PreTokenizer table[] = {
    {"a.x-4.0", gpt2_passes},
    {"afmoe", afmoe_passes},
    {"bailingmoe", qwen2_passes},
    {"bailingmoe2", qwen2_passes},
    {"bloom", bloom_passes},
    {"chameleon", chameleon_passes, !whole_words, add_bos},
    {"chatglm-bpe", llama3_passes},
    {"codeshell", starcoder_passes},
    {"cohere2moe", tiny_aya_passes},
    {"command-r", starcoder_passes},
    {"dbrx", llama3_passes},
    {"deepseek-coder", deepseek_coder_passes},
    {"deepseek-llm", deepseek_llm_passes},
    {"deepseek-r1-qwen", qwen2_passes},
    {"deepseek-v3", deepseek3_passes},
    {"default", default_passes},
    {"exaone", starcoder_passes},
    {"exaone-moe", exaone_moe_passes},
    {"exaone4", gpt2_passes},
    {"f2llmv2", qwen2_passes},
    {"falcon", falcon_passes},
    {"falcon-h1", llama3_passes, whole_words, add_bos},
    {"falcon3", llama3_passes, whole_words, add_bos},
    {"gemma4", line_passes, !whole_words, add_bos, sentence_pieces},
    {"gigachat", gpt2_passes},
    {"glm4", llama3_passes},
    {"gpt-2", gpt2_passes},
    {"gpt-4o", gpt4o_passes},
    {"gpt-neox", gpt2_passes},
    {"gpt3-finnish", bloom_passes},
    {"granite-docling", gpt2_passes},
    {"granite-embed-multi-311m", line_passes, !whole_words, add_bos, sentence_pieces},
    {"granite-embed-multi-97m", granite_passes, whole_words},
    {"grok-2", qwen2_passes},
    {"hunyuan", qwen2_passes},
    {"hunyuan-dense", deepseek3_passes},
    {"hy-v4", deepseek3_passes},
    {"jais", gpt2_passes},
    {"jais-2", jais2_passes},
    {"jina-de", gpt2_passes},
    {"jina-es", gpt2_passes},
    {"jina-v1-en", gpt2_passes},
    {"jina-v2-code", gpt2_passes},
    {"jina-v2-de", gpt2_passes},
    {"jina-v2-es", gpt2_passes},
    {"jina-v5-nano", llama3_passes, whole_words, add_bos},
    {"joyai-llm", deepseek3_passes},
    {"kanana2", gpt4o_passes},
    {"kimi-k2", kimi_passes},
    {"kormo", qwen2_passes},
    {"laguna", laguna_passes},
    {"lfm2", llama3_passes, whole_words, add_bos},
    {"llada-moe", qwen2_passes},
    {"llama-bpe", llama3_passes, whole_words, add_bos},
    {"llama-v3", llama3_passes, whole_words, add_bos},
    {"llama3", llama3_passes, whole_words, add_bos},
    {"llama4", gpt4o_passes},
    {"megrez", qwen2_passes},
    {"mellum", gpt2_passes},
    {"mellum2", starcoder_passes},
    {"midm-2.0", llama3_passes, whole_words, add_bos},
    {"minerva-7b", starcoder_passes},
    {"minicpm5", minicpm5_passes, whole_words},
    {"minimax-m2", gpt4o_passes},
    {"modern-bert", gpt2_passes},
    {"mpt", gpt2_passes},
    {"olmo", gpt2_passes},
    {"phi-2", gpt2_passes},
    {"pixtral", llama3_passes, whole_words, add_bos},
    {"poro-chat", bloom_passes},
    {"qwen2", qwen2_passes},
    {"qwen35", qwen35_passes},
    {"refact", starcoder_passes},
    {"roberta-bpe", gpt2_passes},
    {"sarvam-moe", line_passes, !whole_words, !add_bos, sentence_pieces},
    {"seed-coder", seed_coder_passes},
    {"smaug-bpe", llama3_passes},
    {"smollm", starcoder_passes},
    {"solar-open", qwen2_passes},
    {"spark2_5", spark_passes},
    {"stablelm2", qwen2_passes},
    {"starcoder", starcoder_passes},
    {"superbpe", superbpe_passes},
    {"talkie", gpt4o_passes},
    {"tekken", tekken_passes, whole_words, add_bos},
    {"tiny_aya", tiny_aya_passes},
    {"trillion", gpt2_passes},
    {"ufakzeka", no_contractions_passes},
    {"viking", viking_passes},
    {"youtu", youtu_passes, whole_words},
};

}  // namespace

const PreTokenizer* find_pre_tokenizer(std::string_view name) {
  const auto* found = std::find_if(std::begin(table), std::end(table), [&](const PreTokenizer& row) { return row.name == name; });
  return found == std::end(table) ? nullptr : found;
}

std::string known_pre_tokenizers() {
  std::string names;
  for (const PreTokenizer& row : table) {
    if (!names.empty()) names += ", ";
    names += row.name;
  }
  return names;
}

std::vector<uint32_t> split_words(const PreTokenizer& pre_tokenizer, std::span<const Character> text) {
  std::vector<uint32_t> ends, next;
  if (text.empty()) return ends;
  ends.push_back(static_cast<uint32_t>(text.size()));
  for (const pattern::Pass pass : pre_tokenizer.passes) {
    next.clear();
    size_t begin = 0;
    for (const uint32_t end : ends) {
      pass(text.data(), begin, end, next);
      begin = end;
    }
    std::swap(ends, next);
  }
  return ends;
}

}  // namespace vigil::gguf
