// JSON text written by hand where speed counts: strings and numbers onto a buffer. Not here: reading JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vigil::api {

// `text` between quotation marks. Control characters are escaped; wrong UTF-8 becomes U+FFFD, so that the output is always valid.
void append_json_string(std::string& out, std::string_view text);
// The same without the quotation marks.
void append_json_escaped(std::string& out, std::string_view text);
void append_json_integer(std::string& out, int64_t value);
// Finite numbers in the shortest form that reads back equal; others as null.
void append_json_number(std::string& out, double value);
// [1,2,3]
void append_json_ids(std::string& out, const std::vector<int32_t>& ids);

std::string json_string(std::string_view text);

}  // namespace vigil::api
