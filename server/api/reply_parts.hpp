// A reply as what it means: parts of content, thinking and tool calls with the tokens behind them. Not here: a dialect's shape for it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/gguf/vocabulary.hpp"

namespace vigil::api {

// Log probabilities of one token and its rivals, with the bytes that each stands for.
struct TokenLogprob {
  std::string bytes;
  double logprob = 0;
  std::vector<std::pair<std::string, double>> top;
};

enum class PartKind : uint8_t {
  content,
  reasoning,
  call_begin,      // the text is the function's name, whole
  call_arguments,  // the next characters of a JSON object
  call_end         // no text; a call without it was cut and is not complete
};

struct Part {
  PartKind kind = PartKind::content;
  size_t call = 0;           // of call_*: which call of its choice, from 0
  size_t begin = 0, end = 0; // the text: bytes of Piece::text
  std::string call_id = {};  // call_begin
};

// What one or more tokens of one choice gave: parts in order. Neighbours of one kind are one part.
struct Piece {
  size_t choice = 0;
  std::string text;                      // of all parts; valid UTF-8
  std::vector<Part> parts;
  std::vector<gguf::TokenId> ids;        // only with return_token_ids
  std::vector<TokenLogprob> logprobs;    // only when asked for

  std::string_view text_of(const Part& part) const { return std::string_view(text).substr(part.begin, part.end - part.begin); }
  void add(PartKind kind, std::string_view added, size_t call = 0);
  void clear();                          // but for the choice; buffers stay
};

enum class FinishReason : uint8_t { stop, length, tool_calls };

struct ChoiceEnd {
  size_t choice = 0;
  FinishReason reason = FinishReason::stop;
  std::string stop_string = {};          // the one that was matched; empty = none (reason is stop then)
  int64_t generated = 0, reasoning = 0;  // tokens, the latter among the former
};

// A reply's items in order, as whole texts.
struct ReplyItem {
  enum class Kind : uint8_t { content, reasoning, call };
  Kind kind = Kind::content;
  std::string text;                      // of a call: its arguments, a JSON object
  std::string name = {}, call_id = {};   // of a call
  bool complete = true;                  // a call that was cut is not
};

// Puts pieces together again. For formats whose last event repeats the whole reply.
class ItemCollector {
 public:
  void add(const Piece& piece);
  const std::vector<ReplyItem>& items() const { return items_; }
  std::vector<ReplyItem> complete_items() const;  // without cut calls; calls without arguments have "{}"

 private:
  ReplyItem& open_item(ReplyItem::Kind kind);
  std::vector<ReplyItem> items_;
};

// The texts of all items of one kind, joined.
std::string joined(const std::vector<ReplyItem>& items, ReplyItem::Kind kind);

}  // namespace vigil::api
