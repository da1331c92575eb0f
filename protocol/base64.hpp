// Bytes as base64 and back (RFC 4648, section 4: padded, no blanks, no bits left over). Not here: what the bytes are.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace vigil::protocol {

std::string encode_base64(std::string_view bytes);
std::optional<std::string> decode_base64(std::string_view text);  // nothing on any flaw

}  // namespace vigil::protocol
