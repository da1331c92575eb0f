// Configuration text, environment and flags fed with anything: never a throw, mistakes are short and whole lines, and what is accepted
// dumps to JSON that loads as the same values. Input: parts between NUL bytes; the file's text, then NAME=value or path=value.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "server/config/load.hpp"

namespace {

using namespace vigil::config;

void require(bool holds, const char* what, const std::string& shown) {
  if (holds) return;
  std::fprintf(stderr, "property broken: %s: %s\n", what, shown.substr(0, 4000).c_str());
  std::abort();
}

void check_lines(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    require(!line.empty() && line.size() < 2000 && line.find('\n') == std::string::npos, "one short line", line);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const auto part = [&rest] {
    const size_t end = std::min(rest.find('\0'), rest.size());
    const std::string_view found = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return found;
  };
  const std::string_view text = part();
  Sources sources;
  sources.working_dir = "/nonexistent";
  while (!rest.empty()) {
    const std::string next(part());
    const size_t equals = next.find('=');
    if (next.starts_with("VIGIL_") && equals != std::string::npos) {
      sources.environment.emplace_back(next.substr(0, equals), next.substr(equals + 1));
    } else {
      sources.sets.push_back(next);
    }
  }
  const Loaded loaded = load_text(text, "/nonexistent", sources);
  check_lines(loaded.mistakes);
  check_lines(loaded.notes);
  const std::string shown = to_json(loaded.config, Secrets::shown);
  const std::string hidden = to_json(loaded.config);
  require(!hidden.empty(), "a dump", shown);
  if (!loaded.ok() || shown.find("\xef\xbf\xbd") != std::string::npos) return 0;  // texts that are no UTF-8 cannot pass through JSON
  const Loaded again = load_text(shown, "/nonexistent", Sources{});
  require(again.ok(), again.ok() ? "" : again.mistakes[0].c_str(), shown);
  require(to_json(again.config, Secrets::shown) == shown, "the same values again", shown);
  require(describe_changes(loaded.config, again.config).empty(), "no change", shown);
  return 0;
}
