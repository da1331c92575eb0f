// Ranges are split where the digits of their ends part: below the lower end's digit nothing, above it everything.
#include "server/text/schema_numbers.hpp"

#include <algorithm>
#include <cstdlib>

namespace vigil::text {
namespace {

const std::string nothing = "[]";

std::string digit_class(char first, char last) {
  if (first == last) return std::string("\"") + first + "\"";
  return std::string("[") + first + "-" + last + "]";
}
std::string any_digits(size_t count) { return count == 0 ? "" : count == 1 ? "[0-9]" : "[0-9]{" + std::to_string(count) + "}"; }

class Ways {
 public:
  void add(const std::string& way) {
    if (way == nothing) return;
    text_ += (text_.empty() ? "" : " | ") + (way.empty() ? "\"\"" : way);
  }
  std::string text() const { return text_.empty() ? nothing : text_; }
  std::string group() const { return text_.empty() ? nothing : "(" + text_ + ")"; }

 private:
  std::string text_;
};

int compare_whole(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  return a.compare(b);
}

std::string increased(std::string digits) {
  for (size_t i = digits.size(); i-- > 0;) {
    if (digits[i] != '9') return ++digits[i], digits;
    digits[i] = '0';
  }
  return "1" + digits;
}
std::string decreased(std::string digits) {  // of a positive number
  for (size_t i = digits.size(); i-- > 0;) {
    if (digits[i] != '0') {
      --digits[i];
      break;
    }
    digits[i] = '9';
  }
  const size_t first = digits.find_first_not_of('0');
  return first == std::string::npos ? "0" : digits.substr(first);
}

// Digit strings of one length, from `low` on; up to `high`; and between both.
std::string digits_from(std::string_view low) {
  if (low.empty()) return "";
  if (low.find_first_not_of('0') == std::string_view::npos) return any_digits(low.size());
  Ways ways;
  ways.add(digit_class(low[0], low[0]) + " " + digits_from(low.substr(1)));
  if (low[0] < '9') ways.add(digit_class(static_cast<char>(low[0] + 1), '9') + " " + any_digits(low.size() - 1));
  return ways.group();
}
std::string digits_to(std::string_view high) {
  if (high.empty()) return "";
  if (high.find_first_not_of('9') == std::string_view::npos) return any_digits(high.size());
  Ways ways;
  ways.add(digit_class(high[0], high[0]) + " " + digits_to(high.substr(1)));
  if (high[0] > '0') ways.add(digit_class('0', static_cast<char>(high[0] - 1)) + " " + any_digits(high.size() - 1));
  return ways.group();
}
std::string digits_between(std::string_view low, std::string_view high) {
  if (low.empty()) return "";
  if (low[0] == high[0]) return digit_class(low[0], low[0]) + " " + digits_between(low.substr(1), high.substr(1));
  Ways ways;
  ways.add(digit_class(low[0], low[0]) + " " + digits_from(low.substr(1)));
  if (high[0] - low[0] > 1) ways.add(digit_class(static_cast<char>(low[0] + 1), static_cast<char>(high[0] - 1)) + " " + any_digits(low.size() - 1));
  ways.add(digit_class(high[0], high[0]) + " " + digits_to(high.substr(1)));
  return ways.group();
}

// Whole numbers without a sign, from `low` to `high`, both included.
std::string whole_range(const std::string& low, const std::string& high) {
  if (compare_whole(low, high) > 0) return nothing;
  if (low.size() == high.size()) return digits_between(low, high);
  Ways ways;
  if (low == "0") {
    ways.add("[0-9]");
    if (high.size() > 2) ways.add("[1-9] [0-9]{1," + std::to_string(high.size() - 2) + "}");
  } else {
    ways.add(digits_from(low));
    if (high.size() - low.size() > 1) {
      ways.add("[1-9] [0-9]{" + std::to_string(low.size()) + "," + std::to_string(high.size() - 2) + "}");
    }
  }
  ways.add(digits_between("1" + std::string(high.size() - 1, '0'), high));
  return ways.group();
}

std::string largest(size_t digits) { return std::string(digits, '9'); }

// The first whole number inside a lower bound, the last inside an upper one, for values without a sign.
std::string first_whole(const Bound& low) { return low.strict || !low.value.fraction.empty() ? increased(low.value.whole) : low.value.whole; }
std::optional<std::string> last_whole(const Bound& high) {
  if (!high.value.fraction.empty() || !high.strict) return high.value.whole;
  if (high.value.whole == "0") return std::nullopt;
  return decreased(high.value.whole);
}

Bound mirrored(Bound bound) {
  if (!bound.value.zero()) bound.value.negative = !bound.value.negative;
  return bound;
}

// ---- fractions: the digits behind the point

std::string up_to(size_t most) { return most == 0 ? "" : "[0-9]{0," + std::to_string(most) + "}"; }
std::string zeros_up_to(size_t most) { return most == 0 ? "" : "\"0\"{0," + std::to_string(most) + "}"; }
std::string some_above_zero(size_t most) { return most == 0 ? nothing : zeros_up_to(most - 1) + " [1-9] " + up_to(most - 1); }

// Digits behind those already written, so that the fraction is at least `rest`, with at most `most` digits more.
std::string fraction_from(std::string_view rest, bool strict, size_t most) {
  if (rest.empty()) return strict ? some_above_zero(most) : up_to(most);
  if (most == 0) return nothing;
  Ways ways;
  const std::string deeper = fraction_from(rest.substr(1), strict, most - 1);
  if (deeper != nothing) ways.add(digit_class(rest[0], rest[0]) + " " + deeper);
  if (rest[0] < '9') ways.add(digit_class(static_cast<char>(rest[0] + 1), '9') + " " + up_to(most - 1));
  return ways.group();
}
std::string fraction_to(std::string_view rest, bool strict, size_t most) {
  if (rest.empty()) return strict ? nothing : zeros_up_to(most);
  if (most == 0) return "";  // less already
  Ways ways;
  ways.add("");  // ending here is less
  if (rest[0] > '0') ways.add(digit_class('0', static_cast<char>(rest[0] - 1)) + " " + up_to(most - 1));
  const std::string deeper = fraction_to(rest.substr(1), strict, most - 1);
  if (deeper != nothing) ways.add(digit_class(rest[0], rest[0]) + " " + deeper);
  return ways.group();
}

struct Fraction {
  std::string digits;  // without trailing zeros
  bool strict = false;
};

// What follows the whole part: "" or "." and digits. JSON wants a digit behind a point, so each way says its first one.
std::string point(const std::string& digits) { return digits == nothing ? nothing : "\".\" " + digits; }

std::string first_digit_from(const Fraction& low, size_t most) {
  if (low.digits.empty()) return low.strict ? some_above_zero(most) : "[0-9] " + up_to(most - 1);
  return fraction_from(low.digits, low.strict, most);
}
std::string first_digit_to(const Fraction& high, size_t most) {
  if (high.digits.empty()) return high.strict ? nothing : "\"0\" " + zeros_up_to(most - 1);
  Ways ways;
  if (high.digits[0] > '0') ways.add(digit_class('0', static_cast<char>(high.digits[0] - 1)) + " " + up_to(most - 1));
  const std::string deeper = fraction_to(std::string_view(high.digits).substr(1), high.strict, most - 1);
  if (deeper != nothing) ways.add(digit_class(high.digits[0], high.digits[0]) + " " + deeper);
  return ways.group();
}

std::string after_whole_from(const Fraction& low, size_t most) {
  Ways ways;
  if (low.digits.empty() && !low.strict) ways.add("");
  ways.add(point(first_digit_from(low, most)));
  return ways.group();
}
std::string after_whole_to(const Fraction& high, size_t most) {
  Ways ways;
  if (!high.digits.empty() || !high.strict) ways.add("");
  ways.add(point(first_digit_to(high, most)));
  return ways.group();
}
std::string after_whole_between(const Fraction& low, const Fraction& high, size_t most) {
  std::string a = low.digits, b = high.digits;
  const size_t length = std::max(a.size(), b.size());
  a.resize(length, '0');
  b.resize(length, '0');
  if (a > b || (a == b && (low.strict || high.strict))) return nothing;
  Ways ways;
  if (low.digits.empty() && !low.strict) ways.add("");
  size_t same = 0;
  while (same < length && a[same] == b[same]) ++same;
  const std::string shared = a.substr(0, same);
  if (same == length) {  // one value
    if (length == 0) ways.add("\".\" \"0\" " + zeros_up_to(most - 1));
    else ways.add("\"." + shared + "\" " + zeros_up_to(most - length));
    return ways.group();
  }
  if (same > 0 && !low.strict && a.find_first_not_of('0', same) == std::string::npos) ways.add("\"." + shared + "\"");
  const size_t left = most - same - 1;
  const std::string begin = "\"." + shared + "\" ";
  const std::string from = fraction_from(std::string_view(low.digits).substr(std::min(low.digits.size(), same + 1)), low.strict, left);
  if (from != nothing) ways.add(begin + digit_class(a[same], a[same]) + " " + from);
  if (b[same] - a[same] > 1) ways.add(begin + digit_class(static_cast<char>(a[same] + 1), static_cast<char>(b[same] - 1)) + " " + up_to(left));
  const std::string to = fraction_to(std::string_view(high.digits).substr(std::min(high.digits.size(), same + 1)), high.strict, left);
  if (to != nothing) ways.add(begin + digit_class(b[same], b[same]) + " " + to);
  return ways.group();
}

// Numbers without a sign.
std::string magnitude_range(const Bound& low, const std::optional<Bound>& high) {
  const std::string& first = low.value.whole;
  const size_t longest = std::max(first.size(), high ? high->value.whole.size() : 1);
  const size_t needed = std::max(low.value.fraction.size(), high ? high->value.fraction.size() : 0) + 1;
  const size_t most = std::max(needed, longest < max_exact_digits ? max_exact_digits - longest : 1);
  const Fraction from{low.value.fraction, low.strict};
  if (high && high->value.whole == first) return digits_between(first, first) + " " + after_whole_between(from, {high->value.fraction, high->strict}, most);
  Ways ways;
  const auto add = [&](const std::string& whole, const std::string& rest) {
    if (whole != nothing && rest != nothing) ways.add(whole + " " + rest);
  };
  add(digits_between(first, first), after_whole_from(from, most));
  const std::string any = "(\".\" [0-9]{1," + std::to_string(most) + "})?";
  if (!high) {
    add(whole_range(increased(first), largest(std::max(first.size(), max_exact_digits))), any);
    return ways.group();
  }
  if (compare_whole(first, high->value.whole) > 0) return nothing;
  const std::string& last = high->value.whole;
  if (last != "0") add(whole_range(increased(first), decreased(last)), any);
  add(digits_between(last, last), after_whole_to({high->value.fraction, high->strict}, most));
  return ways.group();
}

}  // namespace

std::optional<Decimal> to_decimal(std::string_view number) {
  Decimal out;
  if (!number.empty() && number[0] == '-') {
    out.negative = true;
    number.remove_prefix(1);
  }
  long exponent = 0;
  if (const size_t e = number.find_first_of("eE"); e != std::string_view::npos) {
    exponent = std::clamp(std::strtol(std::string(number.substr(e + 1)).c_str(), nullptr, 10), -1000L, 1000L);
    number = number.substr(0, e);
  }
  const size_t dot = std::min(number.find('.'), number.size());
  std::string digits(number.substr(0, dot));
  if (dot < number.size()) digits += number.substr(dot + 1);
  long places = static_cast<long>(dot) + exponent;  // digits in front of the point
  if (places < 0) digits.insert(0, static_cast<size_t>(-places), '0'), places = 0;
  if (static_cast<size_t>(places) > digits.size()) digits.append(static_cast<size_t>(places) - digits.size(), '0');
  std::string whole = digits.substr(0, static_cast<size_t>(places)), fraction = digits.substr(static_cast<size_t>(places));
  whole.erase(0, std::min(whole.find_first_not_of('0'), whole.size()));
  fraction.erase(fraction.find_last_not_of('0') + 1);
  if (whole.size() > 40 || fraction.size() > 40) return std::nullopt;
  out.whole = whole.empty() ? "0" : whole;
  out.fraction = fraction;
  if (out.zero()) out.negative = false;
  return out;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  int order = compare_whole(a.whole, b.whole);
  if (order == 0) order = a.fraction.compare(b.fraction);
  return a.negative ? -order : order;
}

std::string integer_range(const std::optional<Bound>& low, const std::optional<Bound>& high) {
  Ways ways;
  if (!high || !high->value.negative) {  // from 0 on
    const std::string first = low && !low->value.negative ? first_whole(*low) : "0";
    const std::optional<std::string> last = high ? last_whole(*high) : largest(std::max(first.size(), max_integer_digits));
    if (last) ways.add(whole_range(first, *last));
  }
  if (!low || low->value.negative) {  // below 0: the same with the signs turned
    const std::string first = high && (high->value.negative || high->value.zero()) ? first_whole(mirrored(*high)) : "1";
    const std::optional<std::string> last = low ? last_whole(mirrored(*low)) : largest(std::max(first.size(), max_integer_digits));
    const std::string magnitude = last ? whole_range(first == "0" ? "1" : first, *last) : nothing;
    if (magnitude != nothing) ways.add("\"-\" " + magnitude);
  }
  return ways.group();
}

std::string number_range(const std::optional<Bound>& low, const std::optional<Bound>& high) {
  Ways ways;
  if (!high || !high->value.negative) {
    const Bound from = low && !low->value.negative ? *low : Bound{};
    ways.add(magnitude_range(from, high));
  }
  if (!low || low->value.negative) {
    const bool below = high && (high->value.negative || high->value.zero());
    std::optional<Bound> to;
    if (low) to = mirrored(*low);
    const Bound from = below ? mirrored(*high) : Bound{};
    const std::string magnitude = magnitude_range(from, to);
    if (magnitude != nothing) ways.add("\"-\" " + magnitude);
  }
  return ways.group();
}

std::string multiples(unsigned factor, bool zero, bool negative, std::string_view prefix, std::string& rules) {
  const auto name = [&](unsigned rest) { return std::string(prefix) + std::to_string(rest); };
  // A rule for each remainder of what was read so far: which digits lead to which.
  for (unsigned rest = 0; rest < factor; ++rest) {
    rules += name(rest) + " ::= ";
    Ways ways;
    for (unsigned target = 0; target < factor; ++target) {
      std::string digits;
      for (unsigned digit = 0; digit < 10; ++digit) {
        if ((rest * 10 + digit) % factor == target) digits += static_cast<char>('0' + digit);
      }
      if (!digits.empty()) ways.add("[" + digits + "] " + name(target));
    }
    if (rest == 0) ways.add("");
    rules += ways.text() + "\n";
  }
  Ways first;
  for (unsigned digit = 1; digit < 10; ++digit) first.add(digit_class(static_cast<char>('0' + digit), static_cast<char>('0' + digit)) + " " + name(digit % factor));
  Ways ways;
  if (zero) ways.add("\"0\"");
  ways.add((negative ? "\"-\"? " : "") + first.group());
  return ways.group();
}

}  // namespace vigil::text
