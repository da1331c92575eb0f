// The JSON library, its code compiled once (json.cpp) instead of in every file that uses it: that halves what those files take to compile.
// Include this instead of <nlohmann/json.hpp>. Not here: reading bodies (server/api), configuration files (server/config).
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace nlohmann {
extern template class basic_json<>;
extern template class basic_json<ordered_map>;
namespace detail {
using StringInput = iterator_input_adapter<std::string::const_iterator>;
extern template class serializer<json>;
extern template class serializer<ordered_json>;
extern template class lexer<json, StringInput>;
extern template class parser<json, StringInput>;
extern template class json_sax_dom_parser<json>;
extern template class json_sax_dom_callback_parser<json>;
}  // namespace detail
}  // namespace nlohmann
