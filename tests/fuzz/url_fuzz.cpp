// URLs of pictures, entries of the allow list and Location headers fed with anything: what is read is read the same again, its host is nothing
// that a resolver takes for another one, its path has no way up, and what is allowed lies under the entry. Input: parts between NUL bytes: an
// entry, an address, locations.
#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "server/url/allow_list.hpp"
#include "server/url/url.hpp"

namespace {

using namespace vigil;
using namespace vigil::url;

void require(bool holds, const char* what, std::string_view shown) {
  if (holds) return;
  std::fprintf(stderr, "property broken: %s: %s\n", what, std::string(shown.substr(0, 4000)).c_str());
  std::abort();
}

std::vector<std::string> segments(const std::string& path) {
  std::vector<std::string> out(1);
  for (const char c : path.substr(1)) {
    if (c == '/') out.emplace_back();
    else out.back() += c;
  }
  return out;
}

// The path without any percent signs that mean something, however often a server decodes it.
std::string fully_decoded(std::string text) {
  for (size_t at = 0; (at = text.find('%', at)) != std::string::npos;) {
    unsigned value = 0;
    char low = 0;
    if (at + 2 < text.size() && std::sscanf(text.substr(at, 3).c_str(), "%%%1x%1c", &value, &low) == 2 && std::isxdigit(static_cast<unsigned char>(low)) != 0) {
      text.replace(at, 3, 1, static_cast<char>(std::strtol(text.substr(at + 1, 2).c_str(), nullptr, 16)));
      if (text[at] != '%') ++at;  // else what it makes with the next two is decoded too
    } else {
      ++at;
    }
  }
  return text;
}

void check_url(const Url& url) {
  const std::string text = url.origin() + url.target();
  const auto again = parse(text);
  require(again.ok() && *again == url, "read the same again", text);
  require(url.port != 0 && url.path.starts_with('/') && text.size() <= max_url_bytes + 64, "its parts", text);
  for (const char c : text) require(c > 0x20 && c < 0x7f && c != '\\', "printable", text);
  in_addr four{};
  in6_addr six{};
  const bool like_ipv4 = ::inet_aton(url.host.c_str(), &four) != 0;
  require(like_ipv4 == (url.kind == HostKind::ipv4), "a resolver sees the same kind of host", text);
  if (url.kind == HostKind::ipv4) require(::inet_pton(AF_INET, url.host.c_str(), &four) == 1, "the usual form", text);
  require((::inet_pton(AF_INET6, url.host.c_str(), &six) == 1) == (url.kind == HostKind::ipv6), "IPv6 or not", text);
  if (url.kind == HostKind::name) require(url.host.find_first_of("%:@[]/?#") == std::string::npos && !url.host.ends_with('.'), "a name", text);
  // Once and twice decoded is what servers do; the first three readings have no way up.
  std::string path = url.path;
  for (const std::string& segment : segments(path)) {
    const std::string read = fully_decoded(segment);
    if (segment.find("%25") == std::string::npos) {
      require(read != "." && read != ".." && read.find('/') == std::string::npos && read.find('\\') == std::string::npos, "no way up", text);
    }
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
  const std::string entry_text(part());
  const auto entry = parse_entry(entry_text);
  const auto url = parse(part());
  require(entry.ok() || (!entry.error().empty() && entry.error().size() < 200), "a short error", entry_text);
  if (entry) check_url(*entry);
  if (!url) return 0;
  check_url(*url);
  const AllowList list({entry_text});
  require(list.empty() == !entry.ok(), "an entry that is read counts", entry_text);
  const auto within = [&](const Url& asked) {
    if (!list.allows(asked)) return;
    require(entry.ok() && entry->origin() == asked.origin(), "the same origin", asked.origin());
    auto wanted = segments(entry->path);
    if (wanted.back().empty()) wanted.pop_back();
    const auto found = segments(asked.path);
    require(found.size() >= wanted.size() && std::equal(wanted.begin(), wanted.end(), found.begin()), "under its path", asked.path);
  };
  within(*url);
  Url base = *url;
  while (!rest.empty()) {
    const auto next = follow(base, part());
    if (!next) continue;
    base = *next;
    check_url(base);
    within(base);
  }
  return 0;
}
