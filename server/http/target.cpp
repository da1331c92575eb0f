// Target and authority parsing.
#include "server/http/target.hpp"

#include <algorithm>
#include <cctype>

namespace vigil::http {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool all_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool host_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == '_';
}

bool address_character(char c) {  // inside brackets: IPv6 with an embedded IPv4 or a zone
  return std::isxdigit(static_cast<unsigned char>(c)) != 0 || c == ':' || c == '.';
}

// The scheme's length with "://", or 0.
size_t scheme_length(std::string_view text) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (text.size() < scheme.size()) continue;
    if (std::equal(scheme.begin(), scheme.end(), text.begin(),
                   [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); }))
      return scheme.size();
  }
  return 0;
}

}  // namespace

std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_value(text[i + 1]), low = hex_value(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return out;
}

Result<Target> parse_target(std::string_view text) {
  Target target;
  if (text == "*") {
    target.asterisk = true;
    target.path = "*";
    return target;
  }
  if (const size_t scheme = scheme_length(text); scheme > 0) {
    text.remove_prefix(scheme);
    const size_t end = std::min(text.find_first_of("/?#"), text.size());
    target.authority = std::string(text.substr(0, end));
    text.remove_prefix(end);
    if (text.empty() || text.front() != '/') {
      target.path = "/";
      if (!text.empty() && text.front() == '?') target.query = std::string(text.substr(1, text.find('#') - 1));
      return target;
    }
  }
  if (text.empty() || text.front() != '/') return Error{"the request's target must be a path that begins with /"};
  text = text.substr(0, text.find('#'));
  if (const size_t mark = text.find('?'); mark != std::string_view::npos) {
    target.query = std::string(text.substr(mark + 1));
    text = text.substr(0, mark);
  }
  while (!text.empty()) {
    text.remove_prefix(1);  // the slash
    const std::string_view raw = text.substr(0, text.find('/'));
    text.remove_prefix(raw.size());
    if (raw.empty()) continue;
    auto decoded = percent_decode(raw);
    if (!decoded) return Error{"the request's path has a broken % escape"};
    target.path += "/" + *decoded;
    target.segments.push_back(std::move(*decoded));
  }
  if (target.path.empty()) target.path = "/";
  return target;
}

std::optional<Authority> parse_authority(std::string_view text) {
  Authority authority;
  std::string_view host, rest;
  if (!text.empty() && text.front() == '[') {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    host = text.substr(1, close - 1);
    rest = text.substr(close + 1);
    if (!std::all_of(host.begin(), host.end(), address_character)) return std::nullopt;
  } else {
    host = text.substr(0, text.find(':'));
    rest = text.substr(host.size());
    if (!std::all_of(host.begin(), host.end(), host_character)) return std::nullopt;
  }
  if (!rest.empty()) {
    if (rest.front() != ':' || rest.size() > 6 || !all_digits(rest.substr(1))) return std::nullopt;
    authority.port = std::string(rest.substr(1));
  }
  if (!host.empty() && host.back() == '.') host.remove_suffix(1);
  if (host.empty() || host.back() == '.') return std::nullopt;  // an empty label
  authority.host = std::string(host);
  for (char& c : authority.host) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return authority;
}

}  // namespace vigil::http
