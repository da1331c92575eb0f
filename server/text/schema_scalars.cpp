// Strings and numbers of a schema: which limits it states, and the grammar of those.
#include <algorithm>
#include <cmath>

#include "server/text/schema_compiler.hpp"

namespace vigil::text {
namespace {

constexpr size_t max_listed_multiples = 512;

// Formats as patterns; others are remarks, as the standard has it. Days fit their months, leap days their years; most programs know no year 0.
const std::map<std::string, std::string>& formats() {
  static const std::string date =
      "(?:(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
      "|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29)";
  static const std::string time = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
  static const std::string byte = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  static const std::string label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
  static const std::string group = "[0-9A-Fa-f]{1,4}";
  static const std::map<std::string, std::string> all = [] {
    std::string ipv6 = "(?:" + group + ":){7}" + group;
    for (int before = 0; before <= 7; ++before) {  // groups in front of "::", then at most what is left
      const int after = 7 - before - 1;
      ipv6 += "|" + (before == 0 ? std::string() : group + "(?::" + group + "){" + std::to_string(before - 1) + "}") + "::";
      if (after > 0) ipv6 += "(?:" + group + "(?::" + group + "){0," + std::to_string(after - 1) + "})?";
    }
    return std::map<std::string, std::string>{
        {"date", "^" + date + "$"},
        {"time", "^" + time + "$"},
        {"date-time", "^" + date + "T" + time + "$"},
        {"duration", "^P(?:[0-9]{1,4}W|(?:[0-9]{1,4}Y)?(?:[0-9]{1,4}M)?[0-9]{1,4}D(?:T[0-9]{1,4}H(?:[0-9]{1,4}M)?(?:[0-9]{1,4}S)?)?|T[0-9]{1,4}[HMS])$"},
        {"uuid", "^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$"},
        {"ipv4", "^" + byte + "(?:\\." + byte + "){3}$"},
        {"ipv6", "^(?:" + ipv6 + ")$"},
        {"hostname", "^" + label + "(?:\\." + label + "){0,3}$"},
        {"email", "^[A-Za-z0-9_+-]{1,32}(?:\\.[A-Za-z0-9_+-]{1,32}){0,3}@" + label + "(?:\\." + label + "){1,3}$"},
        {"uri", "^[A-Za-z][A-Za-z0-9+.-]{0,31}:(?://)?[A-Za-z0-9._~:/?#@!$&'()*+,;=-]+$"},
    };
  }();
  return all;
}

}  // namespace

const Regex* SchemaCompiler::pattern_of(const Json* schema, const std::string& pattern, std::vector<std::shared_ptr<const Regex>>& kept) {
  Result<Regex> regex = parse_regex(pattern);
  if (!regex) {
    fail(schema, regex.error());
    return nullptr;
  }
  kept.push_back(std::make_shared<const Regex>(std::move(*regex)));
  return kept.back().get();
}

SchemaCompiler::Texts SchemaCompiler::texts_of(const SchemaSet& set) {
  Texts texts;
  const Lengths lengths = lengths_of(set, "minLength", "maxLength");
  texts.limits.min_length = lengths.min;
  texts.limits.max_length = lengths.max;
  std::set<std::string> seen;
  const auto add_pattern = [&](const Json* schema, const std::string& pattern) {
    if (!seen.insert(pattern).second) return;
    if (const Regex* regex = pattern_of(schema, pattern, texts.kept)) texts.limits.matches.push_back(regex);
  };
  for (const SchemaItem& item : set.items) {
    if (const auto pattern = item.schema->find("pattern"); pattern != item.schema->end()) {
      if (!pattern->is_string()) fail(item.schema, "pattern must be text");
      else add_pattern(item.schema, pattern->get<std::string>());
    }
    const auto format = item.schema->find("format");
    if (format == item.schema->end() || !format->is_string()) continue;
    const auto known = formats().find(format->get<std::string>());
    if (known != formats().end()) add_pattern(item.schema, known->second);
  }
  return texts;
}

std::string SchemaCompiler::string_way(const std::string& name, const SchemaSet& set) {
  const Texts texts = texts_of(set);
  if (failure_ || texts.limits.empty()) return "string";
  const StringLimits& limits = texts.limits;
  if (limits.max_length && *limits.max_length < limits.min_length) return "[]";
  if (limits.matches.empty()) {
    const std::string most = limits.max_length ? std::to_string(*limits.max_length) : "";
    return "\"\\\"\" char{" + std::to_string(limits.min_length) + "," + most + "} \"\\\"\"";
  }
  const bool alone = limits.matches.size() == 1 && limits.min_length == 0 && !limits.max_length;
  if (alone) {
    if (const auto expression = regex_expression(*limits.matches.front())) {
      write(name + "-s", *expression);
      return "\"\\\"\" " + name + "-s \"\\\"\"";
    }
  }
  const Result<std::string> rules = string_rules(limits, name + "-s");
  if (!rules) {
    fail(set.items.front().schema, rules.error());
    return "[]";
  }
  if (rules->empty()) return "[]";
  out_ += *rules;
  return "\"\\\"\" " + name + "-s0 \"\\\"\"";
}

SchemaCompiler::Lengths SchemaCompiler::lengths_of(const SchemaSet& set, const char* min, const char* max) {
  constexpr size_t most = protocol::gbnf::max_repeat;
  Lengths lengths;
  const auto read = [&](const SchemaItem& item, const char* key) -> std::optional<size_t> {
    const auto at = item.schema->find(key);
    if (at == item.schema->end()) return std::nullopt;
    const double value = at->is_number() ? at->get<double>() : -1;
    if (!(value >= 0) || value != std::floor(value)) return fail(item.schema, std::string(key) + " must be a whole number, 0 or more"), std::nullopt;
    return static_cast<size_t>(std::min(value, static_cast<double>(most + 1)));
  };
  for (const SchemaItem& item : set.items) {
    if (const auto value = read(item, min)) lengths.min = std::max(lengths.min, *value);
    const auto value = read(item, max);
    if (value && *value <= most) lengths.max = std::min(lengths.max.value_or(*value), *value);
    if (lengths.min > most) fail(item.schema, std::string(min) + " is above " + std::to_string(protocol::gbnf::max_repeat));
  }
  return lengths;
}

SchemaCompiler::Bounds SchemaCompiler::bounds_of(const SchemaSet& set) {
  Bounds bounds;
  const auto tighten = [&](const SchemaItem& item, std::optional<Bound>& bound, const Json& value, bool strict, int sign) {
    if (!value.is_number()) return fail(item.schema, "a bound must be a number");
    const std::optional<Decimal> decimal = to_decimal(value.dump());
    if (!decimal) return unenforceable(item, "a bound of more than 40 digits", "");
    const int order = bound ? compare(*decimal, bound->value) * sign : 1;
    if (order > 0) bound = Bound{*decimal, strict};
    else if (order == 0) bound->strict = bound->strict || strict;
  };
  for (const SchemaItem& item : set.items) {
    const Json& schema = *item.schema;
    for (const bool low : {true, false}) {
      std::optional<Bound>& bound = low ? bounds.low : bounds.high;
      const auto plain = schema.find(low ? "minimum" : "maximum"), exclusive = schema.find(low ? "exclusiveMinimum" : "exclusiveMaximum");
      const bool flag = exclusive != schema.end() && exclusive->is_boolean();  // as draft 4 had it
      if (plain != schema.end()) tighten(item, bound, *plain, flag && exclusive->get<bool>(), low ? 1 : -1);
      if (exclusive != schema.end() && !flag) tighten(item, bound, *exclusive, true, low ? 1 : -1);
    }
    if (const auto factor = schema.find("multipleOf"); factor != schema.end()) {
      if (!factor->is_number() || factor->get<double>() <= 0) fail(item.schema, "multipleOf must be a number above 0");
      else bounds.multiples.push_back(&*factor);
    }
  }
  return bounds;
}

std::string SchemaCompiler::number_way(const std::string& name, const SchemaSet& set, bool whole) {
  const Bounds bounds = bounds_of(set);
  if (failure_) return "[]";
  if (bounds.multiples.empty()) {
    if (!bounds.low && !bounds.high) return whole ? "integer" : "number";
    return whole ? integer_range(bounds.low, bounds.high) : number_range(bounds.low, bounds.high);
  }
  const auto owner = std::find_if(set.items.begin(), set.items.end(), [](const SchemaItem& item) { return item.schema->contains("multipleOf"); });
  int64_t factor = 1;
  for (const Json* one : bounds.multiples) {
    const double value = one->get<double>();
    if (value != std::floor(value) || value > 1e9 || factor > 1'000'000'000) {
      unenforceable(*owner, "multipleOf " + one->dump(), ": only whole numbers up to 1000000000 can be");
      return whole ? integer_range(bounds.low, bounds.high) : number_range(bounds.low, bounds.high);
    }
    const auto next = static_cast<int64_t>(value);
    int64_t a = factor, b = next;
    while (b != 0) a = std::exchange(b, a % b);
    factor = factor / a * next;
  }
  // Multiples of a whole number are whole. Few of them are listed; without bounds remainders are followed digit by digit.
  const auto end = [](const std::optional<Bound>& bound) { return bound ? std::stod((bound->value.negative ? "-" : "") + bound->value.whole) : NAN; };
  const double low = end(bounds.low), high = end(bounds.high);
  if (bounds.low && bounds.high && std::abs(low) < 1e15 && std::abs(high) < 1e15 && (high - low) / static_cast<double>(factor) <= max_listed_multiples) {
    std::string body;
    for (int64_t value = (static_cast<int64_t>(low) / factor - 1) * factor; value <= static_cast<int64_t>(high) + 1; value += factor) {
      const Decimal decimal{value < 0, std::to_string(std::abs(value)), {}};
      const int from = compare(decimal, bounds.low->value), to = compare(decimal, bounds.high->value);
      if (from < 0 || to > 0 || (from == 0 && bounds.low->strict) || (to == 0 && bounds.high->strict)) continue;
      body += (body.empty() ? "\"" : " | \"") + std::to_string(value) + "\"";
    }
    return body.empty() ? "[]" : body;
  }
  const Decimal zero, first{false, std::to_string(factor), {}};
  const bool from_zero = bounds.low && compare(bounds.low->value, zero) == 0 && !bounds.low->strict;
  const bool from_one = bounds.low && !bounds.low->value.negative && compare(bounds.low->value, first) <= 0 && !(bounds.low->strict && compare(bounds.low->value, first) == 0);
  if (!bounds.high && (!bounds.low || from_zero || from_one) && factor <= max_factor) {
    return multiples(static_cast<unsigned>(factor), !bounds.low || from_zero, !bounds.low, name + "-m", out_);
  }
  unenforceable(*owner, "multipleOf " + std::to_string(factor), " with these bounds");
  return integer_range(bounds.low, bounds.high);
}

}  // namespace vigil::text
