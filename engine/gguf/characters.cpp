// Decodes UTF-8 and looks up classes. Not here: case and decomposition (wordpiece_tokenizer.cpp).
#include "engine/gguf/characters.hpp"

#include <array>
#include <utf8proc.h>

#include "engine/gguf/utf8.hpp"

namespace vigil::gguf {

namespace {

bool is_white_space(uint32_t code) {  // PropList.txt, White_Space
  return (code >= 0x09 && code <= 0x0d) || code == 0x20 || code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) ||
         code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

uint32_t category_bits(uint32_t code) {
  using namespace char_class;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT: return letter | upper;
    case UTF8PROC_CATEGORY_LL: return letter | lower;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return letter;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: return mark;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return number;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO: return punctuation;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO: return symbol;
    default: return 0;
  }
}

// The code point of the valid character at the start of `text`, which has `length` bytes.
uint32_t code_of(std::string_view text, size_t length) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (length == 1) return byte(0);
  uint32_t code = byte(0) & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; ++i) code = (code << 6) | (byte(i) & 0x3fu);
  return code;
}

}  // namespace

uint32_t classes_of(uint32_t code) {
  if (code == '\r' || code == '\n') return char_class::space | char_class::newline;
  return is_white_space(code) ? char_class::space : category_bits(code);
}

std::vector<Character> characters_of(std::string_view text) {
  static const std::array<Character, 128> ascii = [] {
    std::array<Character, 128> table;
    for (uint32_t code = 0; code < table.size(); ++code) table[code] = {code, classes_of(code)};
    return table;
  }();
  std::vector<Character> characters;
  characters.reserve(text.size());
  while (!text.empty()) {
    const auto lead = static_cast<unsigned char>(text[0]);
    size_t length = 1;
    if (lead < 0x80) {
      characters.push_back(ascii[lead]);
    } else if (length = utf8_length(text); length > 0) {
      const uint32_t code = code_of(text, length);
      characters.emplace_back(code, classes_of(code));
    } else {
      length = 1;
      characters.emplace_back(lead, char_class::invalid);
    }
    text.remove_prefix(length);
  }
  return characters;
}

void append_utf8(std::string& out, uint32_t code) {
  const auto put = [&out](uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | (code >> 6));
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3f));
    put(0x80 | ((code >> 6) & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

}  // namespace vigil::gguf
