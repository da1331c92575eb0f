// What the generating dialects do alike: body to fields, refusals, errors to the channel. Private to the room.
#pragma once

#include <memory>
#include <string_view>

#include "server/api/request_fields.hpp"
#include "server/api/tools.hpp"

namespace vigil::api {

// Fields that ask for something that this server does not do yet: a value that asks for nothing (null, false, an empty list, the default)
// passes, everything else is a 400 that names the field.
void refuse_if_asked(Fields& fields, std::string_view name, std::string_view why);
// `response_format` and `grammar`; other servers' names for them are refused.
OutputShape read_shape(Fields& fields);

}  // namespace vigil::api
