// Every line family, fed with anything: no crash, an accepted line survives encode and parse, and bytes give the same lines however cut.
// Not here: what the daemon makes of a line.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/line_splitter.hpp"
#include "protocol/lines.hpp"

namespace {

using namespace vigil::protocol;

void require(bool holds, const char* what, std::string_view line) {
  if (holds) return;
  std::fprintf(stderr, "property broken: %s: \"%s\"\n", what, printable(line, 4000).c_str());
  std::abort();
}

// Parse, write, parse: both values must be equal, and the text must be one line.
template <typename Parse>
void check_round_trip(std::string_view line, size_t line_cap, Parse&& parse) {
  const auto first = parse(line);
  if (!first.ok()) {
    require(!first.error().empty(), "an error says something", line);
    require(first.error().size() < 1000, "an error stays short", line);
    return;
  }
  const std::string text = encode(*first);
  require(!text.empty() && text.find('\n') == text.size() - 1, "encode writes one line", line);
  if (text.size() > line_cap) return;  // percent coding may triple a line that came uncoded
  const auto second = parse(std::string_view(text).substr(0, text.size() - 1));
  require(second.ok(), "what encode writes is accepted", text);
  require(*second == *first, "the value survives", text);
  require(encode(*second) == text, "the text survives", text);
}

void check_line(std::string_view line) {
  check_round_trip(line, max_line_from_child_bytes, parse_engine_line);
  check_round_trip(line, max_line_to_child_bytes, parse_engine_command);
  check_round_trip(line, max_line_from_child_bytes, parse_vision_line);
  check_round_trip(line, max_line_from_child_bytes, parse_vision_command);
  const auto decoded = percent_decode(percent_encode(line));
  require(decoded.ok() && *decoded == line, "percent coding keeps every byte", line);
  (void)percent_decode(line);
}

struct Lines {
  std::vector<std::pair<std::string, bool>> whole;
  std::string partial;
  bool operator==(const Lines&) const = default;
};

// Pieces of pseudo-random length from `state`; 0 feeds everything at once.
Lines split(std::string_view bytes, size_t cap, uint64_t state) {
  LineSplitter splitter(cap);
  Lines lines;
  while (!bytes.empty()) {
    size_t piece = bytes.size();
    if (state != 0) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      piece = std::min<size_t>(bytes.size(), 1 + state % 17);
    }
    splitter.feed(bytes.substr(0, piece), [&](const LineSplitter::Line& line) { lines.whole.emplace_back(line.text, line.overlong); });
    require(splitter.partial().size() <= cap, "the kept part is bounded", bytes);
    bytes.remove_prefix(piece);
  }
  lines.partial = splitter.partial();
  return lines;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check_line(bytes);  // on the very bytes: a read past the end is a finding
  uint64_t hash = 14695981039346656037ULL;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  for (const size_t cap : {size_t{8}, size_t{64}, max_line_from_child_bytes}) {
    const Lines whole = split(bytes, cap, 0);
    require(split(bytes, cap, hash | 1) == whole, "cut or whole, the same lines", bytes);
    if (cap != max_line_from_child_bytes) continue;
    for (const auto& [text, overlong] : whole.whole) {
      if (!overlong) check_line(text);
    }
  }
  return 0;
}
