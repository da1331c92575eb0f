// See url.hpp. Grammar: RFC 3986, less what readers are known to disagree about.
#include "server/url/url.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <optional>

namespace vigil::url {

namespace {

constexpr uint16_t http_port = 80, https_port = 443;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) { return lower(c); });
  return out;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool all_digits(std::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), is_digit); }

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  const char low = lower(c);
  return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

uint16_t port_of(Scheme scheme) { return scheme == Scheme::http ? http_port : https_port; }
std::string_view name_of(Scheme scheme) { return scheme == Scheme::http ? "http" : "https"; }

std::string bracketed(const Url& url) { return url.kind == HostKind::ipv6 ? "[" + url.host + "]" : url.host; }

// Four decimal numbers without leading zeros: the only form of an IPv4 address that every reader reads the same.
bool is_ipv4(std::string_view host) {
  int numbers = 0;
  while (true) {
    const size_t dot = std::min(host.find('.'), host.size());
    const std::string_view number = host.substr(0, dot);
    if (!all_digits(number) || number.size() > 3 || (number.size() > 1 && number[0] == '0')) return false;
    int value = 0;
    for (const char digit : number) value = value * 10 + (digit - '0');
    if (value > 255) return false;
    ++numbers;
    if (dot == host.size()) return numbers == 4;
    host.remove_prefix(dot + 1);
  }
}

// "2130706433", "0x7f.1", "0177.0.0.1": resolvers take such names for IPv4 addresses when the last label is a number.
bool ends_in_a_number(std::string_view host) {
  const std::string_view last = host.substr(host.rfind('.') + 1);
  if (all_digits(last)) return true;
  return last.size() >= 2 && last[0] == '0' && last[1] == 'x' &&
         std::all_of(last.begin() + 2, last.end(), [](char c) { return hex_value(c) >= 0; });
}

bool is_name(std::string_view host) {
  constexpr size_t most_bytes = 253, most_label_bytes = 63;
  if (host.empty() || host.size() > most_bytes || ends_in_a_number(host)) return false;
  while (true) {
    const size_t dot = std::min(host.find('.'), host.size());
    const std::string_view label = host.substr(0, dot);
    if (label.empty() || label.size() > most_label_bytes || label.front() == '-' || label.back() == '-') return false;
    for (const char c : label)
      if (!is_digit(c) && !(c >= 'a' && c <= 'z') && c != '-' && c != '_') return false;
    if (dot == host.size()) return true;
    host.remove_prefix(dot + 1);
  }
}

std::optional<std::string> ipv6(std::string_view host) {
  std::array<unsigned char, 16> bytes{};
  std::array<char, INET6_ADDRSTRLEN> shortest{};
  if (::inet_pton(AF_INET6, std::string(host).c_str(), bytes.data()) != 1) return std::nullopt;
  if (!::inet_ntop(AF_INET6, bytes.data(), shortest.data(), shortest.size())) return std::nullopt;
  return std::string(shortest.data());
}

Result<void> read_port(std::string_view text, Url& url) {
  constexpr size_t most_digits = 5;
  if (!all_digits(text) || text.size() > most_digits || text[0] == '0') return Error{"has a port that is not a number from 1 to 65535"};
  uint32_t port = 0;
  for (const char digit : text) port = port * 10 + static_cast<uint32_t>(digit - '0');
  if (port > 65535) return Error{"has a port that is not a number from 1 to 65535"};
  url.port = static_cast<uint16_t>(port);
  return {};
}

Result<void> read_authority(std::string_view text, Url& url) {
  if (text.find('@') != std::string_view::npos) return Error{"has a user name in it"};
  std::string_view rest;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    const auto host = end == std::string_view::npos ? std::nullopt : ipv6(text.substr(1, end - 1));
    if (!host) return Error{"has a host in brackets that is not an IPv6 address"};
    url.kind = HostKind::ipv6;
    url.host = *host;
    rest = text.substr(end + 1);
  } else {
    const size_t colon = std::min(text.find(':'), text.size());
    url.host = lower(text.substr(0, colon));
    if (!is_ipv4(url.host) && !is_name(url.host)) {
      return Error{"has a host that is neither a name in ASCII (letters, digits and hyphens) nor a usual IP address"};
    }
    url.kind = is_ipv4(url.host) ? HostKind::ipv4 : HostKind::name;
    rest = text.substr(colon);
  }
  if (rest.empty()) return {};
  if (rest[0] != ':') return Error{"has something behind its host"};
  return read_port(rest.substr(1), url);
}

// The path as a server may read it; nothing when a percent sign does not begin two hexadecimal digits.
std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_value(text[i + 1]), low = hex_value(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

bool has_dot_segment(std::string_view path) {
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    const std::string_view segment = path.substr(0, end);
    const std::string_view name = segment.substr(0, segment.find(';'));  // some servers cut a segment there
    if (name == "." || name == "..") return true;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return false;
}

// A prefix of a path says something only while every server sees the same segments.
Result<void> check_path(std::string_view path) {
  std::string as_read(path);
  // Some servers decode twice.
  for (int pass = 0; pass < 2; ++pass) {
    if (has_dot_segment(as_read)) return Error{"has a path with . or .. in it"};
    const auto slashes = std::count(as_read.begin(), as_read.end(), '/');
    const auto decoded = percent_decoded(as_read);
    if (!decoded) {
      if (pass > 0) return {};  // no second reading
      return Error{"has a % that does not begin two hexadecimal digits"};
    }
    const bool control = std::any_of(decoded->begin(), decoded->end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
    if (control || decoded->find('\\') != std::string::npos || std::count(decoded->begin(), decoded->end(), '/') != slashes) {
      return Error{"has an encoded slash, backslash or control character in its path"};
    }
    as_read = *decoded;
  }
  if (has_dot_segment(as_read)) return Error{"has a path with . or .. in it"};
  return {};
}

// What stands behind the authority.
Result<void> read_rest(std::string_view rest, Url& url) {
  rest = rest.substr(0, rest.find('#'));  // a fragment is the client's own
  const size_t mark = std::min(rest.find('?'), rest.size());
  url.path = mark == 0 ? "/" : std::string(rest.substr(0, mark));
  url.query = rest.substr(mark);
  return check_path(url.path);
}

Result<void> check_bytes(std::string_view text) {
  if (text.size() > max_url_bytes) return Error{"is longer than " + std::to_string(max_url_bytes) + " bytes (max_url_bytes)"};
  for (const char c : text) {
    if (c <= 0x20 || c == 0x7f || static_cast<unsigned char>(c) > 0x7f) {
      return Error{"has a blank, a control character or a character beyond ASCII in it; such characters are written with % in an address"};
    }
    if (std::string_view("\\\"<>^`{|}").find(c) != std::string_view::npos) return Error{"has a character in it that is written with % in an address"};
  }
  return {};
}

bool take_prefix(std::string_view& text, std::string_view lower_case) {
  if (text.size() < lower_case.size() || lower(text.substr(0, lower_case.size())) != lower_case) return false;
  text.remove_prefix(lower_case.size());
  return true;
}

}  // namespace

std::string Url::authority() const { return bracketed(*this) + (port == port_of(scheme) ? "" : ":" + std::to_string(port)); }

std::string Url::origin() const { return std::string(name_of(scheme)) + "://" + authority(); }

Result<Url> parse(std::string_view text) {
  if (auto good = check_bytes(text); !good) return Error{good.error()};
  Url url;
  if (take_prefix(text, "https://")) {
    url.scheme = Scheme::https;
  } else if (!take_prefix(text, "http://")) {
    return Error{"does not begin with http:// or https://"};
  }
  url.port = port_of(url.scheme);
  const size_t end = std::min(text.find_first_of("/?#"), text.size());
  if (auto good = read_authority(text.substr(0, end), url); !good) return Error{good.error()};
  if (auto good = read_rest(text.substr(end), url); !good) return Error{good.error()};
  return url;
}

Result<Url> follow(const Url& base, std::string_view location) {
  if (auto good = check_bytes(location); !good) return Error{good.error()};
  if (location.starts_with("//")) return parse(std::string(name_of(base.scheme)) + ":" + std::string(location));
  const size_t colon = location.find(':');
  if (colon < location.find_first_of("/?#")) return parse(location);  // it has a scheme of its own
  Url url = base;
  std::string rest(location);
  if (location.empty() || location[0] == '?' || location[0] == '#') {
    rest = base.path + (location.starts_with('?') ? "" : base.query) + rest;
  } else if (location[0] != '/') {
    rest = base.path.substr(0, base.path.rfind('/') + 1) + rest;
  }
  if (rest.size() > max_url_bytes) return Error{"is longer than " + std::to_string(max_url_bytes) + " bytes (max_url_bytes)"};
  if (auto good = read_rest(rest, url); !good) return Error{good.error()};
  return url;
}

}  // namespace vigil::url
