// Lines from an engine child to the daemon: text <-> EngineLine. Commands in the other direction are in commands.cpp.
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "protocol/base64.hpp"
#include "protocol/lines.hpp"
#include "protocol/text_fields.hpp"

namespace vigil::protocol {
namespace {

using Event = Result<EngineEvent>;

Event parse_info(FieldReader& reader) {
  Info info;
  if (auto error = read_info(reader, info)) return std::move(*error);
  return EngineEvent(std::move(info));
}

// "slots=4" and "beat=250"; a second one of the same name would leave two truths.
void read_ready_number(FieldReader& reader, std::string_view name, std::string_view text, int64_t min, int64_t max,
                       std::optional<int64_t>& out) {
  const auto value = to_signed(text, min, max);
  if (!value) {
    reader.fail(std::string(name) + " '" + printable(text, 40) + "' is not a whole number from " + std::to_string(min) + " to " +
                std::to_string(max));
  } else if (out) {
    reader.fail(std::string(name) + " stands twice");
  }
  out = value;
}

Event parse_ready(FieldReader& reader) {
  Ready ready;
  std::optional<int64_t> slots;
  ready.context = reader.count("context length", 1);
  while (!reader.failed() && !reader.at_end()) {
    const std::string_view word = reader.word("word");
    if (word == "stop") {
      ready.stop = true;
    } else if (word == "ids") {
      ready.ids = true;
    } else if (word == "logprobs") {
      ready.logprobs = true;
    } else if (word == "gpu") {
      ready.gpu = true;
    } else if (word == "grammar") {
      ready.grammar = true;
    } else if (word == "embeddings") {
      ready.embeddings = true;
    } else if (word.starts_with("slots=")) {
      read_ready_number(reader, "slots", word.substr(6), 1, max_slots, slots);
    } else if (word.starts_with("beat=")) {
      read_ready_number(reader, "beat", word.substr(5), 10, 3'600'000, ready.beat_ms);
    } else {
      ready.others.emplace_back(word);
    }
  }
  ready.slots = static_cast<int>(slots.value_or(1));
  // Lines of several running requests could not be told apart.
  if (ready.slots > 1 && !ready.ids) reader.fail("slots=" + std::to_string(ready.slots) + " needs the word ids");
  if (reader.failed()) return reader.failure();
  return EngineEvent(std::move(ready));
}

Event parse_prompt_progress(FieldReader& reader) {
  PromptProgress progress;
  progress.read = reader.count("tokens read");
  progress.total = reader.count("tokens in all");
  if (!reader.at_end()) progress.ms = reader.number("ms", 0);
  if (!reader.at_end()) progress.tokens_per_s = reader.number("tokens per second", 0);
  if (reader.failed()) return reader.failure();
  return EngineEvent(progress);
}

Event parse_token(FieldReader& reader) {
  Token token;
  token.id = reader.token_id("token id");
  if (reader.failed()) return reader.failure();
  for (std::string_view word = reader.next(); !word.empty(); word = reader.next()) {
    if (word.starts_with("lp=")) {
      token.logprob = to_number(word.substr(3));
      if (!token.logprob) reader.fail("lp '" + printable(word.substr(3), 40) + "' is not a finite number");
    } else if (word.starts_with("top=")) {
      std::vector<std::pair<TokenId, double>> list;
      if (!token.top.empty()) reader.fail("top stands twice");
      if (!read_id_numbers(word.substr(4), max_logprobs, list)) {
        reader.fail("top '" + printable(word.substr(4), 40) + "' is not a list id:number,... of at most " + std::to_string(max_logprobs));
      }
      for (const auto& [id, logprob] : list) token.top.push_back(Candidate{id, logprob});
    }
    if (reader.failed()) return reader.failure();
  }
  if (!token.top.empty() && !token.logprob) {
    reader.fail("top needs lp");
    return reader.failure();
  }
  return EngineEvent(std::move(token));
}

Event parse_done(FieldReader& reader) {
  Done done;
  done.generated = reader.count("generated tokens");
  done.prompt = reader.count("prompt tokens");
  done.prompt_ms = reader.number("prompt ms", 0);
  done.decode_ms = reader.number("decode ms", 0);
  done.finish = reader.word("finish reason");
  while (!reader.failed() && !reader.at_end()) done.more.emplace_back(reader.word("field"));
  if (reader.failed()) return reader.failure();
  return EngineEvent(std::move(done));
}

Event parse_wait(FieldReader& reader) {
  Wait wait;
  wait.phase = decode_or_keep(reader.word("phase"));
  wait.seconds = reader.number("seconds", 0);
  if (reader.failed()) return reader.failure();
  return EngineEvent(std::move(wait));
}

Event parse_beat(FieldReader& reader) {
  const std::string_view word = reader.next();
  const auto step = word.starts_with("step=") ? to_unsigned(word.substr(5)) : std::nullopt;
  if (!step) {
    reader.fail_field("step count", word, "step=N");
    return reader.failure();
  }
  Beat beat{*step, std::nullopt};
  for (std::string_view field = reader.next(); !field.empty(); field = reader.next()) {
    if (!field.starts_with("active=")) continue;
    const std::string_view list = field.substr(7);
    beat.active.emplace();
    const auto add = [&](std::string_view element) {
      const auto tag = to_unsigned(element);
      if (tag && beat.active->size() < static_cast<size_t>(max_slots)) beat.active->push_back(*tag);
      return tag.has_value();
    };
    if (!list.empty() && !for_each_element(list, add)) {
      reader.fail_field("account", field, "active=17,18");
      return reader.failure();
    }
  }
  return EngineEvent(std::move(beat));
}

static_assert(std::endian::native == std::endian::little, "vectors travel as they lie in memory");

Event parse_vector(FieldReader& reader) {
  VectorPart part;
  part.offset = reader.count("offset", 0, max_vector);
  const auto bytes = decode_base64(reader.word("numbers"));
  if (!bytes || bytes->empty() || bytes->size() % sizeof(float) != 0) {
    reader.fail("its numbers are not base64 of whole float32");
  } else if (bytes->size() / sizeof(float) > max_vector_part) {
    reader.fail("it holds more than " + std::to_string(max_vector_part) + " numbers");
  }
  if (reader.failed()) return reader.failure();
  part.values.resize(bytes->size() / sizeof(float));
  std::memcpy(part.values.data(), bytes->data(), bytes->size());
  for (const float value : part.values) {
    if (!std::isfinite(value)) reader.fail("it holds a number that is not finite");
  }
  if (reader.failed()) return reader.failure();
  return EngineEvent(std::move(part));
}

// "T 17" or "@3 T 17" and nothing else, which is nearly every line of an engine, without the reader's care for fields and errors. False
// for every other line; those are read word by word.
bool read_bare_token(std::string_view line, std::optional<RequestTag>& request, Token& token) {
  const char* at = line.data();
  const char* const end = at + line.size();
  if (at != end && *at == '@') {
    const auto [after, problem] = std::from_chars(at + 1, end, request.emplace());
    if (problem != std::errc{} || after == end || *after != ' ') return false;
    at = after + 1;
  }
  if (end - at < 3 || at[0] != 'T' || at[1] != ' ') return false;
  const auto [after, problem] = std::from_chars(at + 2, end, token.id);
  return problem == std::errc{} && after == end && at[2] != '-';
}

Event parse_event(FieldReader& reader, std::string_view word) {
  if (word == "T") return parse_token(reader);
  if (word == "PP") return parse_prompt_progress(reader);
  if (word == "DONE") return parse_done(reader);
  if (word == "BEAT") return parse_beat(reader);
  if (word == "V") return parse_vector(reader);
  if (word == "INFO") return parse_info(reader);
  if (word == "READY") return parse_ready(reader);
  if (word == "ERR") return EngineEvent(EngineError{clean_text(reader.remainder())});
  if (word == "FATAL") return EngineEvent(Fatal{clean_text(reader.remainder())});
  if (word == "SWAIT") return parse_wait(reader);
  if (word == "RESUME") {
    const Resume resume{reader.count("reused tokens")};
    if (reader.failed()) return reader.failure();
    return EngineEvent(resume);
  }
  if (word.empty()) return Error{"empty line from the engine"};
  return Error{"unknown word '" + printable(word, 40) + "' from the engine: \"" + printable(reader.line()) + "\""};
}

bool belongs_to_a_request(const EngineEvent& event) {
  return !std::holds_alternative<Info>(event) && !std::holds_alternative<Ready>(event) && !std::holds_alternative<Beat>(event);
}

void append_ready(std::string& out, const Ready& ready) {
  out += "READY ";
  append_integer(out, ready.context);
  if (ready.stop) out += " stop";
  if (ready.ids) out += " ids";
  if (ready.slots > 1) {
    out += " slots=";
    append_integer(out, int64_t{ready.slots});
  }
  if (ready.beat_ms) {
    out += " beat=";
    append_integer(out, *ready.beat_ms);
  }
  if (ready.logprobs) out += " logprobs";
  if (ready.gpu) out += " gpu";
  if (ready.grammar) out += " grammar";
  if (ready.embeddings) out += " embeddings";
  for (const auto& other : ready.others) out += " " + plain_word(other);
}

void append_token(std::string& out, const Token& token) {
  out += "T ";
  append_integer(out, int64_t{token.id});
  if (!token.logprob) return;
  out += " lp=";
  append_number(out, *token.logprob);
  if (token.top.empty()) return;
  out += " top=";
  std::vector<std::pair<TokenId, double>> list;
  for (const Candidate& candidate : token.top) list.emplace_back(candidate.id, candidate.logprob);
  append_id_numbers(out, list);
}

void append_numbers(std::string& out, double first, double second) {
  out += ' ';
  append_number(out, first);
  out += ' ';
  append_number(out, second);
}

void append_counts(std::string& out, const char* word, int64_t first, int64_t second) {
  out += word;
  append_integer(out, first);
  out += ' ';
  append_integer(out, second);
}

void append_event(std::string& out, const EngineEvent& event) {
  std::visit(
      [&out](const auto& e) {
        using E = std::decay_t<decltype(e)>;
        if constexpr (std::is_same_v<E, Info>) {
          append_info(out, e);
        } else if constexpr (std::is_same_v<E, Ready>) {
          append_ready(out, e);
        } else if constexpr (std::is_same_v<E, Resume>) {
          out += "RESUME ";
          append_integer(out, e.tokens);
        } else if constexpr (std::is_same_v<E, PromptProgress>) {
          append_counts(out, "PP ", e.read, e.total);
          append_numbers(out, e.ms, e.tokens_per_s);
        } else if constexpr (std::is_same_v<E, Token>) {
          append_token(out, e);
        } else if constexpr (std::is_same_v<E, Done>) {
          append_counts(out, "DONE ", e.generated, e.prompt);
          append_numbers(out, e.prompt_ms, e.decode_ms);
          out += " " + plain_word(e.finish);
          for (const auto& field : e.more) out += " " + plain_word(field);
        } else if constexpr (std::is_same_v<E, EngineError>) {
          out += "ERR " + clean_text(e.text);
        } else if constexpr (std::is_same_v<E, Fatal>) {
          out += "FATAL " + clean_text(e.why);
        } else if constexpr (std::is_same_v<E, Wait>) {
          out += "SWAIT " + (e.phase.empty() ? std::string("-") : percent_encode(e.phase)) + " ";
          append_number(out, e.seconds);
        } else if constexpr (std::is_same_v<E, VectorPart>) {
          out += "V ";
          append_integer(out, e.offset);
          out += ' ';
          out += encode_base64({reinterpret_cast<const char*>(e.values.data()), e.values.size() * sizeof(float)});
        } else {
          static_assert(std::is_same_v<E, Beat>);
          out += "BEAT step=";
          append_integer(out, e.step);
          if (!e.active) return;
          out += " active=";
          for (size_t n = 0; n < e.active->size(); ++n) {
            if (n > 0) out += ',';
            append_integer(out, (*e.active)[n]);
          }
        }
      },
      event);
}

}  // namespace

Result<EngineLine> parse_engine_line(std::string_view line) {
  if (line.size() > max_line_from_child_bytes) {
    return Error{"a line of " + std::to_string(line.size()) + " bytes from the engine is over the limit of " +
                 std::to_string(max_line_from_child_bytes) + ": \"" + printable(line) + "\""};
  }
  std::optional<RequestTag> request;
  if (Token token; read_bare_token(line, request, token)) return EngineLine{request, EngineEvent(std::move(token))};
  request.reset();
  FieldReader reader(line);
  std::string_view word = reader.next();
  if (word.starts_with('@')) {
    request = to_unsigned(word.substr(1));
    if (!request) return Error{"malformed request tag '" + printable(word, 40) + "' (wanted: @number): \"" + printable(line) + "\""};
    word = reader.next();
    if (word.empty()) return Error{"nothing after the request tag: \"" + printable(line) + "\""};
  }
  reader.line_word(word);
  auto event = parse_event(reader, word);
  if (!event) return Error{event.error()};
  if (request && !belongs_to_a_request(*event)) {
    return Error{"a " + std::string(word) + " line belongs to no request and takes no tag: \"" + printable(line) + "\""};
  }
  return EngineLine{request, std::move(event).value()};
}

std::string encode(const EngineLine& line) {
  std::string out;
  if (line.request && belongs_to_a_request(line.event)) {
    out += '@';
    append_integer(out, *line.request);
    out += ' ';
  }
  append_event(out, line.event);
  while (out.back() == ' ') out.pop_back();  // an ERR without text
  out += '\n';
  return out;
}

}  // namespace vigil::protocol
