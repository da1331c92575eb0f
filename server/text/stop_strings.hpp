// Ends an answer at the first stop string, however its text is split into pieces, and never lets a part of one out. Not here: tokens.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace vigil::text {

// The match that is complete first counts; of those that end at the same byte, the longest. So the result depends on the text alone.
// Work per byte is constant for each stop string (Knuth, Morris and Pratt's automaton).
class StopStrings {
 public:
  // Empty strings match nothing. Strings and text are valid UTF-8, so that what is let out ends at a character's end.
  explicit StopStrings(std::vector<std::string> stops);

  enum class Match { no, yes };
  // Takes the next text; appends what can be part of no match any more. After `yes`, what stands before the match was let out, and
  // everything else is dropped.
  Match push(std::string_view text, std::string& out);
  // The end of the text without a match: appends what was held back.
  void finish(std::string& out);
  // Something stands in the text that is no text: appends what was held back, and what follows begins anew.
  void interrupt(std::string& out);
  bool matched() const { return matched_; }
  const std::string& matched_text() const { return matched_text_; }  // empty without a match

 private:
  struct Stop {
    std::string text;
    std::vector<size_t> fallback;  // length of the longest proper border of text[0..i]
    size_t reached = 0;            // bytes of text that the input ends with
  };
  std::vector<Stop> stops_;
  std::string held_;
  bool matched_ = false;
  std::string matched_text_;
};

}  // namespace vigil::text
