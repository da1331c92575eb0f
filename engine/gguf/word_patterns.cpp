// See word_patterns.hpp. Each function names the expression it stands for.
#include "engine/gguf/word_patterns.hpp"

namespace vigil::gguf::pattern {

namespace {

using namespace char_class;

bool is_ascii_letter(Character c) { return c.within('A', 'Z') || c.within('a', 'z'); }

Character lowered(Character c) { return c.within('A', 'Z') ? Character(c.code() + 32, 0) : c; }

// `[^\r\n\p{L}\p{N}]`
bool may_precede(Character c) { return !c.is(newline | letter | number); }

// Capitals and small letters of a cased word; both are true for what has no case.
struct Case {
  bool (*is_upper)(Character);
  bool (*is_lower)(Character);
};

constexpr Case unicode_case = {[](Character c) { return c.is(letter | mark) && !c.is(lower); }, [](Character c) { return c.is(letter | mark) && !c.is(upper); }};
constexpr Case ascii_case = {[](Character c) { return c.is(letter) && !c.within('a', 'z'); }, [](Character c) { return c.is(letter) && !c.within('A', 'Z'); }};
constexpr Case no_han_case = {[](Character c) { return unicode_case.is_upper(c) && !is_han(c); }, [](Character c) { return unicode_case.is_lower(c) && !is_han(c); }};

// `U*W+` for the capitals U and the small letters W: gives capitals back until one is a small letter as well. `at` for none.
size_t capitals_and_small(const Character* text, size_t at, size_t end, const Case& letters) {
  const size_t capitals = run(text, at, end, letters.is_upper);
  const size_t small = run(text, capitals, end, letters.is_lower);
  if (small > capitals) return small;
  for (size_t last = capitals; last > at; --last) {
    if (letters.is_lower(text[last - 1])) return last;
  }
  return at;
}

// `P?U*W+|P?U+W*` for the characters P that may precede; what the second finds has no small letters, or the first would have found it.
size_t cased_word(const Character* text, size_t at, size_t end, const Case& letters, Contractions suffixes) {
  const size_t behind = may_precede(text[at]) ? at + 1 : at;
  size_t stop = at;
  if (const size_t found = capitals_and_small(text, behind, end, letters); found > behind) {
    stop = found;
  } else if (const size_t bare = capitals_and_small(text, at, end, letters); bare > at) {
    stop = bare;
  } else if (const size_t capitals = run(text, behind, end, letters.is_upper); capitals > behind) {
    stop = capitals;
  }
  if (stop == at || stop == end || suffixes == Contractions::none) return stop;
  return contraction(text, stop, end, suffixes);
}

// `(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+`
size_t linked_words(const Character* text, size_t at, size_t end) {
  size_t stop = at;
  for (;;) {
    const size_t first = stop > at && stop + 1 < end && text[stop].is_char(' ') ? stop + 1 : stop;
    if (first >= end || !text[first].is(letter)) return stop;
    stop = run(text, first + 1, end, [](Character c) { return c.is(mark); });
  }
}

void append_groups(size_t first, size_t last, std::vector<uint32_t>& ends) {
  const size_t lead = (last - first) % 3;
  if (lead > 0) ends.push_back(static_cast<uint32_t>(first + lead));
  for (size_t stop = first + lead + 3; stop <= last; stop += 3) ends.push_back(static_cast<uint32_t>(stop));
}

template <typename Digit, typename Allowed>
void groups_of_three(const Character* text, size_t begin, size_t end, std::vector<uint32_t>& ends, Digit digit, Allowed allowed) {
  size_t from = begin;
  for (size_t at = begin; at < end;) {
    const size_t stop = run(text, at, end, digit);
    if (stop == at) {
      ++at;
      continue;
    }
    if (allowed(stop)) {
      if (at > from) ends.push_back(static_cast<uint32_t>(at));
      append_groups(at, stop, ends);
      from = stop;
    }
    at = stop;
  }
  if (from < end) ends.push_back(static_cast<uint32_t>(end));
}

}  // namespace

bool in_ranges(Character character, const Range* ranges, size_t count) {
  if (character.is(invalid)) return false;
  const uint32_t code = character.code();
  const Range* found = std::partition_point(ranges, ranges + count, [code](const Range& range) { return range.last < code; });
  return found != ranges + count && found->first <= code;
}

bool is_han(Character character) {
  static constexpr Range han[] = {{0x2e80, 0x2e99}, {0x2e9b, 0x2ef3}, {0x2f00, 0x2fd5}, {0x3005, 0x3005}, {0x3007, 0x3007}, {0x3021, 0x3029}, {0x3038, 0x303b},
                                  {0x3400, 0x4dbf}, {0x4e00, 0x9fff}, {0xf900, 0xfa6d}, {0xfa70, 0xfad9}, {0x16fe2, 0x16fe3}, {0x16ff0, 0x16ff1},
                                  {0x20000, 0x2a6df}, {0x2a700, 0x2ebe0}, {0x2f800, 0x2fa1d}, {0x30000, 0x323af}};
  return in_ranges(character, han);
}

size_t contraction(const Character* text, size_t at, size_t end, Contractions kind) {
  if (!text[at].is_char('\'') || at + 1 >= end) return at;
  const auto letter_at = [&](size_t place) {
    if (place >= end) return Character();
    return kind == Contractions::any_case ? lowered(text[place]) : text[place];
  };
  const Character first = letter_at(at + 1), second = letter_at(at + 2);
  if (first.is_char('s') || first.is_char('t') || first.is_char('m') || first.is_char('d')) return at + 2;
  const bool two = ((first.is_char('r') || first.is_char('v')) && second.is_char('e')) || (first.is_char('l') && second.is_char('l'));
  return two ? at + 3 : at;
}

size_t white_space(const Character* text, size_t at, size_t end, LineEnds line_ends) {
  if (line_ends == LineEnds::one_by_one && text[at].is(newline)) return at + 1;
  const size_t stop = run(text, at, end, [](Character c) { return c.is(space); });
  if (line_ends == LineEnds::own_piece) {
    for (size_t last = stop; last > at; --last) {
      if (text[last - 1].is(newline)) return last;
    }
  }
  if (stop == end || stop <= at + 1) return stop;
  return stop - 1;
}

size_t word(const Character* text, size_t at, size_t end, const WordRules& rules) {
  const auto in_word = [&rules](Character c) { return c.is(rules.word_classes); };
  switch (rules.words) {
    case Words::behind_blank: {
      const size_t first = text[at].is_char(' ') ? at + 1 : at;
      const size_t stop = run(text, first, end, in_word);
      return stop > first ? stop : at;
    }
    case Words::behind_any: {
      const size_t first = may_precede(text[at]) ? at + 1 : at;
      const size_t stop = run(text, first, end, in_word);
      if (stop > first) return stop;
      return in_word(text[at]) ? at + 1 : at;  // a mark with nothing behind it
    }
    case Words::linked: {
      const size_t first = may_precede(text[at]) ? at + 1 : at;
      const size_t stop = first < end ? linked_words(text, first, end) : first;
      return stop > first ? stop : at;
    }
    case Words::cased: return cased_word(text, at, end, unicode_case, rules.suffixes);
    case Words::cased_ascii: return cased_word(text, at, end, ascii_case, rules.suffixes);
    case Words::cased_no_han: {
      const size_t han = run(text, at, end, is_han);
      return han > at ? han : cased_word(text, at, end, no_han_case, rules.suffixes);
    }
  }
  return at;
}

size_t other_characters(const Character* text, size_t at, size_t end, uint32_t apart, Tail tail) {
  const size_t first = text[at].is_char(' ') ? at + 1 : at;
  const size_t stop = run(text, first, end, [apart](Character c) { return !c.is(apart); });
  if (stop == first) return at;
  switch (tail) {
    case Tail::none: return stop;
    case Tail::line_ends: return run(text, stop, end, [](Character c) { return c.is(newline); });
    case Tail::line_ends_slashes: return run(text, stop, end, [](Character c) { return c.is(newline) || c.is_char('/'); });
    case Tail::one_line_end_or_slash: return run(text, stop, std::min(end, stop + 1), [](Character c) { return c.is(newline) || c.is_char('/'); });
  }
  return stop;
}

template <LineEnds line_ends, Tail tail>
size_t deepseek_v3_words(const Character* text, size_t at, size_t end) {
  const Character first = text[at];
  if (first.within('!', '~') && !is_ascii_letter(first) && !first.is(number)) {
    const size_t stop = run(text, at + 1, end, is_ascii_letter);
    if (stop > at + 1) return stop;
  }
  const auto in_word = [](Character c) { return c.is(letter | mark); };
  const size_t from = !first.is(newline | letter | punctuation | symbol) ? at + 1 : at;
  if (const size_t stop = run(text, from, end, in_word); stop > from) return stop;
  if (in_word(first)) return at + 1;
  const size_t signs = first.is_char(' ') ? at + 1 : at;
  size_t stop = run(text, signs, end, [](Character c) { return c.is(punctuation | symbol); });
  if (stop > signs) return tail == Tail::none ? stop : run(text, stop, end, [](Character c) { return c.is(newline); });
  return white_space(text, at, end, line_ends);
}

template size_t deepseek_v3_words<LineEnds::own_piece, Tail::line_ends>(const Character*, size_t, size_t);
template size_t deepseek_v3_words<LineEnds::one_by_one, Tail::none>(const Character*, size_t, size_t);

void grouped_digits_of_numbers(const Character* text, size_t begin, size_t end, std::vector<uint32_t>& ends) {
  groups_of_three(text, begin, end, ends, [](Character c) { return c.is(number); }, [](size_t) { return true; });
}

void grouped_digits(const Character* text, size_t begin, size_t end, std::vector<uint32_t>& ends) {
  const auto followed_by_word = [&](size_t stop) { return stop < end && (text[stop].is(letter | number | mark) || text[stop].is_char('_')); };
  groups_of_three(text, begin, end, ends, [](Character c) { return c.within('0', '9'); }, [&](size_t stop) { return !followed_by_word(stop); });
}

}  // namespace vigil::gguf::pattern
