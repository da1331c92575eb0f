// Names out of untrusted files, made fit for a log line or an error text.
#pragma once

#include <string>
#include <string_view>

namespace vigil::gguf {

// The name in single quotes: control characters and bytes above 126 as \xNN, cut behind 80 bytes.
std::string printable(std::string_view name);

}  // namespace vigil::gguf
