// The product of all limits is built state by state from where a string begins; states that lead nowhere are left out.
#include "server/text/string_automaton.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "server/text/schema_grammar.hpp"

namespace vigil::text {
namespace {

constexpr size_t max_nfa_nodes = 20'000;
constexpr size_t max_product_work = 4'000'000;

// Thompson's construction. Places: reads a set, splits, or asserts the beginning or end.
struct Nfa {
  enum class Kind : uint8_t { set, split, begin, end, accept };
  struct Place {
    Kind kind = Kind::split;
    const std::vector<CodeRange>* ranges = nullptr;
    std::vector<uint32_t> next = {};
  };
  std::vector<Place> places;
  uint32_t start = 0;
  bool too_large = false;

  explicit Nfa(const Regex& regex) : regex_(regex) {
    const uint32_t accept = add({Kind::accept});
    start = build(regex.root, accept);
  }

 private:
  uint32_t add(Place place) {
    if (places.size() >= max_nfa_nodes) too_large = true;
    else places.push_back(std::move(place));
    return static_cast<uint32_t>(places.size() - 1);
  }
  uint32_t build(uint32_t index, uint32_t next) {
    const Regex::Node& node = regex_.nodes[index];
    if (too_large) return 0;
    switch (node.kind) {
      case Regex::Kind::set: return add({Kind::set, &node.ranges, {next}});
      case Regex::Kind::begin: return add({Kind::begin, nullptr, {next}});
      case Regex::Kind::end: return add({Kind::end, nullptr, {next}});
      case Regex::Kind::sequence:
        for (auto part = node.parts.rbegin(); part != node.parts.rend(); ++part) next = build(*part, next);
        return next;
      case Regex::Kind::choice: {
        std::vector<uint32_t> ways;
        for (const uint32_t part : node.parts) ways.push_back(build(part, next));
        return add({Kind::split, nullptr, std::move(ways)});
      }
      case Regex::Kind::repeat: break;
    }
    const uint32_t part = node.parts.front();
    if (node.max == protocol::gbnf::unbounded) {
      const uint32_t loop = add({Kind::split, nullptr, {next}});
      if (too_large) return 0;
      const uint32_t body = build(part, loop);
      places[loop].next.push_back(body);
      next = loop;
    } else {
      const uint32_t behind = next;
      for (uint32_t i = node.max; i > node.min && !too_large; --i) next = add({Kind::split, nullptr, {build(part, next), behind}});
    }
    for (uint32_t i = 0; i < node.min && !too_large; ++i) next = build(part, next);
    return next;
  }
  const Regex& regex_;
};

// The states of one pattern, made as they are met. A found match stays found: state 0.
class Pattern {
 public:
  explicit Pattern(const Regex& regex) : nfa_(regex) {}
  bool too_large() const { return nfa_.too_large; }
  static constexpr uint32_t found = 0;

  uint32_t start() { return intern(close({nfa_.start}, true)); }
  uint32_t step(uint32_t state, char32_t c) {
    if (state == found) return found;
    std::vector<uint32_t> next = {nfa_.start};  // a match may begin anywhere
    for (const uint32_t place : sets_[state]) {
      if (nfa_.places[place].kind != Nfa::Kind::set) continue;
      const auto& ranges = *nfa_.places[place].ranges;
      const auto range = std::lower_bound(ranges.begin(), ranges.end(), c, [](const CodeRange& r, char32_t value) { return r.last < value; });
      if (range != ranges.end() && range->first <= c) next.push_back(nfa_.places[place].next.front());
    }
    return intern(close(next, false));
  }
  // Whether the string may end here with the pattern found.
  bool accepts(uint32_t state) {
    if (state == found) return true;
    std::vector<uint32_t> work;
    for (const uint32_t place : sets_[state]) {
      if (nfa_.places[place].kind == Nfa::Kind::end) work.push_back(place);
    }
    std::set<uint32_t> seen;
    const bool empty = at_begin_.count(state) != 0;
    while (!work.empty()) {
      const uint32_t place = work.back();
      work.pop_back();
      if (!seen.insert(place).second) continue;
      const auto& node = nfa_.places[place];
      if (node.kind == Nfa::Kind::accept) return true;
      if (node.kind == Nfa::Kind::split || node.kind == Nfa::Kind::end || (node.kind == Nfa::Kind::begin && empty)) work.insert(work.end(), node.next.begin(), node.next.end());
    }
    return false;
  }
  void add_borders(std::set<char32_t>& borders) const {
    for (const auto& place : nfa_.places) {
      if (place.kind != Nfa::Kind::set) continue;
      for (const CodeRange& range : *place.ranges) {
        borders.insert(range.first);
        borders.insert(range.last + 1);
      }
    }
  }
  size_t weight(uint32_t state) const { return sets_[state].size() + 1; }

 private:
  std::vector<uint32_t> close(std::vector<uint32_t> work, bool begins) {
    std::set<uint32_t> seen;
    std::vector<uint32_t> out;
    closed_found_ = false;
    closed_begins_ = begins;
    while (!work.empty()) {
      const uint32_t place = work.back();
      work.pop_back();
      if (!seen.insert(place).second) continue;
      const auto& node = nfa_.places[place];
      switch (node.kind) {
        case Nfa::Kind::accept: closed_found_ = true; break;
        case Nfa::Kind::begin:
          if (begins) work.insert(work.end(), node.next.begin(), node.next.end());
          break;
        case Nfa::Kind::split: work.insert(work.end(), node.next.begin(), node.next.end()); break;
        case Nfa::Kind::set:
        case Nfa::Kind::end: out.push_back(place); break;
      }
    }
    std::sort(out.begin(), out.end());
    return out;
  }
  uint32_t intern(std::vector<uint32_t> places) {
    if (closed_found_) return found;
    const auto [known, fresh] = ids_.emplace(std::pair(closed_begins_, places), static_cast<uint32_t>(sets_.size()));
    if (fresh) {
      sets_.push_back(std::move(places));
      if (closed_begins_) at_begin_.insert(known->second);
    }
    return known->second;
  }
  Nfa nfa_;
  std::vector<std::vector<uint32_t>> sets_ = std::vector<std::vector<uint32_t>>(1);  // [0] is `found`
  std::map<std::pair<bool, std::vector<uint32_t>>, uint32_t> ids_;
  std::set<uint32_t> at_begin_;
  bool closed_found_ = false, closed_begins_ = false;
};

std::u32string code_points(std::string_view text) {
  std::u32string out;
  for (size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    char32_t value = length == 1 ? lead : lead & (0xFFu >> (length + 1));
    for (size_t i = 1; i < length && at + i < text.size(); ++i) value = value << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3Fu);
    out += value;
    at += length;
  }
  return out;
}

}  // namespace

// All limits side by side. A state: one number for each pattern, the length so far (up to where it stops to matter), and which excluded names
// are still possible, as a prefix.
class StringCheck::Product {
 public:
  explicit Product(const StringLimits& limits) : limits_(limits) {
    for (const Regex* regex : limits.matches) patterns_.emplace_back(*regex);
    for (const Regex* regex : limits.matches_not) patterns_.emplace_back(*regex);
    for (const std::string& name : limits.excluded) {
      names_.insert(code_points(name));
      for (std::u32string prefix = code_points(name);; prefix.pop_back()) {
        prefixes_.emplace(prefix, 0);
        if (prefix.empty()) break;
      }
    }
    uint32_t number = 1;  // 0: none is possible any more
    for (auto& [prefix, id] : prefixes_) {
      id = number++;
      by_number_.push_back(&prefix);
    }
  }
  using State = std::vector<uint32_t>;
  bool too_large() const { return std::any_of(patterns_.begin(), patterns_.end(), [](const Pattern& p) { return p.too_large(); }); }

  State start() {
    State state;
    for (Pattern& pattern : patterns_) state.push_back(pattern.start());
    state.push_back(0);
    state.push_back(prefixes_.empty() ? 0 : prefixes_.at(U""));
    return state;
  }
  bool step(State& state, char32_t c) {
    for (size_t i = 0; i < patterns_.size(); ++i) {
      work_ += patterns_[i].weight(state[i]);
      state[i] = patterns_[i].step(state[i], c);
      if (i >= limits_.matches.size() && state[i] == Pattern::found) return false;
    }
    uint32_t& length = state[patterns_.size()];
    const size_t matters = limits_.max_length ? *limits_.max_length + 1 : limits_.min_length;
    if (length < matters) ++length;
    if (limits_.max_length && length > *limits_.max_length) return false;
    uint32_t& prefix = state[patterns_.size() + 1];
    if (prefix != 0) {
      const auto longer = prefixes_.find(*by_number_[prefix - 1] + c);
      prefix = longer == prefixes_.end() ? 0 : longer->second;
    }
    return true;
  }
  bool accepts(const State& state) {
    for (size_t i = 0; i < patterns_.size(); ++i) {
      if (patterns_[i].accepts(state[i]) != (i < limits_.matches.size())) return false;
    }
    if (state[patterns_.size()] < limits_.min_length) return false;
    const uint32_t prefix = state[patterns_.size() + 1];
    return prefix == 0 || names_.count(*by_number_[prefix - 1]) == 0;
  }
  // Where anything tells two code points apart.
  std::vector<CodeRange> alphabet() const {
    std::set<char32_t> borders = {0, 0xD800, 0xE000, 0x110000};
    for (const Pattern& pattern : patterns_) pattern.add_borders(borders);
    for (const auto& name : names_) {
      for (const char32_t c : name) {
        borders.insert(c);
        borders.insert(c + 1);
      }
    }
    std::vector<CodeRange> out;
    for (auto at = borders.begin(); std::next(at) != borders.end(); ++at) {
      if (*at != 0xD800) out.push_back({*at, *std::next(at) - 1});
    }
    return out;
  }
  size_t work() const { return work_; }

 private:
  const StringLimits& limits_;
  std::vector<Pattern> patterns_;
  std::set<std::u32string> names_;
  std::map<std::u32string, uint32_t> prefixes_;
  std::vector<const std::u32string*> by_number_;
  size_t work_ = 0;
};

namespace {

Error too_large() {
  return Error{"pattern, length and forbidden names of this string together need more than " + std::to_string(max_schema_automaton_states) +
               " states; make the pattern simpler or the length smaller"};
}

// Every state from which an end can be reached.
std::vector<bool> living(const std::vector<std::map<uint32_t, std::vector<CodeRange>>>& steps, const std::vector<bool>& ends) {
  std::vector<std::vector<uint32_t>> before(steps.size());
  for (uint32_t s = 0; s < steps.size(); ++s) {
    for (const auto& [target, ranges] : steps[s]) before[target].push_back(s);
  }
  std::vector<bool> alive(steps.size());
  std::vector<uint32_t> work;
  for (uint32_t s = 0; s < steps.size(); ++s) {
    if (ends[s]) work.push_back(s);
  }
  while (!work.empty()) {
    const uint32_t state = work.back();
    work.pop_back();
    if (alive[state]) continue;
    alive[state] = true;
    work.insert(work.end(), before[state].begin(), before[state].end());
  }
  return alive;
}

}  // namespace

Result<std::string> string_rules(const StringLimits& limits, std::string_view prefix) {
  using Product = StringCheck::Product;
  Product product(limits);
  if (product.too_large()) return too_large();
  const std::vector<CodeRange> alphabet = product.alphabet();
  std::map<Product::State, uint32_t> ids;
  std::vector<Product::State> states;
  std::vector<std::map<uint32_t, std::vector<CodeRange>>> steps;
  std::vector<bool> ends;
  const auto intern = [&](const Product::State& state) {
    const auto [known, fresh] = ids.emplace(state, static_cast<uint32_t>(states.size()));
    if (fresh) states.push_back(state);
    return known->second;
  };
  intern(product.start());
  for (uint32_t s = 0; s < states.size(); ++s) {
    if (states.size() > max_schema_automaton_states || product.work() > max_product_work) return too_large();
    steps.emplace_back();
    ends.push_back(product.accepts(states[s]));
    for (const CodeRange& range : alphabet) {
      Product::State next = states[s];
      if (product.step(next, range.first)) steps[s][intern(next)].push_back(range);
    }
  }
  const std::vector<bool> alive = living(steps, ends);
  if (!alive[0]) return std::string();
  std::string out;
  for (uint32_t s = 0; s < states.size(); ++s) {
    if (!alive[s]) continue;
    out += std::string(prefix) + std::to_string(s) + " ::= ";
    bool first = true;
    for (auto& [target, ranges] : steps[s]) {
      if (!alive[target]) continue;
      out += (first ? "" : " | ") + json_character(tidy_ranges(ranges, false)) + " " + std::string(prefix) + std::to_string(target);
      first = false;
    }
    if (ends[s]) out += first ? "\"\"" : " | \"\"";
    out += "\n";
    if (out.size() > max_grammar_bytes) return too_large();
  }
  return out;
}

StringCheck::StringCheck(const StringLimits& limits) : product_(std::make_unique<Product>(limits)) {}
StringCheck::~StringCheck() = default;

Result<bool> StringCheck::keeps(std::string_view text) {
  if (product_->too_large()) return too_large();
  Product::State state = product_->start();
  for (const char32_t c : code_points(text)) {
    if (!product_->step(state, c)) return false;
    if (product_->work() > max_product_work) return too_large();
  }
  return product_->accepts(state);
}

namespace {

void append_class_character(std::string& out, char32_t c) {
  char buffer[16];
  if (c > 0x20 && c < 0x7F && c != ']' && c != '[' && c != '\\' && c != '^' && c != '-') out += static_cast<char>(c);
  else if (c < 0x10000) out += (std::snprintf(buffer, sizeof buffer, "\\u%04X", static_cast<unsigned>(c)), buffer);
  else out += (std::snprintf(buffer, sizeof buffer, "\\U%08X", static_cast<unsigned>(c)), buffer);
}

bool holds(const std::vector<CodeRange>& ranges, char32_t c) {
  return std::any_of(ranges.begin(), ranges.end(), [c](const CodeRange& range) { return range.first <= c && c <= range.last; });
}

}  // namespace

std::string json_character(const std::vector<CodeRange>& ranges) {
  if (ranges.size() == 2 && ranges[0].first == 0 && ranges[1].last == 0x10FFFF && ranges[0].last == 0xD7FF && ranges[1].first == 0xE000) return "char";
  std::string plain;
  for (const CodeRange& range : ranges) {
    char32_t at = std::max<char32_t>(range.first, 0x20);
    while (at <= range.last) {
      if (at == '"' || at == '\\') {
        ++at;
        continue;
      }
      char32_t end = range.last;
      if (at < '"' && end >= '"') end = '"' - 1;
      else if (at < '\\' && end >= '\\') end = '\\' - 1;
      append_class_character(plain, at);
      if (end > at) {
        plain += '-';
        append_class_character(plain, end);
      }
      at = end + 1;
    }
  }
  std::vector<std::string> ways;
  if (!plain.empty()) ways.push_back("[" + plain + "]");
  std::string shorts;
  for (const auto& [c, name] : {std::pair{U'"', "\\\""}, {U'\\', "\\\\"}, {U'\b', "b"}, {U'\f', "f"}, {U'\n', "n"}, {U'\r', "r"}, {U'\t', "t"}}) {
    if (holds(ranges, c)) shorts += name;
  }
  if (!shorts.empty()) ways.push_back("\"\\\\\" [" + shorts + "]");
  for (char32_t c = 0; c < 0x20; ++c) {
    if (c == '\b' || c == '\f' || c == '\n' || c == '\r' || c == '\t' || !holds(ranges, c)) continue;
    char buffer[24];
    std::snprintf(buffer, sizeof buffer, "\"\\\\u00%c\" [%c%c]", c < 16 ? '0' : '1', "0123456789ABCDEF"[c % 16], "0123456789abcdef"[c % 16]);
    ways.push_back(buffer);
  }
  if (ways.empty()) return "[]";
  if (ways.size() == 1 && shorts.empty()) return ways.front();
  std::string out = "(";
  for (size_t i = 0; i < ways.size(); ++i) out += (i == 0 ? "" : " | ") + ways[i];
  return out + ")";
}

std::string gbnf_literal(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    char buffer[8];
    if (c == '"' || c == '\\') out += {'\\', c};
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) out += (std::snprintf(buffer, sizeof buffer, "\\x%02X", static_cast<unsigned>(c)), buffer);
    else out += c;
  }
  return out + "\"";
}

namespace {

// False when an anchor stands in the middle, where GBNF has no word for it.
bool append_expression(const Regex& regex, uint32_t index, std::string& out) {
  const Regex::Node& node = regex.nodes[index];
  switch (node.kind) {
    case Regex::Kind::begin:
    case Regex::Kind::end: return false;
    case Regex::Kind::set: out += json_character(node.ranges); return true;
    case Regex::Kind::sequence:
      if (node.parts.empty()) out += "\"\"";
      for (size_t i = 0; i < node.parts.size(); ++i) {
        if (i != 0) out += ' ';
        const bool choice = regex.nodes[node.parts[i]].kind == Regex::Kind::choice;
        if (choice) out += '(';
        if (!append_expression(regex, node.parts[i], out)) return false;
        if (choice) out += ')';
      }
      return true;
    case Regex::Kind::choice:
      for (size_t i = 0; i < node.parts.size(); ++i) {
        if (i != 0) out += " | ";
        if (!append_expression(regex, node.parts[i], out)) return false;
      }
      return true;
    case Regex::Kind::repeat:
      out += '(';
      if (!append_expression(regex, node.parts.front(), out)) return false;
      out += "){" + std::to_string(node.min) + ",";
      if (node.max != protocol::gbnf::unbounded) out += std::to_string(node.max);
      out += '}';
      return true;
  }
  return false;
}

}  // namespace

std::optional<std::string> regex_expression(const Regex& regex) {
  const Regex::Node& root = regex.nodes[regex.root];
  const std::vector<uint32_t> ways = root.kind == Regex::Kind::choice ? root.parts : std::vector<uint32_t>{regex.root};
  std::string out;
  for (const uint32_t way : ways) {
    const Regex::Node& node = regex.nodes[way];
    std::vector<uint32_t> parts = node.kind == Regex::Kind::sequence ? node.parts : std::vector<uint32_t>{way};
    const bool begins = !parts.empty() && regex.nodes[parts.front()].kind == Regex::Kind::begin;
    if (begins) parts.erase(parts.begin());
    const bool ends = !parts.empty() && regex.nodes[parts.back()].kind == Regex::Kind::end;
    if (ends) parts.pop_back();
    out += out.empty() ? "" : " | ";
    out += begins ? "" : "char* ";
    for (const uint32_t part : parts) {
      out += '(';
      if (!append_expression(regex, part, out)) return std::nullopt;
      out += ") ";
    }
    out += ends ? "" : "char*";
    if (begins && ends && parts.empty()) out += "\"\"";
    if (out.size() > max_grammar_bytes) return std::nullopt;
  }
  return out;
}

}  // namespace vigil::text
