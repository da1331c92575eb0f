// See strings.hpp.
#include "server/text/jinja/strings.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "server/text/jinja/failure.hpp"

namespace vigil::text::jinja {

namespace {

constexpr size_t first_capacity = 48;
constexpr size_t short_text = 32, long_text = 256;  // bytes of what is looked for: up to the first it is free, from the second on the search is linear by itself

void grow(Heap& heap, Buffer& buffer, size_t needed) {
  const size_t doubled = buffer.capacity < (1u << 20) ? buffer.capacity * 2 : buffer.capacity + buffer.capacity / 2;
  const size_t capacity = (std::max({needed, doubled, first_capacity}) + 15) & ~size_t{15};
  if (buffer.data && heap.extend(buffer.data, buffer.capacity, capacity)) {
    buffer.capacity = capacity;
    return;
  }
  char* data = heap.array<char>(capacity);
  if (buffer.used > 0) std::memcpy(data, buffer.data, buffer.used);
  if (buffer.data) heap.give_back(buffer.data, buffer.capacity);
  buffer.data = data;
  buffer.capacity = capacity;
}

void add_mark(Heap& heap, Buffer& buffer, Source source) {
  if (buffer.mark_count > 0 && buffer.marks[buffer.mark_count - 1].source == source) return;
  if (buffer.mark_count == buffer.mark_capacity) {
    const size_t capacity = std::max<size_t>(4, buffer.mark_capacity * 2);
    Mark* marks = heap.array<Mark>(capacity);
    if (buffer.mark_count > 0) std::memcpy(marks, buffer.marks, buffer.mark_count * sizeof(Mark));
    if (buffer.marks) heap.give_back(buffer.marks, buffer.mark_capacity * sizeof(Mark));
    buffer.marks = marks;
    buffer.mark_capacity = capacity;
  }
  buffer.marks[buffer.mark_count++] = {buffer.used, source};
}

void add_bytes(Buffer& buffer, std::string_view text) {
  std::memcpy(buffer.data + buffer.used, text.data(), text.size());
  buffer.used += text.size();
}

// The source of a part of a buffer: its own when it lies inside one run.
Source source_of(const Buffer& buffer, size_t begin, size_t end) {
  if (buffer.mark_count == 1) return buffer.marks[0].source;
  const Mark* after = std::upper_bound(buffer.marks, buffer.marks + buffer.mark_count, begin, [](size_t at, const Mark& mark) { return at < mark.begin; });
  const bool one = after == buffer.marks + buffer.mark_count || after->begin >= end;
  return one && after != buffer.marks ? (after - 1)->source : Source::mixed;
}

}  // namespace

void Builder::append(std::string_view text, Source source) {
  if (text.empty()) return;
  if (!buffer_) buffer_ = heap_.make<Buffer>();
  if (buffer_->used + text.size() > buffer_->capacity) grow(heap_, *buffer_, buffer_->used + text.size());
  add_mark(heap_, *buffer_, source);
  add_bytes(*buffer_, text);
}

void Builder::append(const String& text) {
  for_each_run(text, [this](std::string_view run, Source source) { append(run, source); });
}

void Builder::append(const String& text, size_t begin, size_t end) {
  String part = text;
  part.data += begin;
  part.size = end - begin;
  append(part);
}

const String* Builder::finish() {
  String* out = heap_.make<String>();
  if (!buffer_) return out;
  out->data = buffer_->data;
  out->size = buffer_->used;
  out->source = buffer_->mark_count == 1 ? buffer_->marks[0].source : Source::mixed;
  out->buffer = buffer_;
  buffer_ = nullptr;
  return out;
}

const String* view_string(Heap& heap, std::string_view text, Source source) {
  String* out = heap.make<String>();
  out->data = text.data();
  out->size = text.size();
  out->source = source;
  return out;
}

const String* copy_string(Heap& heap, std::string_view text, Source source) {
  if (text.empty()) return view_string(heap, "", source);
  char* data = heap.array<char>(text.size());
  std::memcpy(data, text.data(), text.size());
  return view_string(heap, {data, text.size()}, source);
}

const String* slice(Heap& heap, const String& text, size_t begin, size_t end) {
  if (begin == 0 && end == text.size) return &text;
  String* out = heap.make<String>();
  *out = text;
  out->data += begin;
  out->size = end - begin;
  if (text.ascii != 1) out->ascii = -1;
  if (text.source == Source::mixed) {
    const size_t at = static_cast<size_t>(out->data - text.buffer->data);
    out->source = source_of(*text.buffer, at, at + out->size);
  }
  return out;
}

const String* concat(Heap& heap, const String& left, const String& right) {
  if (right.size == 0) return &left;
  if (left.size == 0) return &right;
  String* out = heap.make<String>();
  Buffer* buffer = left.buffer;
  const bool last = buffer && left.data + left.size == buffer->data + buffer->used;
  size_t begin = last ? static_cast<size_t>(left.data - buffer->data) : 0;
  if (!last || buffer->used + right.size > buffer->capacity) {
    buffer = heap.make<Buffer>();
    const size_t size = left.size + right.size;
    grow(heap, *buffer, size + std::min<size_t>(size, 1u << 20));
    begin = 0;
    for_each_run(left, [&](std::string_view run, Source source) {
      add_mark(heap, *buffer, source);
      add_bytes(*buffer, run);
    });
  }
  // `right` may be a view of this very buffer: its runs are read by their places, which appending does not change.
  for_each_run(right, [&](std::string_view run, Source source) {
    add_mark(heap, *buffer, source);
    add_bytes(*buffer, run);
  });
  out->data = buffer->data + begin;
  out->size = left.size + right.size;
  out->buffer = buffer;
  out->source = left.source == right.source ? left.source : Source::mixed;
  out->ascii = left.ascii == right.ascii ? left.ascii : left.ascii == 0 || right.ascii == 0 ? int8_t{0} : int8_t{-1};
  return out;
}

const String* with_markup(Heap& heap, const String& text, bool markup) {
  if (text.markup == markup) return &text;
  String* out = heap.make<String>(text);
  out->markup = markup;
  return out;
}

const String* escape_markup(Heap& heap, const String& text) {
  if (text.markup) return &text;
  Builder out(heap);
  for_each_run(text, [&out](std::string_view run, Source source) {
    size_t begin = 0;
    for (size_t i = 0; i < run.size(); ++i) {
      const char* entity = run[i] == '<' ? "&lt;" : run[i] == '>' ? "&gt;" : run[i] == '&' ? "&amp;" : run[i] == '\'' ? "&#39;" : run[i] == '"' ? "&#34;" : nullptr;
      if (!entity) continue;
      out.append(run.substr(begin, i - begin), source);
      out.append(entity, source);
      begin = i + 1;
    }
    out.append(run.substr(begin), source);
  });
  return with_markup(heap, *out.finish(), true);
}

bool is_ascii(const String& text) {
  if (text.ascii < 0) {
    unsigned char all = 0;
    for (const char c : text.view()) all = static_cast<unsigned char>(all | static_cast<unsigned char>(c));
    text.ascii = all < 0x80 ? 1 : 0;
  }
  return text.ascii == 1;
}

size_t characters(const String& text) {
  if (is_ascii(text)) return text.size;
  size_t count = 0;
  for (const char c : text.view()) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

size_t byte_of(const String& text, size_t index) {
  if (is_ascii(text)) return std::min(index, text.size);
  for (size_t at = 0; at < text.size; ++at) {
    if ((static_cast<unsigned char>(text.data[at]) & 0xC0) != 0x80 && index-- == 0) return at;
  }
  return text.size;
}

size_t character_bytes(std::string_view text, size_t at) {
  size_t end = at + 1;
  while (end < text.size() && end - at < 4 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
  return end - at;
}

uint32_t code_point(std::string_view text, size_t at, size_t bytes) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[at + i])); };
  if (bytes == 1) return byte(0);
  uint32_t out = byte(0) & (0xFFu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) out = out << 6 | (byte(i) & 0x3F);
  return out;
}

bool is_space(uint32_t c) {
  if (c <= 0x20) return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

void append_utf8(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
    return;
  }
  if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      out += static_cast<char>(0xE0 | c >> 12);
    } else {
      out += static_cast<char>(0xF0 | c >> 18);
      out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    }
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
  }
  out += static_cast<char>(0x80 | (c & 0x3F));
}

size_t find_first(Work& work, std::string_view text, std::string_view wanted, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (wanted.empty()) return from;
  const void* found = ::memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  const size_t at = found ? static_cast<size_t>(static_cast<const char*>(found) - text.data()) : std::string_view::npos;
  const size_t seen = found ? at - from + wanted.size() : text.size() - from;
  work.charge(seen / 64 * (std::min(wanted.size(), long_text) / short_text));
  return at;
}

size_t find_last(Work& work, std::string_view text, std::string_view wanted) {
  if (wanted.size() > text.size()) return std::string_view::npos;
  if (wanted.size() <= short_text) {
    const size_t at = text.rfind(wanted);
    work.charge((text.size() - (at == std::string_view::npos ? 0 : at)) / 16);
    return at;
  }
  // Knuth, Morris and Pratt's search, from the right.
  work.charge((text.size() + wanted.size()) / 16);
  const size_t size = wanted.size();
  const auto letter = [&](size_t i) { return wanted[size - 1 - i]; };
  std::vector<uint32_t> fallback(size, 0);
  for (size_t i = 1, border = 0; i < size; ++i) {
    while (border > 0 && letter(i) != letter(border)) border = fallback[border - 1];
    if (letter(i) == letter(border)) ++border;
    fallback[i] = static_cast<uint32_t>(border);
  }
  for (size_t at = text.size(), reached = 0; at-- > 0;) {
    while (reached > 0 && letter(reached) != text[at]) reached = fallback[reached - 1];
    if (letter(reached) == text[at]) ++reached;
    if (reached == size) return at;
  }
  return std::string_view::npos;
}

Span strip(Work& work, const String& text, const String* chars, Side side) {
  const std::string_view view = text.view();
  const auto goes = [&](size_t at, size_t bytes) {
    if (chars) work.charge(chars->size / 64);
    if (!chars) return is_space(code_point(view, at, bytes));
    return chars->view().find(view.substr(at, bytes)) != std::string_view::npos;
  };
  Span out{0, view.size()};
  while (side != Side::right && out.begin < out.end) {
    const size_t bytes = character_bytes(view, out.begin);
    if (!goes(out.begin, bytes)) break;
    out.begin += bytes;
  }
  while (side != Side::left && out.begin < out.end) {
    size_t at = out.end - 1;
    while (at > out.begin && out.end - at < 4 && (static_cast<unsigned char>(view[at]) & 0xC0) == 0x80) --at;
    if (!goes(at, out.end - at)) break;
    out.end = at;
  }
  return out;
}

}  // namespace vigil::text::jinja
