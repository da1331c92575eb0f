// See json.hpp.
#include "server/json/json.hpp"

namespace nlohmann {
template class basic_json<>;
template class basic_json<ordered_map>;
namespace detail {
template class serializer<json>;
template class serializer<ordered_json>;
template class lexer<json, StringInput>;
template class parser<json, StringInput>;
template class json_sax_dom_parser<json>;
template class json_sax_dom_callback_parser<json>;
}  // namespace detail
}  // namespace nlohmann
