// Bytes to lines at every split position, with every kind of line end, in bounded memory.
#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "protocol/line_splitter.hpp"

using vigil::protocol::LineSplitter;

namespace {

struct Got {
  std::string text;
  bool overlong = false;
  bool operator==(const Got&) const = default;
};

void feed(LineSplitter& splitter, std::string_view bytes, std::vector<Got>& got) {
  splitter.feed(bytes, [&](const LineSplitter::Line& line) { got.push_back({std::string(line.text), line.overlong}); });
}

}  // namespace

TEST_CASE("every way to cut the bytes gives the same lines") {
  using namespace std::string_literals;
  const std::string bytes = "T 1\nT 2\r\n\n\r\nERR a\0b\n0123456789\n01234567890\n@5 T 7\nrest"s;
  const std::vector<Got> wanted = {{"T 1", false},        {"T 2", false},        {"", false},       {"", false},
                                   {"ERR a\0b"s, false}, {"0123456789", false}, {"0123456789", true}, {"@5 T 7", false}};
  for (size_t first = 0; first <= bytes.size(); ++first) {
    for (size_t second = first; second <= bytes.size(); ++second) {
      LineSplitter splitter(10);
      std::vector<Got> got;
      const std::string_view view(bytes);
      feed(splitter, view.substr(0, first), got);
      feed(splitter, view.substr(first, second - first), got);
      feed(splitter, view.substr(second), got);
      INFO("cuts at " << first << " and " << second);
      REQUIRE((got == wanted));
      REQUIRE(splitter.partial() == "rest");
    }
  }
}

TEST_CASE("one byte at a time") {
  LineSplitter splitter(10);
  std::vector<Got> got;
  for (const char c : std::string("ab\r\ncd\n")) feed(splitter, std::string_view(&c, 1), got);
  CHECK((got == std::vector<Got>{{"ab", false}, {"cd", false}}));
}

TEST_CASE("a return inside a line stays") {
  LineSplitter splitter(100);
  std::vector<Got> got;
  feed(splitter, "10%\r20%\r\r\n", got);
  CHECK((got == std::vector<Got>{{"10%\r20%\r", false}}));
}

TEST_CASE("64 MiB without a line end: reported once, bounded memory, the next line is read") {
  LineSplitter splitter(64 * 1024);
  std::vector<Got> got;
  const std::string block(1024 * 1024, 'x');
  size_t most_kept = 0;
  for (int i = 0; i < 64; ++i) {
    feed(splitter, block, got);
    most_kept = std::max(most_kept, splitter.partial().size());
  }
  CHECK(got.size() == 1);
  CHECK(got[0].overlong);
  CHECK(got[0].text == std::string(256, 'x'));
  CHECK(most_kept <= 64 * 1024);
  CHECK(splitter.partial().empty());
  feed(splitter, "tail of it\nT 5\n", got);
  REQUIRE(got.size() == 2);
  CHECK(got[1] == Got{"T 5", false});
}

TEST_CASE("small pieces of an overlong line stay bounded too") {
  LineSplitter splitter(100);
  std::vector<Got> got;
  for (int i = 0; i < 100000; ++i) {
    feed(splitter, "abc", got);
    REQUIRE(splitter.partial().size() <= 100);
  }
  CHECK(got.size() == 1);
  feed(splitter, "\n\n", got);
  REQUIRE(got.size() == 2);
  CHECK(got[1] == Got{"", false});
}

TEST_CASE("a line of exactly the cap passes, two overlong ones are two reports") {
  LineSplitter splitter(3);
  std::vector<Got> got;
  feed(splitter, "abc\nabcd\nabcde\nab\n", got);
  CHECK((got == std::vector<Got>{{"abc", false}, {"abc", true}, {"abc", true}, {"ab", false}}));
}
