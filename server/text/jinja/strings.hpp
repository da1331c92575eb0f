// Texts that remember where their bytes came from: making, joining and cutting them. Positions are bytes unless a name says characters.
// Not here: Python's string methods (methods_string.cpp).
#pragma once

#include <cstddef>
#include <string_view>

#include "server/text/jinja/value.hpp"

namespace vigil::text::jinja {

// Writes a text piece by piece. What finish() gives shares the memory; the builder is empty then.
class Builder {
 public:
  explicit Builder(Heap& heap) : heap_(heap) {}
  void append(std::string_view text, Source source);  // not mixed
  void append(const String& text);
  void append(const String& text, size_t begin, size_t end);  // a part of it
  void append(char byte, Source source) { append(std::string_view(&byte, 1), source); }
  size_t size() const { return buffer_ ? buffer_->used : 0; }
  const String* finish();
  const Buffer* buffer() const { return buffer_; }            // null while empty

 private:
  Heap& heap_;
  Buffer* buffer_ = nullptr;
};

// A view of memory that outlives the rendering or lies in its heap.
const String* view_string(Heap& heap, std::string_view text, Source source);
const String* copy_string(Heap& heap, std::string_view text, Source source);
const String* slice(Heap& heap, const String& text, size_t begin, size_t end);
const String* concat(Heap& heap, const String& left, const String& right);
const String* with_markup(Heap& heap, const String& text, bool markup);
// < > & ' " as entities, unless it is markup already; the result is markup.
const String* escape_markup(Heap& heap, const String& text);

// Calls visit(view, source) for each run of one source.
template <typename Visit>
void for_each_run(const String& text, Visit&& visit) {
  if (text.source != Source::mixed) {
    if (text.size > 0) visit(text.view(), text.source);
    return;
  }
  const Buffer& buffer = *text.buffer;
  const size_t begin = static_cast<size_t>(text.data - buffer.data), end = begin + text.size;
  size_t low = 0, high = buffer.mark_count;  // the last mark at or before begin
  while (high - low > 1) {
    const size_t middle = (low + high) / 2;
    (buffer.marks[middle].begin <= begin ? low : high) = middle;
  }
  for (size_t at = begin; at < end; ++low) {
    const size_t next = low + 1 < buffer.mark_count && buffer.marks[low + 1].begin < end ? buffer.marks[low + 1].begin : end;
    visit(std::string_view(buffer.data + at, next - at), buffer.marks[low].source);
    at = next;
  }
}

bool is_ascii(const String& text);
size_t characters(const String& text);
// The byte at which character number `index` begins; the text's size when there is none.
size_t byte_of(const String& text, size_t index);
size_t character_bytes(std::string_view text, size_t at);           // of the character that begins there, at least 1
uint32_t code_point(std::string_view text, size_t at, size_t bytes);
bool is_space(uint32_t code_point);                                 // str.isspace of Python
void append_utf8(std::string& out, uint32_t code_point);

// Where `wanted` stands first at or behind `from`, or last; npos: nowhere. Linear in both, whatever they are: the library's own search is not.
// Callers have charged for `text`; a long `wanted` is charged here.
size_t find_first(Work& work, std::string_view text, std::string_view wanted, size_t from = 0);
size_t find_last(Work& work, std::string_view text, std::string_view wanted);

enum class Side { left, right, both };
// Where the text without `chars` (null: white space) at its ends lies.
struct Span {
  size_t begin, end;
};
Span strip(Work& work, const String& text, const String* chars, Side side);

}  // namespace vigil::text::jinja
