// A conversation as the variables that a chat template reads, in the shape that this template was found to want, with the fallbacks for what
// it lacks (docs/templates.md). Not here: rendering (chat_template.cpp), finding out (chat_template_probe.cpp).
#pragma once

#include <optional>
#include <string>

#include "server/text/chat_template.hpp"
#include "server/text/conversation.hpp"

namespace vigil::text {

// More about a template than its users need to know.
struct TemplateShape : TemplateTraits {
  bool null_content = false;                          // prints calls only of messages whose content is none
  std::string reasoning_key = "reasoning_content";    // the member of a message that holds its thinking
};

enum class Neighbours { apart, merged };              // whether messages of one role in a row become one

struct TemplateVariables {
  Json messages = Json::array();
  Json tools = nullptr;
};

TemplateVariables template_variables(const Conversation& conversation, const TemplateShape& shape, Neighbours neighbours);

// Stands behind the last message's text when the answer goes on there; a picture's mark, so that nothing typed can be it.
std::string end_mark();

}  // namespace vigil::text
