// The alternatives of the split patterns that byte-level tokenizers are trained with, as matchers without backtracking.
// Source of the patterns: the tokenizer.json files of the models named in pre_tokenizer.cpp. Not here: which model uses which.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/gguf/characters.hpp"

namespace vigil::gguf::pattern {

// A matcher looks at `text[at, end)`, at < end, and returns where its match ends, or `at` when there is none. Nothing outside is seen: for a
// pattern the text of one piece ends at `end`. Each takes time in proportion to what it matches, or to a bounded part of the text.
using Matcher = size_t (*)(const Character* text, size_t at, size_t end);

// One step of splitting: appends the ends of the pieces into which it cuts text[begin, end), ascending, the last one `end`.
using Pass = void (*)(const Character* text, size_t begin, size_t end, std::vector<uint32_t>& ends);

// Every match becomes a piece, and so does what lies between two.
template <Matcher match>
void each(const Character* text, size_t begin, size_t end, std::vector<uint32_t>& ends) {
  size_t from = begin;
  for (size_t at = begin; at < end;) {
    const size_t stop = match(text, at, end);
    if (stop == at) {
      ++at;
      continue;
    }
    if (at > from) ends.push_back(static_cast<uint32_t>(at));
    ends.push_back(static_cast<uint32_t>(stop));
    from = at = stop;
  }
  if (from < end) ends.push_back(static_cast<uint32_t>(end));
}

// The end of the longest run that begins at `at`.
template <typename Wanted>
size_t run(const Character* text, size_t at, size_t end, Wanted wanted) {
  while (at < end && wanted(text[at])) ++at;
  return at;
}

struct Range {
  uint32_t first = 0, last = 0;
};

// Whether one of the ranges, which are sorted, holds the character. For `ranges` of any size.
bool in_ranges(Character character, const Range* ranges, size_t count);

template <size_t count>
bool in_ranges(Character character, const Range (&ranges)[count]) {
  return in_ranges(character, ranges, count);
}

enum class Contractions { none, lower_case, any_case };
// 's 't 're 've 'm 'll 'd
size_t contraction(const Character* text, size_t at, size_t end, Contractions kind);

// What becomes of blanks and line ends: ` \s*[\r\n]+ `, then ` \s+(?!\S) `, then ` \s+ `.
enum class LineEnds { own_piece, as_blanks, one_by_one };
size_t white_space(const Character* text, size_t at, size_t end, LineEnds line_ends);

enum class Words {
  behind_blank,   // ` ?\p{L}+`
  behind_any,     // `[^\r\n\p{L}\p{N}]?\p{L}+`
  cased,          // `[^\r\n\p{L}\p{N}]?` and then capitals followed by small letters, or capitals alone; marks and letters without case are both
  cased_ascii,    // the same where only A-Z and a-z have a case and marks are no part of words
  cased_no_han,   // `cased`, and Han characters make words of their own
  linked,         // `[^\r\n\p{L}\p{N}]?`, then words joined by single blanks, marks behind letters
};

enum class Tail { none, line_ends, line_ends_slashes, one_line_end_or_slash };  // what a run of other characters takes along

// The patterns that grew out of GPT-2's: contractions, words, numbers, other characters, white space, in this order.
struct WordRules {
  Contractions contractions = Contractions::any_case;
  Words words = Words::behind_any;
  uint32_t word_classes = char_class::letter;
  Contractions suffixes = Contractions::none;  // contractions that stay with a cased word in front
  uint32_t digits = 3;                         // longest number; 0: any length, with a blank in front as one piece
  uint32_t apart = char_class::space | char_class::letter | char_class::number;  // ` ?[^...]+`: what other characters are not
  Tail tail = Tail::line_ends;
  LineEnds line_ends = LineEnds::own_piece;
};

// The end of a word, see Words; WordRules gives the rest.
size_t word(const Character* text, size_t at, size_t end, const WordRules& rules);
size_t other_characters(const Character* text, size_t at, size_t end, uint32_t apart, Tail tail);

template <WordRules rules>
size_t words(const Character* text, size_t at, size_t end) {
  size_t stop = at;
  if constexpr (rules.contractions != Contractions::none) stop = contraction(text, at, end, rules.contractions);
  if (stop == at) stop = word(text, at, end, rules);
  if (stop == at) {
    const size_t first = rules.digits == 0 && at + 1 < end && text[at].is_char(' ') ? at + 1 : at;
    const size_t last = rules.digits == 0 ? end : std::min(end, first + rules.digits);
    const size_t digits = run(text, first, last, [](Character c) { return c.is(char_class::number); });
    if (digits > first) stop = digits;
  }
  if (stop == at) stop = other_characters(text, at, end, rules.apart, rules.tail);
  if (stop == at) stop = white_space(text, at, end, rules.line_ends);
  return stop;
}

// A run of characters of these classes; `most`: the longest, 0 for any.
template <uint32_t classes, uint32_t most = 0>
size_t classes_run(const Character* text, size_t at, size_t end) {
  return run(text, at, most == 0 ? end : std::min(end, at + most), [](Character c) { return c.is(classes); });
}

// DeepSeek V3: an ASCII mark with ASCII letters, letters behind anything, punctuation, white space.
template <LineEnds line_ends, Tail tail>
size_t deepseek_v3_words(const Character* text, size_t at, size_t end);

extern template size_t deepseek_v3_words<LineEnds::own_piece, Tail::line_ends>(const Character*, size_t, size_t);
extern template size_t deepseek_v3_words<LineEnds::one_by_one, Tail::none>(const Character*, size_t, size_t);

// Digits in groups of three counted from the right; `ascii_words`: none where a letter follows the digits.
void grouped_digits(const Character* text, size_t begin, size_t end, std::vector<uint32_t>& ends);
void grouped_digits_of_numbers(const Character* text, size_t begin, size_t end, std::vector<uint32_t>& ends);

bool is_han(Character character);  // Script=Han

}  // namespace vigil::gguf::pattern
