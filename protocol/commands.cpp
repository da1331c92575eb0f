// Commands from the daemon to an engine child: text <-> EngineCommand. What a sampling value does is the engine's business; here only its
// form and its range.
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/gbnf.hpp"
#include "protocol/lines.hpp"
#include "protocol/text_fields.hpp"

namespace vigil::protocol {
namespace {

constexpr double unbounded = std::numeric_limits<double>::max();

// One row a number key: encode and parse walk the same table, so neither can forget a key.
struct NumberKey {
  std::string_view key;
  std::optional<double> Sampling::*field;
  double min, max;
};
constexpr std::array<NumberKey, 6> number_keys = {{
    {"temperature", &Sampling::temperature, 0, unbounded},
    {"top_p", &Sampling::top_p, 0, 1},
    {"min_p", &Sampling::min_p, 0, 1},
    {"penalty_repeat", &Sampling::penalty_repeat, 0, unbounded},
    {"penalty_freq", &Sampling::penalty_freq, -unbounded, unbounded},
    {"penalty_present", &Sampling::penalty_present, -unbounded, unbounded},
}};
struct CountKey {
  std::string_view key;
  std::optional<int64_t> Sampling::*field;
  int64_t min, max;
};
constexpr std::array<CountKey, 2> count_keys = {{
    {"top_k", &Sampling::top_k, 0, max_count},
    {"penalty_last_n", &Sampling::penalty_last_n, -1, max_count},  // -1: the whole context
}};

void wrong_value(FieldReader& reader, std::string_view key, std::string_view value, std::string_view wanted) {
  reader.fail(std::string(key) + " '" + printable(value, 40) + "' is not " + std::string(wanted));
}

template <typename Field>
bool set_once(FieldReader& reader, std::string_view key, std::optional<Field>& field, std::optional<Field> value) {
  if (field) reader.fail(std::string(key) + " stands twice");
  field = value;
  return value.has_value();
}

std::string range_text(double min, double max) {
  std::string text = "a finite number";
  if (min != -unbounded) {
    text += ", at least ";
    append_number(text, min);
  }
  if (max != unbounded) {
    text += ", at most ";
    append_number(text, max);
  }
  return text;
}

void read_other_key(FieldReader& reader, std::string_view key, std::string_view value, Generate& generate) {
  auto decoded = percent_decode(value);
  if (!decoded) return reader.fail(std::string(key.substr(0, 40)) + ": " + decoded.error());
  if (has_control_bytes(key)) return reader.fail("a key with control bytes");
  generate.others.emplace_back(std::string(key), std::move(decoded).value());
}

void read_grammar(FieldReader& reader, std::string_view value, Sampling& sampling) {
  auto text = percent_decode(value);
  if (!sampling.grammar.empty()) return reader.fail("grammar stands twice");
  if (!text) return reader.fail("grammar: " + text.error());
  if (text->empty()) return reader.fail("grammar is empty");
  if (text->size() > gbnf::max_text_bytes) {
    return reader.fail("grammar has " + std::to_string(text->size()) + " bytes; at most " + std::to_string(gbnf::max_text_bytes) + " are allowed");
  }
  sampling.grammar = std::move(text).value();
}

void read_force_at(FieldReader& reader, std::string_view value, Sampling& sampling) {
  const size_t colon = value.find(':');
  const auto tokens = to_signed(value.substr(0, colon), 0, max_count);
  bool good = colon != std::string_view::npos && tokens.has_value();
  ForceAt force;
  good = good && for_each_element(value.substr(colon + 1), [&](std::string_view element) {
    const auto id = to_token_id(element);
    if (!id || force.ids.size() == max_forced_ids) return false;
    force.ids.push_back(*id);
    return true;
  });
  if (!good) return wrong_value(reader, "force_at", value, "tokens:id,id,... with at most " + std::to_string(max_forced_ids) + " ids");
  force.tokens = *tokens;
  static_cast<void>(set_once(reader, "force_at", sampling.force_at, std::optional<ForceAt>(std::move(force))));
}

void read_key(FieldReader& reader, std::string_view key, std::string_view value, Generate& generate, std::optional<TokenId>& force_unless) {
  Sampling& sampling = generate.sampling;
  for (const auto& row : number_keys) {
    if (row.key != key) continue;
    auto number = to_number(value);
    if (number && (*number < row.min || *number > row.max)) number.reset();
    if (!set_once(reader, key, sampling.*row.field, number)) wrong_value(reader, key, value, range_text(row.min, row.max));
    return;
  }
  for (const auto& row : count_keys) {
    if (row.key != key) continue;
    if (!set_once(reader, key, sampling.*row.field, to_signed(value, row.min, row.max))) {
      wrong_value(reader, key, value, "a whole number, at least " + std::to_string(row.min));
    }
    return;
  }
  if (key == "req") {
    if (!set_once(reader, key, generate.request, to_unsigned(value))) wrong_value(reader, key, value, "a request number");
  } else if (key == "seed") {
    if (!set_once(reader, key, sampling.seed, to_unsigned(value))) wrong_value(reader, key, value, "a whole number of 64 bits without a sign");
  } else if (key == "logprobs") {
    const auto count = to_signed(value, 0, max_logprobs);
    const std::optional<int> narrow = count ? std::optional<int>(static_cast<int>(*count)) : std::nullopt;
    if (!set_once(reader, key, sampling.logprobs, narrow)) wrong_value(reader, key, value, "a whole number from 0 to 20");
  } else if (key == "logit_bias") {
    if (!sampling.logit_bias.empty()) reader.fail("logit_bias stands twice");
    // Bounded by the line's own cap.
    if (!read_id_numbers(value, max_line_to_child_bytes, sampling.logit_bias)) wrong_value(reader, key, value, "a list id:number,...");
  } else if (key == "grammar") {
    read_grammar(reader, value, sampling);
  } else if (key == "grammar_after") {
    if (!set_once(reader, key, sampling.grammar_after, to_token_id(value))) wrong_value(reader, key, value, "a token id");
  } else if (key == "force_at") {
    read_force_at(reader, value, sampling);
  } else if (key == "force_unless") {
    if (!set_once(reader, key, force_unless, to_token_id(value))) wrong_value(reader, key, value, "a token id");
  } else {
    read_other_key(reader, key, value, generate);
  }
}

// Keys that mean nothing without another one; they may stand in any order.
void join_keys(FieldReader& reader, std::optional<TokenId> force_unless, Sampling& sampling) {
  if (sampling.grammar_after && sampling.grammar.empty()) reader.fail("grammar_after without grammar");
  if (force_unless && !sampling.force_at) reader.fail("force_unless without force_at");
  if (sampling.force_at) sampling.force_at->unless = force_unless;
}

void read_ids(FieldReader& reader, std::string_view list, std::vector<TokenId>& ids) {
  ids.reserve(list.size() / 4);
  for_each_element(list, [&](std::string_view element) {
    const auto id = to_token_id(element);
    if (!id) {
      reader.fail("prompt id " + std::to_string(ids.size() + 1) + " '" + printable(element, 40) + "' is not a token id (0 to 2147483647)");
      return false;
    }
    ids.push_back(*id);
    return true;
  });
}

enum class Embeddings { none, file };

Result<EngineCommand> parse_generate(FieldReader& reader, Embeddings embeddings) {
  Generate generate;
  generate.max_new = reader.count("max_new");
  std::optional<TokenId> force_unless;
  std::string_view word = reader.next();
  for (; !reader.failed(); word = reader.next()) {
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos) break;
    if (equals == 0) reader.fail("'" + printable(word, 40) + "' has no key before '='");
    if (!reader.failed()) read_key(reader, word.substr(0, equals), word.substr(equals + 1), generate, force_unless);
  }
  if (!reader.failed()) join_keys(reader, force_unless, generate.sampling);
  if (embeddings == Embeddings::file && !reader.failed()) {
    auto path = percent_decode(word);
    if (word.empty()) {
      reader.fail("the embeddings file is missing");
    } else if (!path) {
      reader.fail("embeddings file: " + path.error());
    } else if (path->find('\0') != std::string::npos) {
      reader.fail("the embeddings file's name holds a NUL byte");
    } else {
      generate.embeddings_file = std::move(path).value();
    }
    word = reader.next();
  }
  if (!reader.failed() && word.empty()) reader.fail("the prompt's ids are missing");
  if (!reader.failed()) read_ids(reader, word, generate.ids);
  if (!reader.failed() && !reader.at_end()) reader.fail("'" + printable(reader.remainder(), 40) + "' after the prompt's ids");
  if (reader.failed()) return reader.failure();
  return EngineCommand(std::move(generate));
}

constexpr std::array<std::pair<std::string_view, Pooling>, 3> poolings = {{{"mean", Pooling::mean}, {"cls", Pooling::cls}, {"last", Pooling::last}}};

Result<EngineCommand> parse_embed(FieldReader& reader) {
  Embed embed;
  bool pooled = false;
  std::string_view word = reader.next();
  for (; word.find('=') != std::string_view::npos && !reader.failed(); word = reader.next()) {
    if (word.starts_with("req=")) {
      if (!set_once(reader, "req", embed.request, to_unsigned(word.substr(4)))) wrong_value(reader, "req", word.substr(4), "a request number");
    } else if (word.starts_with("pool=")) {
      for (const auto& [name, pool] : poolings) {
        if (word.substr(5) != name) continue;
        embed.pool = pool;
        pooled = true;
      }
      if (!pooled) wrong_value(reader, "pool", word.substr(5), "mean, cls or last");
    }
  }
  if (!reader.failed() && !pooled) reader.fail("pool= is missing");
  if (!reader.failed() && word.empty()) reader.fail("the ids are missing");
  if (!reader.failed()) read_ids(reader, word, embed.ids);
  if (!reader.failed() && !reader.at_end()) reader.fail("'" + printable(reader.remainder(), 40) + "' after the ids");
  if (reader.failed()) return reader.failure();
  return EngineCommand(std::move(embed));
}

Result<EngineCommand> parse_stop(FieldReader& reader) {
  Stop stop;
  if (!reader.at_end()) {
    const std::string_view word = reader.next();
    stop.request = to_unsigned(word);
    if (!stop.request) reader.fail("'" + printable(word, 40) + "' is not a request number");
  }
  if (!reader.at_end()) reader.fail("'" + printable(reader.remainder(), 40) + "' after the request number");
  if (reader.failed()) return reader.failure();
  return EngineCommand(stop);
}

void append_key(std::string& out, std::string_view key) {
  out += ' ';
  out += key;
  out += '=';
}

void append_ids(std::string& out, const std::vector<TokenId>& ids, char separator) {
  out.reserve(out.size() + 7 * ids.size());
  for (const TokenId id : ids) {
    out += separator;
    append_integer(out, int64_t{id});
    separator = ',';
  }
}

void append_constraint(std::string& out, const Sampling& sampling) {
  if (!sampling.grammar.empty()) {
    append_key(out, "grammar");
    out += percent_encode(sampling.grammar);
  }
  if (sampling.grammar_after) {
    append_key(out, "grammar_after");
    append_integer(out, int64_t{*sampling.grammar_after});
  }
  if (!sampling.force_at) return;
  append_key(out, "force_at");
  append_integer(out, sampling.force_at->tokens);
  append_ids(out, sampling.force_at->ids, ':');
  if (sampling.force_at->unless) {
    append_key(out, "force_unless");
    append_integer(out, int64_t{*sampling.force_at->unless});
  }
}

void append_sampling(std::string& out, const Sampling& sampling) {
  for (const auto& row : number_keys) {
    if (!(sampling.*row.field)) continue;
    append_key(out, row.key);
    append_number(out, *(sampling.*row.field));
  }
  for (const auto& row : count_keys) {
    if (!(sampling.*row.field)) continue;
    append_key(out, row.key);
    append_integer(out, *(sampling.*row.field));
  }
  if (sampling.seed) {
    append_key(out, "seed");
    append_integer(out, *sampling.seed);
  }
  if (sampling.logprobs) {
    append_key(out, "logprobs");
    append_integer(out, int64_t{*sampling.logprobs});
  }
  if (!sampling.logit_bias.empty()) {
    append_key(out, "logit_bias");
    append_id_numbers(out, sampling.logit_bias);
  }
  append_constraint(out, sampling);
}

void append_generate(std::string& out, const Generate& generate) {
  out += generate.embeddings_file.empty() ? "GEN " : "GENI ";
  append_integer(out, generate.max_new);
  if (generate.request) {
    append_key(out, "req");
    append_integer(out, *generate.request);
  }
  append_sampling(out, generate.sampling);
  for (const auto& [key, value] : generate.others) {
    append_key(out, key);
    out += percent_encode(value);
  }
  if (!generate.embeddings_file.empty()) out += " " + percent_encode_key(generate.embeddings_file);
  append_ids(out, generate.ids, ' ');
}

void append_embed(std::string& out, const Embed& embed) {
  out += "EMB";
  if (embed.request) {
    append_key(out, "req");
    append_integer(out, *embed.request);
  }
  append_key(out, "pool");
  for (const auto& [name, pool] : poolings) {
    if (pool == embed.pool) out += name;
  }
  append_ids(out, embed.ids, ' ');
}

}  // namespace

Result<EngineCommand> parse_engine_command(std::string_view line) {
  if (line.size() > max_line_to_child_bytes) {
    return Error{"a command of " + std::to_string(line.size()) + " bytes is over the limit of " + std::to_string(max_line_to_child_bytes)};
  }
  FieldReader reader(line);
  const std::string_view word = reader.next();
  reader.line_word(word);
  if (word == "GEN") return parse_generate(reader, Embeddings::none);
  if (word == "GENI") return parse_generate(reader, Embeddings::file);
  if (word == "EMB") return parse_embed(reader);
  if (word == "STOP") return parse_stop(reader);
  if (word == "QUIT") {
    if (reader.at_end()) return EngineCommand(Quit{});
    reader.fail("it takes no field");
    return reader.failure();
  }
  if (word.empty()) return Error{"empty command"};
  return Error{"unknown command '" + printable(word, 40) + "': \"" + printable(line) + "\""};
}

std::string encode(const EngineCommand& command) {
  std::string out;
  if (const auto* generate = std::get_if<Generate>(&command)) {
    append_generate(out, *generate);
  } else if (const auto* embed = std::get_if<Embed>(&command)) {
    append_embed(out, *embed);
  } else if (const auto* stop = std::get_if<Stop>(&command)) {
    out += "STOP";
    if (stop->request) {
      out += ' ';
      append_integer(out, *stop->request);
    }
  } else {
    out += "QUIT";
  }
  out += '\n';
  return out;
}

}  // namespace vigil::protocol
