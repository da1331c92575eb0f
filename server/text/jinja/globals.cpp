// Functions that every template can call, and what can be called on loops and cyclers.
#include <algorithm>
#include <cstdio>
#include <ctime>

#include "server/text/jinja/function_tables.hpp"
#include "server/text/jinja/operations.hpp"
#include "server/text/jinja/print.hpp"

namespace vigil::text::jinja {

namespace {

Value range(Interpreter& in, const Arguments& given) {
  given.expect({"start", "stop", "step"}, 1);
  if (given.named_count() > 0) fail("range() takes no keyword arguments");
  int64_t begin = given.integer_or(0, "start", 0), end = given.integer_or(1, "stop", 0);
  const int64_t step = given.integer_or(2, "step", 1);
  if (given.count() == 1) end = std::exchange(begin, 0);
  if (step == 0) fail("range() arg 3 must not be zero");
  const bool up = step > 0;
  uint64_t size = 0;
  if (up ? begin < end : begin > end) {
    const uint64_t distance = up ? static_cast<uint64_t>(end) - static_cast<uint64_t>(begin) : static_cast<uint64_t>(begin) - static_cast<uint64_t>(end);
    const uint64_t width = up ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
    size = (distance - 1) / width + 1;
  }
  if (size > static_cast<uint64_t>(max_range)) fail("Range too big. The sandbox blocks ranges larger than MAX_RANGE (" + std::to_string(max_range) + ").");
  in.work.charge(size / 8);
  Sequence* out = new_sequence(in.heap, size, Sequence::Flavor::range);
  for (uint64_t i = 0; i < size; ++i) append(in.heap, *out, Value::of(static_cast<int64_t>(static_cast<uint64_t>(begin) + i * static_cast<uint64_t>(step))));
  out->begin = begin;
  out->end = end;
  out->step = step;
  return Value::of(out);
}

// namespace(…) and dict(…): members from a mapping or pairs, and from keywords.
Dict* members(Interpreter& in, const Arguments& given) {
  Dict* out = in.heap.make<Dict>();
  if (given.count() > 1) fail(std::string(given.function()) + "() takes at most one positional argument");
  if (given.count() == 1 && given.at(0).is(Type::dict)) {
    const Dict& from = *given.at(0).dict;
    in.work.charge(from.size);
    for (size_t i = 0; i < from.size; ++i) put(in.work, in.heap, *out, from.entries[i].key, from.entries[i].value);
  } else if (given.count() == 1) {
    for (const Value& one : iterate(in, given.at(0))) {
      const Items both = iterate(in, one);
      if (both.size != 2) fail(std::string(given.function()) + "(): an element is no pair");
      put(in.work, in.heap, *out, both.data[0], both.data[1]);
    }
  }
  for (size_t i = 0; i < given.named_count(); ++i) put(in.work, in.heap, *out, Value::of(given.named(i).name), given.named(i).value);
  return out;
}

Value make_namespace(Interpreter& in, const Arguments& given) { return Value::of(members(in, given), Type::space); }
Value make_dict(Interpreter& in, const Arguments& given) { return Value::of(members(in, given)); }

Value make_cycler(Interpreter& in, const Arguments& given) {
  if (given.count() == 0) fail("cycler() needs at least one argument");
  Value out = Value::with(Type::cycler);
  out.cycler = in.heap.make<Cycler>(list_of(in, {&given.at(0), given.count()}).sequence, size_t{0});
  return out;
}

Value make_joiner(Interpreter& in, const Arguments& given) {
  given.expect({"sep"});
  const Value* separator = given.find(0, "sep");
  const Value text = separator ? *separator : Value::of(view_string(in.heap, ", ", Source::fixed));
  Value out = Value::with(Type::joiner);
  out.cycler = in.heap.make<Cycler>(list_of(in, {&text, 1}).sequence, size_t{0});
  return out;
}

Value raise(Interpreter& in, const Arguments& given) {
  given.expect({"message"}, 1);
  throw Failure{Failure::Kind::refusal, std::string(to_text(in, *given.find(0, "message"))->view())};
}

// The C library prints; what depends on a machine's place is filled in before, as Python does.
Value print_time(Interpreter& in, const Arguments& given) {
  given.expect({"format"}, 1);
  const String* format = given.string_or_null(0, "format");
  if (!format) fail("strftime_now() takes a string");
  if (format->size > max_time_format_bytes) fail("strftime_now(): the format is longer than " + std::to_string(max_time_format_bytes) + " bytes (max_time_format_bytes)");
  std::string text;
  for (size_t i = 0; i < format->size; ++i) {
    const char c = format->data[i], next = i + 1 < format->size ? format->data[i + 1] : '\0';
    if (c == '\0') fail("strftime_now(): embedded null character");
    if (c != '%') {
      text += c;
      continue;
    }
    if (next == 'f') text += "000000";
    if (next == 's') text += std::to_string(in.unix_seconds);
    if (next == '%') text += "%%";
    if (next == '\0') text += "%%";
    if (next != 'f' && next != 's' && next != '%' && next != 'z' && next != 'Z' && next != '\0') text += {c, next};
    ++i;
  }
  const time_t seconds = static_cast<time_t>(in.unix_seconds);
  std::tm parts{};
  if (!::gmtime_r(&seconds, &parts)) fail("strftime_now(): the time is out of range");
  char out[max_time_format_bytes * 64];
  const size_t size = text.empty() ? 0 : std::strftime(out, sizeof out, text.c_str(), &parts);
  return Value::of(copy_string(in.heap, {out, size}, format->source == Source::fixed ? Source::fixed : Source::typed));
}

Value loop_cycle(Interpreter&, const Value& self, const Arguments& given) {
  if (given.count() == 0) fail("no items for cycling given");
  return given.at(self.loop->index % given.count());
}

Value loop_changed(Interpreter& in, const Value& self, const Arguments& given) {
  const Value now = list_of(in, {given.count() > 0 ? &given.at(0) : nullptr, given.count()}, Sequence::Flavor::tuple);
  const bool changed = self.loop->changed.is(Type::undefined) || !equal(in, self.loop->changed, now);
  self.loop->changed = now;
  return Value::of(changed);
}

Value cycler_next(Interpreter&, const Value& self, const Arguments& given) {
  given.expect({});
  return self.cycler->items->items[self.cycler->at++ % self.cycler->items->size];
}

Value cycler_reset(Interpreter&, const Value& self, const Arguments& given) {
  given.expect({});
  self.cycler->at = 0;
  return Value::none();
}

}  // namespace

Table<Global> global_functions() {
  return {{"range", range}, {"namespace", make_namespace}, {"dict", make_dict}, {"cycler", make_cycler}, {"joiner", make_joiner},
          {"raise_exception", raise}, {"strftime_now", print_time}};
}

Table<Method> loop_methods() { return {{"cycle", loop_cycle}, {"changed", loop_changed}}; }
Table<Method> cycler_methods() { return {{"next", cycler_next}, {"reset", cycler_reset}}; }

}  // namespace vigil::text::jinja
