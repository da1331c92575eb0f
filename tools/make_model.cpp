// make_model OUT.gguf [--seed N]: a small llama-type model with seeded random weights and a real vocabulary, for tests that want an engine
// that rambles (tests/models/random.gguf). With --arch, a random model of that architecture, weight type and size under the same vocabulary
// (tools/random_model).
// The same seed gives the same bytes on every machine: integer random numbers, and only float operations that IEEE 754
// fixes. It knows no language; it is not trained here.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf/vocabulary.hpp"
#include "engine/gguf/writer.hpp"
#include "tools/random_model.hpp"

namespace {

using namespace vigil::gguf;

constexpr uint32_t width = 128, blocks = 3, heads = 4, kv_heads = 2, head_width = width / heads, inner_width = 384, context = 2048;
constexpr uint64_t default_seed = 1;

constexpr std::string_view words[] = {
    "the",   "of",    "and",   "to",    "in",    "is",    "that",  "it",    "was",   "for",   "on",    "are",   "as",    "with",  "his",
    "they",  "at",    "be",    "this",  "have",  "from",  "or",    "one",   "had",   "by",    "but",   "not",   "what",  "all",   "were",
    "we",    "when",  "your",  "can",   "said",  "there", "use",   "an",    "each",  "which", "she",   "do",    "how",   "their", "if",
    "will",  "up",    "other", "about", "out",   "many",  "then",  "them",  "these", "so",    "some",  "her",   "would", "make",  "like",
    "him",   "into",  "time",  "has",   "look",  "two",   "more",  "write", "go",    "see",   "no",    "way",   "could", "people", "my",
    "than",  "first", "been",  "call",  "who",   "its",   "now",   "find",  "long",  "down",  "day",   "did",   "get",   "come",  "made",
    "may",   "part",  "hello", "you",   "me",    "he",    "a",     "i",     "us",    "say",   "tell",  "help",  "good",  "word",  "name"};
constexpr std::string_view endings[] = {"in", "ing", "ed", "er", "es", "ly", "al", "en", "re", "st", "ion", "th"};

// splitmix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
  }

  // Near normal, mean 0, standard deviation 1: the sum of four 16-bit numbers, an exact integer, scaled once. Sines and logarithms would
  // differ between C libraries.
  float normal() {
    const uint64_t bits = next();
    const auto sum = static_cast<int32_t>((bits & 0xffff) + ((bits >> 16) & 0xffff) + ((bits >> 32) & 0xffff) + (bits >> 48));
    constexpr float scale = 1.0f / 37837.0f;  // sqrt(4 / 12) * 65536
    return static_cast<float>(sum - 131070) * scale;
  }

 private:
  uint64_t state_;
};

struct Piece {
  std::string text;
  TokenKind kind;
  float leaning;  // see output_weights
};

constexpr float leaning_word = 1.0f, leaning_letter = -0.6f, leaning_fragment = -1.2f, leaning_byte = -6.0f, leaning_end = 1.4f;

// <unk> <s> </s>, the 256 bytes, the printable characters, the words with every beginning of theirs (SPM merges two neighbours at a time, so
// a word needs them), word endings, and the two ChatML markers.
std::vector<Piece> make_pieces() {
  const std::string blank = "\xE2\x96\x81";  // U+2581
  std::vector<Piece> pieces = {{"<unk>", TokenKind::unknown, leaning_byte}, {"<s>", TokenKind::control, leaning_byte},
                               {"</s>", TokenKind::control, leaning_byte}};
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "<0x%02X>", byte);
    pieces.push_back({text.data(), TokenKind::byte, leaning_byte});
  }
  pieces.push_back({blank, TokenKind::normal, leaning_letter});
  for (char c = '!'; c <= '~'; ++c) pieces.push_back({std::string(1, c), TokenKind::normal, leaning_letter});
  const std::set<std::string_view> whole(std::begin(words), std::end(words));
  std::set<std::string_view> known;
  for (size_t length = 1; length <= 6; ++length) {
    for (const std::string_view word : words) {
      const std::string_view beginning = word.substr(0, length);
      if (beginning.size() < length || !known.insert(beginning).second) continue;
      pieces.push_back({blank + std::string(beginning), TokenKind::normal, whole.contains(beginning) ? leaning_word : leaning_fragment});
    }
  }
  for (const std::string_view ending : endings) pieces.push_back({std::string(ending), TokenKind::normal, leaning_letter});
  pieces.push_back({"<|im_start|>", TokenKind::control, leaning_byte});
  pieces.push_back({"<|im_end|>", TokenKind::control, leaning_end});
  return pieces;
}

// A matrix [columns, rows]; row 0 stays zero if asked, which keeps residual dimension 0 what the embedding made it.
enum class FirstRow { random, zero };

std::vector<float> matrix(Random& random, uint32_t columns, uint32_t rows, float deviation, FirstRow first) {
  std::vector<float> values(size_t{columns} * rows);
  for (float& value : values) value = random.normal() * deviation;
  if (first == FirstRow::zero) std::fill_n(values.begin(), columns, 0.0f);
  return values;
}

// Dimension 0 of the residual stream is the same for every token, so column 0 of the output matrix acts as a bias: the model leans towards
// words, away from single bytes, and ends its answers now and then.
constexpr float constant_component = 3.0f, output_deviation = 0.15f;

std::vector<float> embedding_weights(Random& random, uint32_t vocabulary) {
  auto values = matrix(random, width, vocabulary, 1.0f, FirstRow::random);
  for (uint32_t row = 0; row < vocabulary; ++row) values[size_t{row} * width] = constant_component;
  return values;
}

std::vector<float> output_weights(Random& random, const std::vector<Piece>& pieces) {
  auto values = matrix(random, width, static_cast<uint32_t>(pieces.size()), output_deviation, FirstRow::random);
  for (size_t row = 0; row < pieces.size(); ++row) values[row * width] = pieces[row].leaning;
  return values;
}

void put_vocabulary(Writer& out, const std::vector<Piece>& pieces) {
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<int32_t> kinds;
  size_t end = 0;
  for (const Piece& piece : pieces) {
    if (piece.text == "<|im_end|>") end = texts.size();
    scores.push_back(piece.kind == TokenKind::normal ? -static_cast<float>(texts.size()) : 0.0f);
    texts.push_back(piece.text);
    kinds.push_back(static_cast<int32_t>(piece.kind));
  }
  out.put_string("tokenizer.ggml.model", "llama");
  out.put_string("tokenizer.ggml.pre", "default");
  out.put_strings("tokenizer.ggml.tokens", texts);
  out.put_f32s("tokenizer.ggml.scores", scores);
  out.put_i32s("tokenizer.ggml.token_type", kinds);
  out.put_u32("tokenizer.ggml.bos_token_id", 1);
  out.put_u32("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(end));
  out.put_u32("tokenizer.ggml.eot_token_id", static_cast<uint32_t>(end));
  out.put_u32("tokenizer.ggml.unknown_token_id", 0);
  out.put_bool("tokenizer.ggml.add_bos_token", true);
  out.put_bool("tokenizer.ggml.add_eos_token", false);
  out.put_bool("tokenizer.ggml.add_space_prefix", true);
}

void put_metadata(Writer& out, const std::vector<Piece>& pieces) {
  out.put_string("general.architecture", "llama");
  out.put_string("general.type", "model");
  out.put_string("general.name", "vigil-random");
  out.put_string("general.description", "Random weights: a model for tests, not a trained one");
  out.put_string("general.license", "mit");
  out.put_u32("general.alignment", 32);
  out.put_u32("general.quantization_version", 2);
  out.put_u32("general.file_type", 7);  // mostly Q8_0
  out.put_u32("llama.context_length", context);
  out.put_u32("llama.embedding_length", width);
  out.put_u32("llama.block_count", blocks);
  out.put_u32("llama.feed_forward_length", inner_width);
  out.put_u32("llama.attention.head_count", heads);
  out.put_u32("llama.attention.head_count_kv", kv_heads);
  out.put_f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  out.put_u32("llama.rope.dimension_count", head_width);
  out.put_f32("llama.rope.freq_base", 10000.0f);
  out.put_u32("llama.vocab_size", static_cast<uint32_t>(pieces.size()));

  put_vocabulary(out, pieces);
}

Writer make_model(uint64_t seed) {
  Random random(seed);
  const auto pieces = make_pieces();
  const auto vocabulary = static_cast<uint32_t>(pieces.size());
  Writer out;
  put_metadata(out, pieces);
  const auto q8_0 = [&](const std::string& name, uint32_t columns, uint32_t rows, const std::vector<float>& values) {
    out.add_tensor(name, TensorType::q8_0, {columns, rows}, q8_0_bytes(values));
  };
  const auto norm = [&](const std::string& name) { out.add_tensor(name, TensorType::f32, {width}, f32_bytes(std::vector<float>(width, 1.0f))); };
  constexpr float from_width = 0.0883883f, from_inner = 0.0510310f;  // 1 / sqrt(128), 1 / sqrt(384): outputs as large as inputs

  q8_0("token_embd.weight", width, vocabulary, embedding_weights(random, vocabulary));
  for (uint32_t block = 0; block < blocks; ++block) {
    const std::string prefix = "blk." + std::to_string(block) + ".";
    norm(prefix + "attn_norm.weight");
    q8_0(prefix + "attn_q.weight", width, width, matrix(random, width, width, from_width, FirstRow::random));
    q8_0(prefix + "attn_k.weight", width, kv_heads * head_width, matrix(random, width, kv_heads * head_width, from_width, FirstRow::random));
    q8_0(prefix + "attn_v.weight", width, kv_heads * head_width, matrix(random, width, kv_heads * head_width, from_width, FirstRow::random));
    q8_0(prefix + "attn_output.weight", width, width, matrix(random, width, width, from_width, FirstRow::zero));
    norm(prefix + "ffn_norm.weight");
    q8_0(prefix + "ffn_gate.weight", width, inner_width, matrix(random, width, inner_width, from_width, FirstRow::random));
    q8_0(prefix + "ffn_up.weight", width, inner_width, matrix(random, width, inner_width, from_width, FirstRow::random));
    q8_0(prefix + "ffn_down.weight", inner_width, width, matrix(random, inner_width, width, from_inner, FirstRow::zero));
  }
  norm("output_norm.weight");
  q8_0("output.weight", width, vocabulary, output_weights(random, pieces));
  return out;
}

std::optional<int64_t> number_of(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::optional<TensorType> type_of(std::string_view name) {
  for (uint32_t number = 0; number < 64; ++number) {
    const auto info = type_info(number);
    if (!info || info->name.size() != name.size()) continue;
    const auto same = [](char a, char b) { return std::toupper(static_cast<unsigned char>(a)) == std::toupper(static_cast<unsigned char>(b)); };
    if (std::equal(name.begin(), name.end(), info->name.begin(), same)) return info->type;
  }
  return std::nullopt;
}

vigil::Result<Writer> make_random(vigil::tools::RandomModel model) {
  std::vector<Piece> pieces = make_pieces();
  if (model.vocabulary < static_cast<int64_t>(pieces.size())) model.vocabulary = static_cast<int64_t>(pieces.size());
  while (static_cast<int64_t>(pieces.size()) < model.vocabulary) {
    pieces.push_back({"<unused" + std::to_string(pieces.size()) + ">", TokenKind::unused, 0});
  }
  Writer out;
  if (vigil::Result<void> added = vigil::tools::add_random_model(model, out); !added) return vigil::Error{added.error()};
  put_vocabulary(out, pieces);
  return out;
}

constexpr char usage[] =
    "usage: make_model OUT.gguf [--seed N]\n"
    "       make_model OUT.gguf --arch NAME [--type Q8_0] [--layers N] [--dim N] [--ff N] [--heads N] [--kv N] [--head-dim N] [--vocab N]\n"
    "                  [--context N] [--window N] [--experts N] [--used N] [--tied] [--mixed] [--seed N]\n"
    "Random weights: with --arch of any architecture and weight type that the engine computes, for tests and for measuring speed.\n";

}  // namespace

int main(int argc, char** argv) {
  const char* path = nullptr;
  bool good = true, random = false;
  uint64_t seed = default_seed;
  vigil::tools::RandomModel model;
  model.width = model.ff = 256;
  model.head_dim = 64;
  model.context = 4096;
  const std::pair<std::string_view, int64_t*> numbers[] = {
      {"--layers", &model.layers}, {"--dim", &model.width}, {"--ff", &model.ff}, {"--heads", &model.heads}, {"--kv", &model.kv_heads},
      {"--head-dim", &model.head_dim}, {"--vocab", &model.vocabulary}, {"--context", &model.context}, {"--window", &model.window},
      {"--experts", &model.experts}, {"--used", &model.experts_used}};
  for (int i = 1; i < argc && good; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--tied") {
      model.tied = random = true;
    } else if (argument == "--mixed") {
      model.mixed = random = true;
    } else if (!argument.starts_with("-")) {
      good = path == nullptr;
      path = argv[i];
    } else if (i + 1 == argc) {
      good = false;
    } else if (argument == "--seed") {
      const char* text = argv[++i];
      const char* end = text + std::strlen(text);
      const auto parsed = std::from_chars(text, end, seed);
      good = parsed.ec == std::errc() && parsed.ptr == end;
    } else if (argument == "--arch") {
      model.architecture = argv[++i];
      random = true;
    } else if (argument == "--type") {
      const auto type = type_of(argv[++i]);
      good = type.has_value();
      if (good) model.type = *type;
    } else {
      const auto* entry = std::find_if(std::begin(numbers), std::end(numbers), [&](const auto& known) { return known.first == argument; });
      const auto value = number_of(argv[++i]);
      good = entry != std::end(numbers) && value.has_value() && *value > 0;
      if (good) *entry->second = *value;
    }
  }
  if (!good || path == nullptr) {
    std::fputs(usage, stderr);
    return 2;
  }
  model.seed = seed;
  vigil::Result<Writer> made = random ? make_random(model) : vigil::Result<Writer>(make_model(seed));
  const vigil::Result<void> written = made ? made->write(path) : vigil::Result<void>(vigil::Error{made.error()});
  if (!written) {
    std::fprintf(stderr, "make_model: %s\n", written.error().c_str());
    return 1;
  }
  return 0;
}
