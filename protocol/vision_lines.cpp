// Lines between the daemon and the vision child, both directions. Pictures and embeddings themselves travel in files.
#include <string>
#include <string_view>
#include <utility>

#include "protocol/lines.hpp"
#include "protocol/text_fields.hpp"

namespace vigil::protocol {
namespace {

constexpr int64_t max_width = 1 << 20;  // floats of one embedding row

Result<VisionEvent> parse_ok(FieldReader& reader) {
  VisionOk ok;
  ok.n = reader.count("rows", 1);
  ok.nx = reader.count("columns of the grid");
  ok.ny = reader.count("lines of the grid");
  ok.ms = reader.number("ms", 0);
  if (reader.failed()) return reader.failure();
  return VisionEvent(ok);
}

std::string read_path(FieldReader& reader, std::string_view name) {
  const std::string_view word = reader.word(name);
  if (reader.failed()) return {};
  auto path = percent_decode(word);
  if (!path) {
    reader.fail(std::string(name) + ": " + path.error());
    return {};
  }
  if (path->find('\0') != std::string::npos) reader.fail(std::string(name) + " holds a NUL byte");
  return std::move(path).value();
}

}  // namespace

Result<VisionEvent> parse_vision_line(std::string_view line) {
  if (line.size() > max_line_from_child_bytes) {
    return Error{"a line of " + std::to_string(line.size()) + " bytes from the vision child is over the limit of " +
                 std::to_string(max_line_from_child_bytes) + ": \"" + printable(line) + "\""};
  }
  FieldReader reader(line);
  const std::string_view word = reader.next();
  reader.line_word(word);
  if (word == "OK") return parse_ok(reader);
  if (word == "ERR") return VisionEvent(EngineError{clean_text(reader.remainder())});
  if (word == "READY") {
    const VisionReady ready{reader.count("width", 1, max_width)};
    if (reader.failed()) return reader.failure();
    return VisionEvent(ready);
  }
  if (word == "INFO") {
    Info info;
    if (auto error = read_info(reader, info)) return std::move(*error);
    return VisionEvent(std::move(info));
  }
  if (word.empty()) return Error{"empty line from the vision child"};
  return Error{"unknown word '" + printable(word, 40) + "' from the vision child: \"" + printable(line) + "\""};
}

std::string encode(const VisionEvent& event) {
  std::string out;
  if (const auto* ready = std::get_if<VisionReady>(&event)) {
    out += "READY ";
    append_integer(out, ready->width);
  } else if (const auto* ok = std::get_if<VisionOk>(&event)) {
    out += "OK";
    for (const int64_t count : {ok->n, ok->nx, ok->ny}) {
      out += ' ';
      append_integer(out, count);
    }
    out += ' ';
    append_number(out, ok->ms);
  } else if (const auto* error = std::get_if<EngineError>(&event)) {
    out += "ERR " + clean_text(error->text);
  } else {
    append_info(out, std::get<Info>(event));
  }
  while (out.back() == ' ') out.pop_back();  // an ERR without text
  out += '\n';
  return out;
}

Result<VisionCommand> parse_vision_command(std::string_view line) {
  if (line.size() > max_line_from_child_bytes) {
    return Error{"a vision command of " + std::to_string(line.size()) + " bytes is over the limit of " +
                 std::to_string(max_line_from_child_bytes)};
  }
  FieldReader reader(line);
  const std::string_view word = reader.next();
  reader.line_word(word);
  if (word == "ENC") {
    Encode encode;
    encode.image_path = read_path(reader, "image path");
    encode.out_path = read_path(reader, "output path");
    if (!reader.at_end()) reader.fail("a third word (a blank in a path is written %20)");
    if (reader.failed()) return reader.failure();
    return VisionCommand(std::move(encode));
  }
  if (word == "QUIT") {
    if (reader.at_end()) return VisionCommand(Quit{});
    reader.fail("it takes no field");
    return reader.failure();
  }
  if (word.empty()) return Error{"empty vision command"};
  return Error{"unknown vision command '" + printable(word, 40) + "': \"" + printable(line) + "\""};
}

std::string encode(const VisionCommand& command) {
  if (const auto* job = std::get_if<Encode>(&command)) {
    return "ENC " + percent_encode(job->image_path) + " " + percent_encode(job->out_path) + "\n";
  }
  return "QUIT\n";
}

}  // namespace vigil::protocol
