// str() and repr(). See print.hpp.
#include "server/text/jinja/print.hpp"

#include <charconv>
#include <cmath>
#include <utf8proc.h>

#include "server/text/jinja/operations.hpp"

namespace vigil::text::jinja {

namespace {

// Whether Python shows the character as it is in a repr.
bool printable(uint32_t c) {
  if (c < 0x20 || c == 0x7F) return false;
  if (c < 0x7F) return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
  }
}

std::string escape_of(uint32_t c) {
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  static constexpr char digits[] = "0123456789abcdef";
  const int width = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
  std::string out = width == 2 ? "\\x" : width == 4 ? "\\u" : "\\U";
  for (int shift = (width - 1) * 4; shift >= 0; shift -= 4) out += digits[c >> shift & 0xF];
  return out;
}

void repr_string(Builder& out, const String& text) {
  const bool single = text.view().find('\'') != std::string_view::npos;
  const char quote = single && text.view().find('"') == std::string_view::npos ? '"' : '\'';
  const Source edge = text.source == Source::fixed ? Source::fixed : Source::typed;
  if (text.markup) out.append("Markup(", edge);
  out.append(quote, edge);
  for_each_run(text, [&](std::string_view run, Source source) {
    size_t begin = 0;
    for (size_t at = 0; at < run.size();) {
      const size_t bytes = character_bytes(run, at);
      const uint32_t c = code_point(run, at, bytes);
      const bool backslash = c == '\\' || c == static_cast<uint32_t>(quote);
      if (backslash || !printable(c)) {
        out.append(run.substr(begin, at - begin), source);
        out.append(backslash ? std::string("\\") + static_cast<char>(c) : escape_of(c), source);
        begin = at + bytes;
      }
      at += bytes;
    }
    out.append(run.substr(begin), source);
  });
  out.append(quote, edge);
  if (text.markup) out.append(")", edge);
}

class Representation {
 public:
  explicit Representation(Interpreter& in) : in_(in), out_(in.heap) {}

  void write(const Value& value, size_t depth) {
    if (depth > max_value_depth) fail("values lie inside each other more than " + std::to_string(max_value_depth) + " deep (max_value_depth)");
    in_.work.charge(1);
    switch (value.type) {
      case Type::string:
        in_.work.charge_bytes(value.string->size);
        return repr_string(out_, *value.string);
      case Type::sequence: return write_sequence(*value.sequence, depth);
      case Type::dict: {
        out_.append("{", source_of(value));
        write_members(*value.dict, depth);
        return out_.append("}", source_of(value));
      }
      case Type::space: {
        out_.append("<Namespace {", Source::fixed);
        write_members(*value.dict, depth);
        return out_.append("}>", Source::fixed);
      }
      case Type::undefined: return out_.append("Undefined", Source::fixed);
      default: return out_.append(*to_text(in_, value));
    }
  }
  const String* finish() { return out_.finish(); }

 private:
  void write_members(const Dict& dict, size_t depth) {
    const Source source = dict.typed ? Source::typed : Source::fixed;
    for (size_t i = 0; i < dict.size; ++i) {
      if (i > 0) out_.append(", ", source);
      write(dict.entries[i].key, depth + 1);
      out_.append(": ", source);
      write(dict.entries[i].value, depth + 1);
    }
  }

  void write_sequence(const Sequence& sequence, size_t depth) {
    using Flavor = Sequence::Flavor;
    const Source source = sequence.typed ? Source::typed : Source::fixed;
    if (sequence.flavor == Flavor::generator) return out_.append("<generator object>", source);
    if (sequence.flavor == Flavor::range) {
      std::string text = "range(" + std::to_string(sequence.begin) + ", " + std::to_string(sequence.end);
      if (sequence.step != 1) text += ", " + std::to_string(sequence.step);
      return out_.append(text + ")", source);
    }
    const bool view = sequence.flavor != Flavor::list && sequence.flavor != Flavor::tuple;
    if (view) out_.append(type_name_of(sequence.flavor), source);
    if (view) out_.append("(", source);
    const bool tuple = sequence.flavor == Flavor::tuple;
    out_.append(tuple ? "(" : "[", source);
    for (size_t i = 0; i < sequence.size; ++i) {
      if (i > 0) out_.append(", ", source);
      write(sequence.items[i], depth + 1);
    }
    if (tuple && sequence.size == 1) out_.append(",", source);
    out_.append(tuple ? ")" : "]", source);
    if (view) out_.append(")", source);
  }

  static std::string_view type_name_of(Sequence::Flavor flavor) {
    return flavor == Sequence::Flavor::keys ? "dict_keys" : flavor == Sequence::Flavor::values ? "dict_values" : "dict_items";
  }

  Interpreter& in_;
  Builder out_;
};

}  // namespace

Source source_of(const Value& value) {
  switch (value.type) {
    case Type::sequence: return value.sequence->typed ? Source::typed : Source::fixed;
    case Type::dict: return value.dict->typed ? Source::typed : Source::fixed;
    case Type::string: return value.string->source == Source::fixed ? Source::fixed : Source::typed;
    default: return value.typed ? Source::typed : Source::fixed;
  }
}

// The shortest digits that read back as the same number, laid out as Python does: an exponent below 1e-4 and from 1e16 on.
std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string text(buffer, end.ptr);
  const size_t e = text.find('e');
  const int exponent = std::atoi(text.c_str() + e + 1);
  if (exponent < -4 || exponent >= 16) return text;  // to_chars writes two digits of an exponent at least, as Python does
  std::string digits;
  for (size_t i = 0; i < e; ++i) {
    if (text[i] >= '0' && text[i] <= '9') digits += text[i];
  }
  const std::string sign = text[0] == '-' ? "-" : "";
  if (exponent < 0) return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

const String* to_text(Interpreter& in, const Value& value) {
  switch (value.type) {
    case Type::string: return with_markup(in.heap, *value.string, false);
    case Type::undefined: return view_string(in.heap, "", Source::fixed);
    case Type::none: return view_string(in.heap, "None", source_of(value));
    case Type::boolean: return view_string(in.heap, value.boolean ? "True" : "False", source_of(value));
    case Type::integer: return copy_string(in.heap, std::to_string(value.integer), source_of(value));
    case Type::real: return copy_string(in.heap, real_text(value.real), source_of(value));
    case Type::sequence:
    case Type::dict:
    case Type::space: {
      Representation out(in);
      out.write(value, 0);
      return out.finish();
    }
    case Type::macro: return copy_string(in.heap, "<Macro '" + std::string(value.macro->routine->name->view()) + "'>", Source::fixed);
    default: return copy_string(in.heap, "<" + type_name(value) + ">", Source::fixed);
  }
}

const String* soft_text(Interpreter& in, const Value& value) { return value.is(Type::string) ? value.string : to_text(in, value); }

}  // namespace vigil::text::jinja
