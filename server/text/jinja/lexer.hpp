// A template's source as tokens, by the rules of Jinja2 with trim_blocks and lstrip_blocks. Not here: what they mean (parser.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace vigil::text::jinja {

struct Token {
  enum class Kind : uint8_t { data, block_begin, block_end, variable_begin, variable_end, name, string, integer, real, symbol, end };
  Kind kind = Kind::end;
  uint32_t line = 1, column = 1;
  std::string_view text;    // data and strings: as they are meant; symbol: the operator; the rest: as written
};

struct Tokens {
  std::string source;                  // with line breaks as \n and without the last one
  std::deque<std::string> unescaped;   // strings whose text differs from the source's
  std::vector<Token> list;             // ends with `end`
};

// Fails (syntax) with line and column.
void read_tokens(std::string_view source, Tokens& out);

[[noreturn]] void syntax_error(uint32_t line, uint32_t column, const std::string& what);

}  // namespace vigil::text::jinja
