// A URL that a picture may have, taken apart: http or https, nothing that two readers could read differently. Pure. Not here: which ones are
// allowed (allow_list.hpp), what an address is (address.hpp), how one is fetched (server/fetch).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/result.hpp"

namespace vigil::url {

inline constexpr size_t max_url_bytes = 4096;

enum class Scheme : uint8_t { http, https };
enum class HostKind : uint8_t { name, ipv4, ipv6 };

struct Url {
  Scheme scheme = Scheme::http;
  HostKind kind = HostKind::name;
  std::string host;        // lower case; an IPv6 address in its shortest form, without brackets
  uint16_t port = 80;      // never 0; the scheme's own where none was written
  std::string path = "/";  // as written, with its percent signs; begins with a slash, has no dot segments
  std::string query = {};  // with its question mark; empty = none

  std::string target() const { return path + query; }  // of a request line
  std::string authority() const;                       // of a Host header: the port stands there when it is not the scheme's own
  std::string origin() const;                          // scheme and authority: what a log may show, since paths and queries may hold secrets
  bool operator==(const Url&) const = default;
};

// The error says what is wrong with the address ("has a user name in it"), never anything of what it leads to.
Result<Url> parse(std::string_view text);

// Where a Location header leads from `base`: absolute, of the same scheme (//host/...), of the same host (/...), beside it, or a query alone.
Result<Url> follow(const Url& base, std::string_view location);

}  // namespace vigil::url
