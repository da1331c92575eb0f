// Numbers between bounds as GBNF over their decimal digits. Not here: which bounds a schema has.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace vigil::text {

// A decimal number: (-)whole.fraction; whole without leading zeros ("0" for none), fraction without trailing ones.
struct Decimal {
  bool negative = false;
  std::string whole = "0", fraction = {};

  bool zero() const { return whole == "0" && fraction.empty(); }
  bool operator==(const Decimal&) const = default;
};
struct Bound {
  Decimal value;
  bool strict = false;  // the bound itself is outside
};

// Of a JSON number as text ("-1.5e3"). Nothing when it would need more than 40 digits on a side.
std::optional<Decimal> to_decimal(std::string_view number);
int compare(const Decimal& a, const Decimal& b);  // below 0, 0, above 0

// Longer numbers are left out: they could not be told apart as doubles, and a model could write digits for ever.
inline constexpr size_t max_integer_digits = 19;
inline constexpr size_t max_exact_digits = 15;  // of a number with bounds, so that rounding to a double cannot carry it over one

// GBNF for integers from `low` to `high`, both included; "[]" when there is none.
std::string integer_range(const std::optional<Bound>& low, const std::optional<Bound>& high);
// GBNF for numbers between the bounds, written without an exponent.
std::string number_range(const std::optional<Bound>& low, const std::optional<Bound>& high);
// GBNF for multiples of `factor` (1 to max_factor) from 0 or from 1 on, and with a sign when `negative`.
inline constexpr unsigned max_factor = 128;
std::string multiples(unsigned factor, bool zero, bool negative, std::string_view prefix, std::string& rules);

}  // namespace vigil::text
