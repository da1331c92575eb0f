// See allow_list.hpp.
#include "server/url/allow_list.hpp"

#include <algorithm>
#include <utility>

namespace vigil::url {

namespace {

bool path_within(std::string_view prefix, std::string_view path) {
  if (!path.starts_with(prefix)) return false;
  return prefix.ends_with('/') || path.size() == prefix.size() || path[prefix.size()] == '/';
}

}  // namespace

Result<Url> parse_entry(std::string_view text) {
  if (text.find_first_of("?#") != std::string_view::npos) return Error{"has a ? or # in it; an entry is scheme, host, port and the beginning of a path"};
  if (text.find('*') != std::string_view::npos) return Error{"has a * in it; write one entry a host"};
  return parse(text);
}

AllowList::AllowList(const std::vector<std::string>& entries) {
  for (const std::string& text : entries)
    if (auto entry = parse_entry(text)) entries_.push_back(std::move(*entry));
}

bool AllowList::allows(const Url& url) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Url& entry) {
    return entry.scheme == url.scheme && entry.kind == url.kind && entry.host == url.host && entry.port == url.port && path_within(entry.path, url.path);
  });
}

bool AllowList::has_https() const {
  return std::any_of(entries_.begin(), entries_.end(), [](const Url& entry) { return entry.scheme == Scheme::https; });
}

}  // namespace vigil::url
