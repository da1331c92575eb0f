// Field scanning, numbers and percent coding for the lines of this room. Meaning of lines: engine_lines, commands, vision_lines.
#include "protocol/text_fields.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace vigil::protocol {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t'; }
bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

void append_hex_byte(std::string& out, char c) {
  constexpr char digits[] = "0123456789ABCDEF";
  const auto byte = static_cast<unsigned char>(c);
  out += digits[byte >> 4];
  out += digits[byte & 15];
}

std::string encode_bytes(std::string_view raw, char also) {
  std::string out;
  out.reserve(raw.size());
  for (const char c : raw) {
    if (is_control(c) || c == ' ' || c == '%' || (also != 0 && c == also)) {
      out += '%';
      append_hex_byte(out, c);
    } else {
      out += c;
    }
  }
  return out;
}

template <typename Integer>
void append_decimal(std::string& out, Integer value) {
  char buffer[24];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  out.append(buffer, end);
}

}  // namespace

// ---- reading

std::string_view FieldReader::next() {
  size_t begin = 0;
  while (begin < rest_.size() && is_blank(rest_[begin])) ++begin;
  size_t end = begin;
  while (end < rest_.size() && !is_blank(rest_[end])) ++end;
  const std::string_view found = rest_.substr(begin, end - begin);
  rest_.remove_prefix(end);
  return found;
}

std::string_view FieldReader::remainder() const { return without_blanks(rest_); }

std::string_view FieldReader::word(std::string_view name) {
  const std::string_view found = next();
  if (found.empty()) {
    fail_field(name, found, {});
  } else if (has_control_bytes(found)) {
    fail_field(name, found, "a word without control bytes");
  }
  return found;
}

int64_t FieldReader::count(std::string_view name, int64_t min, int64_t max) {
  const std::string_view found = next();
  const auto value = to_signed(found, min, max);
  if (value && found.front() != '-') return *value;
  fail_field(name, found, "a whole number from " + std::to_string(min) + " to " + std::to_string(max));
  return 0;
}

double FieldReader::number(std::string_view name, double min, double max) {
  const std::string_view found = next();
  const auto value = to_number(found);
  if (value && *value >= min && *value <= max) return *value;
  std::string wanted = "a finite number";
  if (max < std::numeric_limits<double>::max()) {
    wanted += " from ";
    append_number(wanted, min);
    wanted += " to ";
    append_number(wanted, max);
  } else if (min > std::numeric_limits<double>::lowest()) {
    wanted += ", at least ";
    append_number(wanted, min);
  }
  fail_field(name, found, wanted);
  return 0;
}

void FieldReader::fail(std::string what) {
  if (!failure_) failure_ = std::move(what);
}

void FieldReader::fail_field(std::string_view name, std::string_view got, std::string_view wanted) {
  if (failure_) return;
  if (got.empty()) {
    failure_ = std::string(name) + " is missing";
    return;
  }
  failure_ = std::string(name) + " '" + printable(got, 40) + "' is not " + std::string(wanted);
}

Error FieldReader::failure() const {
  std::string message = "malformed line";
  if (!line_word_.empty()) message = "malformed " + printable(line_word_, 20) + " line";
  return Error{message + ": " + failure_.value_or("unknown flaw") + ": \"" + printable(line_) + "\""};
}

std::optional<uint64_t> to_unsigned(std::string_view word, uint64_t max) {
  uint64_t value = 0;
  const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (problem != std::errc{} || end != word.data() + word.size() || value > max) return std::nullopt;
  return value;
}

std::optional<int64_t> to_signed(std::string_view word, int64_t min, int64_t max) {
  int64_t value = 0;
  const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (problem != std::errc{} || end != word.data() + word.size() || value < min || value > max) return std::nullopt;
  return value;
}

std::optional<double> to_number(std::string_view word) {
  double value = 0;
  const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (problem != std::errc{} || end != word.data() + word.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<TokenId> to_token_id(std::string_view word) {
  const auto value = to_unsigned(word, std::numeric_limits<TokenId>::max());
  if (!value) return std::nullopt;
  return static_cast<TokenId>(*value);
}

bool read_id_numbers(std::string_view list, size_t most, std::vector<std::pair<TokenId, double>>& out) {
  return for_each_element(list, [&](std::string_view element) {
    const size_t colon = element.find(':');
    if (colon == std::string_view::npos || out.size() == most) return false;
    const auto id = to_token_id(element.substr(0, colon));
    const auto number = to_number(element.substr(colon + 1));
    if (!id || !number) return false;
    out.emplace_back(*id, *number);
    return true;
  });
}

// ---- writing

void append_integer(std::string& out, int64_t value) { append_decimal(out, value); }
void append_integer(std::string& out, uint64_t value) { append_decimal(out, value); }

void append_number(std::string& out, double value) {
  // A line carries finite numbers only; ours are, unless a sum of our own went wrong, and then the reader must not choke on it.
  if (!std::isfinite(value)) value = std::isnan(value) ? 0.0 : std::copysign(std::numeric_limits<double>::max(), value);
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  out.append(buffer, end);
}

void append_id_numbers(std::string& out, const std::vector<std::pair<TokenId, double>>& list) {
  bool first = true;
  for (const auto& [id, number] : list) {
    if (!first) out += ',';
    first = false;
    append_integer(out, int64_t{id});
    out += ':';
    append_number(out, number);
  }
}

bool has_control_bytes(std::string_view text) { return std::any_of(text.begin(), text.end(), is_control); }

std::string clean_text(std::string_view text) {
  text = text.substr(0, max_free_text_bytes);
  std::string out(text);
  for (char& c : out) {
    if (is_control(c)) c = ' ';
  }
  const std::string_view trimmed = without_blanks(out);
  return std::string(trimmed);
}

std::string plain_word(std::string_view word) {
  if (word.empty()) return "-";
  std::string out(word);
  for (char& c : out) {
    if (is_control(c) || c == ' ') c = '_';
  }
  return out;
}

std::string percent_encode(std::string_view raw) { return encode_bytes(raw, 0); }
std::string percent_encode_key(std::string_view raw) { return encode_bytes(raw, '='); }

Result<std::string> percent_decode(std::string_view encoded) {
  std::string out;
  out.reserve(encoded.size());
  for (size_t i = 0; i < encoded.size(); ++i) {
    if (encoded[i] != '%') {
      out += encoded[i];
      continue;
    }
    const int high = i + 1 < encoded.size() ? hex_digit(encoded[i + 1]) : -1;
    const int low = i + 2 < encoded.size() ? hex_digit(encoded[i + 2]) : -1;
    if (high < 0 || low < 0) {
      return Error{"'%' at byte " + std::to_string(i) + " is not followed by two hexadecimal digits (a percent sign is written %25): \"" +
                   printable(encoded, 60) + "\""};
    }
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

std::string decode_or_keep(std::string_view encoded) {
  auto decoded = percent_decode(encoded);
  return decoded.ok() ? std::move(decoded).value() : std::string(encoded);
}

std::string printable(std::string_view line, size_t limit) {
  std::string out;
  const std::string_view shown = line.substr(0, limit);
  out.reserve(shown.size() + 4);
  for (const char c : shown) {
    if (is_control(c) || static_cast<unsigned char>(c) >= 0x80) {
      out += "\\x";
      append_hex_byte(out, c);
    } else {
      out += c;
    }
  }
  if (shown.size() < line.size()) out += "...";
  return out;
}

// ---- INFO

std::optional<Error> read_info(FieldReader& reader, Info& info) {
  while (!reader.at_end()) {
    const std::string_view word = reader.word("word");
    const size_t equals = word.find('=');
    if (equals == 0) reader.fail("'" + printable(word, 40) + "' has no key before '='");
    if (reader.failed()) return reader.failure();
    // A word without '=' is a remark of a foreign engine: kept as a key without a value.
    const std::string_view value = equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1);
    info.values.emplace_back(decode_or_keep(word.substr(0, equals)), decode_or_keep(value));
  }
  return std::nullopt;
}

void append_info(std::string& out, const Info& info) {
  out += "INFO";
  for (const auto& [key, value] : info.values) {
    if (key.empty()) continue;  // nothing that a reader could name
    out += ' ';
    out += percent_encode_key(key);
    out += '=';
    out += percent_encode(value);
  }
}

std::optional<double> Info::load() const {
  for (const auto& [key, value] : values) {
    if (key != "load") continue;
    const auto number = to_number(value);
    if (number && *number >= 0 && *number <= 1) return number;
  }
  return std::nullopt;
}

}  // namespace vigil::protocol
