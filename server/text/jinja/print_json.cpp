// json.dumps(). See print.hpp.
#include <algorithm>
#include <cmath>
#include <string>

#include "server/text/jinja/operations.hpp"
#include "server/text/jinja/print.hpp"

namespace vigil::text::jinja {

namespace {

class JsonPrinter {
 public:
  JsonPrinter(Interpreter& in, const JsonStyle& style) : in_(in), style_(style), out_(in.heap) {}

  void write(const Value& value, size_t depth) {
    if (depth > max_value_depth) fail("values lie inside each other more than " + std::to_string(max_value_depth) + " deep (max_value_depth)");
    in_.work.charge(1);
    switch (value.type) {
      case Type::string: return write_string(*value.string);
      case Type::none: return out_.append("null", source_of(value));
      case Type::boolean: return out_.append(value.boolean ? "true" : "false", source_of(value));
      case Type::integer: return out_.append(std::to_string(value.integer), source_of(value));
      case Type::real: return out_.append(number_text(value.real), source_of(value));
      case Type::sequence:
        if (value.sequence->flavor > Sequence::Flavor::tuple) break;
        return write_list(*value.sequence, depth);
      case Type::dict: return write_dict(*value.dict, depth);
      default: break;
    }
    fail("Object of type " + type_name(value) + " is not JSON serializable");
  }
  const String* finish() { return out_.finish(); }

 private:
  static std::string number_text(double value) {
    if (std::isnan(value)) return "NaN";
    return std::isinf(value) ? (value < 0 ? "-Infinity" : "Infinity") : real_text(value);
  }

  void new_line(size_t depth, Source source) {
    if (style_.indent < 0 && !style_.indent_text) return;
    out_.append("\n", source);
    for (size_t i = 0; i < depth; ++i) {
      if (style_.indent_text) {
        out_.append(*style_.indent_text);
      } else {
        blanks(static_cast<size_t>(style_.indent), source);
      }
    }
  }
  void blanks(size_t count, Source source) {
    static constexpr std::string_view some = "                                ";
    in_.work.charge(count / 32);
    for (; count > 0; count -= std::min(count, some.size())) out_.append(some.substr(0, count), source);
  }

  void separate(size_t i, size_t depth, Source source) {
    if (i > 0) {
      if (style_.item_separator) {
        out_.append(*style_.item_separator);
      } else {
        out_.append(style_.indent < 0 && !style_.indent_text ? ", " : ",", source);
      }
    }
    new_line(depth, source);
  }

  void write_list(const Sequence& list, size_t depth) {
    const Source source = list.typed ? Source::typed : Source::fixed;
    if (list.size == 0) return out_.append("[]", source);
    out_.append("[", source);
    for (size_t i = 0; i < list.size; ++i) {
      separate(i, depth + 1, source);
      write(list.items[i], depth + 1);
    }
    new_line(depth, source);
    out_.append("]", source);
  }

  void write_dict(const Dict& dict, size_t depth) {
    const Source source = dict.typed ? Source::typed : Source::fixed;
    if (dict.size == 0) return out_.append("{}", source);
    std::vector<const Dict::Entry*> entries;
    for (size_t i = 0; i < dict.size; ++i) entries.push_back(&dict.entries[i]);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [this](const Dict::Entry* a, const Dict::Entry* b) { return compare(in_.work, a->key, b->key) == -1; });
    }
    out_.append("{", source);
    for (size_t i = 0; i < entries.size(); ++i) {
      separate(i, depth + 1, source);
      write_key(entries[i]->key);
      if (style_.key_separator) {
        out_.append(*style_.key_separator);
      } else {
        out_.append(": ", source);
      }
      write(entries[i]->value, depth + 1);
    }
    new_line(depth, source);
    out_.append("}", source);
  }

  void write_key(const Value& key) {
    if (key.is(Type::string)) return write_string(*key.string);
    if (!key.is_number() && !key.is(Type::none)) fail("keys must be str, int, float, bool or None, not " + type_name(key));
    out_.append("\"", source_of(key));
    write(key, 0);
    out_.append("\"", source_of(key));
  }

  void write_string(const String& text) {
    in_.work.charge_bytes(text.size * 2);
    const Source edge = text.source == Source::fixed ? Source::fixed : Source::typed;
    out_.append("\"", edge);
    for_each_run(text, [this](std::string_view run, Source source) { write_run(run, source); });
    out_.append("\"", edge);
  }

  void write_run(std::string_view run, Source source) {
    size_t begin = 0;
    for (size_t at = 0; at < run.size();) {
      const unsigned char c = static_cast<unsigned char>(run[at]);
      if (c >= 0x20 && c != '"' && c != '\\' && (c < 0x7F || !style_.ascii)) {
        ++at;
        continue;
      }
      const size_t bytes = character_bytes(run, at);
      out_.append(run.substr(begin, at - begin), source);
      out_.append(escape(c < 0x80 ? c : code_point(run, at, bytes)), source);
      at += bytes;
      begin = at;
    }
    out_.append(run.substr(begin), source);
  }

  static std::string unit(uint32_t value) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string out = "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) out += digits[value >> shift & 0xF];
    return out;
  }
  static std::string escape(uint32_t c) {
    switch (c) {
      case '"': return "\\\"";
      case '\\': return "\\\\";
      case '\n': return "\\n";
      case '\r': return "\\r";
      case '\t': return "\\t";
      case '\b': return "\\b";
      case '\f': return "\\f";
      case 0x7F: return "\x7F";
      default: break;
    }
    if (c < 0x10000) return unit(c);
    return unit(0xD800 + ((c - 0x10000) >> 10)) + unit(0xDC00 + ((c - 0x10000) & 0x3FF));
  }

  Interpreter& in_;
  const JsonStyle& style_;
  Builder out_;
};

}  // namespace

const String* to_json(Interpreter& in, const Value& value, const JsonStyle& style) {
  JsonPrinter out(in, style);
  out.write(value, 0);
  return out.finish();
}

}  // namespace vigil::text::jinja
