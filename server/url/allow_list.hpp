// vision.url_allow: which URLs may be fetched. Compared part by part, never as text, so that https://example.com allows neither
// https://example.com.evil.org nor https://example.com@evil. Pure. Not here: what the names in a URL resolve to.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/url/url.hpp"

namespace vigil::url {

// One entry: scheme, host and port, which must be the same, and a path, which must be the same or go on behind a slash. An entry has no query, no
// fragment and no wildcard; the error says what is wrong with it.
Result<Url> parse_entry(std::string_view text);

class AllowList {
 public:
  AllowList() = default;
  // Entries that cannot be read are passed over: the configuration has refused them.
  explicit AllowList(const std::vector<std::string>& entries);

  bool empty() const { return entries_.empty(); }
  bool allows(const Url& url) const;
  bool has_https() const;

 private:
  std::vector<Url> entries_;
};

}  // namespace vigil::url
