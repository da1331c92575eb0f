// Finds out what a template does by rendering small conversations with it. Not here: what follows from it (chat_template_inputs.hpp).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "server/text/chat_template_inputs.hpp"

namespace vigil::text {

// A rendering with few steps allowed; nothing where it fails. `variables` are further ones.
using ProbeRender = std::function<std::optional<std::string>(const Json& messages, const Json& tools, const Json& variables, bool generation_prompt)>;

TemplateShape probe_template(const ProbeRender& render);

}  // namespace vigil::text
