// See dialect.hpp.
#include "server/api/dialect.hpp"

#include <string>

#include "server/json/json.hpp"


namespace vigil::api {

namespace {

using json = nlohmann::ordered_json;

bool asks_for_nothing(const json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_structured() && value.empty();
}

}  // namespace

void refuse_if_asked(Fields& fields, std::string_view name, std::string_view why) {
  const json* value = fields.find(name);
  if (value && !asks_for_nothing(*value)) fields.fail(name, std::string(why));
}

OutputShape read_shape(Fields& fields) {
  OutputShape shape = read_output_format(fields, "response_format");
  const auto grammar = fields.text("grammar");
  if (grammar && !grammar->empty()) {
    if (shape.kind != OutputShape::Kind::free) fields.fail("grammar", "together with response_format is not possible; send one of them");
    shape.kind = OutputShape::Kind::grammar;
    shape.grammar = *grammar;
    shape.field = fields.path("grammar");
  }
  for (const std::string_view name : {"json_schema", "guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs"}) {
    refuse_if_asked(fields, name, "is not supported under this name; send response_format, or grammar with a GBNF text");
  }
  return shape;
}

}  // namespace vigil::api
