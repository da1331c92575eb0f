// The prompt of a chat as parts, each typed by somebody or fixed by the template, and the ids of such a prompt. Only fixed parts can hold
// control tokens: a marker that somebody typed stays text. Not here: JSON, Jinja templates.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf/tokenizer.hpp"
#include "engine/gguf/vocabulary.hpp"
#include "server/text/conversation.hpp"
#include "server/text/image_markers.hpp"

namespace vigil::text {

struct PromptPart {
  enum class Source { typed, fixed, picture };  // a picture has no text: its markers stand there
  Source source = Source::typed;
  std::string text;
  bool operator==(const PromptPart&) const = default;
};

// The documented prompts of models without a chat template (contract, "Requests").
enum class PlainFormat {
  chatml,  // <|im_start|>role\ntext<|im_end|>\n for each message, then <|im_start|>assistant\n
  joined   // the texts, joined by a line break
};
// chatml when the vocabulary has both markers.
PlainFormat plain_format(const gguf::Vocabulary& vocabulary);
// Calls of earlier assistant messages become text: <tool_call>\n{"name": …, "arguments": …}\n</tool_call>. A last assistant message that the
// answer continues (`continue_last`) is left open.
std::vector<PromptPart> chat_prompt(const Conversation& conversation, PlainFormat format);

// The ids of a prompt. Neighbouring text is tokenised as one, whatever its source: a border between parts changes no id. The beginning id
// stands first, once, when the vocabulary says add_bos, also when a fixed part begins with its marker. `markers` stand at pictures.
std::vector<gguf::TokenId> encode_prompt(const gguf::Tokenizer& tokenizer, const gguf::Vocabulary& vocabulary, const std::vector<PromptPart>& parts,
                                         const ImageMarkers& markers = {});

}  // namespace vigil::text
