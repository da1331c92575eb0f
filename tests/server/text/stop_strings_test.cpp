// text/stop_strings: found over borders, never partly sent, nothing lost (cases C5, X3).
#include <catch2/catch.hpp>

#include <random>

#include "server/text/stop_strings.hpp"

using namespace vigil::text;

namespace {

struct Outcome {
  std::string text;
  bool matched = false;
  bool operator==(const Outcome&) const = default;
};

Outcome feed(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopStrings machine(stops);
  std::string out;
  for (const std::string& piece : pieces) machine.push(piece, out);
  machine.finish(out);
  return {out, machine.matched()};
}

// The definition, worked out the slow way: the match that ends first, the longest of those.
Outcome expected(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (!stop.empty() && stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return {text.substr(0, end - longest), true};
  }
  return {text, false};
}

}  // namespace

TEST_CASE("A stop string over several pieces ends the text before it", "[stop_strings]") {
  CHECK(feed({"\nUser:"}, {"ab", "c\nUs", "er", ": x"}) == Outcome{"abc", true});
  CHECK(feed({"\nUser:"}, {"\nUser:"}) == Outcome{"", true});
  CHECK(feed({"ab"}, {"a", "ab"}) == Outcome{"a", true});
  CHECK(feed({"😊"}, {"x😊y"}) == Outcome{"x", true});
}

TEST_CASE("A near miss and the end of the answer let out what was held", "[stop_strings]") {
  CHECK(feed({"\nUser:"}, {"\nUs", "ing"}) == Outcome{"\nUsing", false});
  CHECK(feed({"\nUser:"}, {"abc\nUs"}) == Outcome{"abc\nUs", false});
  CHECK(feed({}, {"a", "b"}) == Outcome{"ab", false});
  CHECK(feed({""}, {"a", "b"}) == Outcome{"ab", false});
}

TEST_CASE("A part of a stop string is never let out before it is decided", "[stop_strings]") {
  StopStrings machine({"\nUser:", "END"});
  std::string out;
  machine.push("abc\nUs", out);
  CHECK(out == "abc");
  machine.push("er", out);
  CHECK(out == "abc");
  machine.push("s E", out);
  CHECK(out == "abc\nUsers ");
  CHECK(machine.push("ND more", out) == StopStrings::Match::yes);
  CHECK(machine.push("again", out) == StopStrings::Match::yes);
  machine.finish(out);
  CHECK(out == "abc\nUsers ");
}

TEST_CASE("The match that is complete first counts, and of those the longest", "[stop_strings]") {
  CHECK(feed({"abcd", "bc"}, {"abcd"}) == Outcome{"a", true});
  CHECK(feed({"bc", "abc"}, {"xabc"}) == Outcome{"x", true});
}

TEST_CASE("The result does not depend on how the text is split", "[stop_strings]") {
  std::mt19937 random(7);
  const auto word = [&](size_t most) {
    std::string out;
    for (size_t i = random() % (most + 1); i > 0; --i) out += static_cast<char>('a' + random() % 2);
    return out;
  };
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> stops;
    for (size_t i = random() % 5; i > 0; --i) stops.push_back(word(5));
    const std::string text = word(24);
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t length = 1 + random() % 4;
      pieces.push_back(text.substr(at, length));
      at += length;
    }
    INFO("round " << round << ", text " << text);
    REQUIRE(feed(stops, pieces) == expected(stops, text));
  }
}
