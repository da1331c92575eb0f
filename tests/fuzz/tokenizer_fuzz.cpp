// Fuzz target: bytes as typed text through every pre-tokenizer and tokenizer over small good vocabularies, and as merges of a hostile one.
// Not here: bytes as a whole model file (gguf_fuzz).
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>

#include "engine/gguf/byte_letters.hpp"
#include "engine/gguf/characters.hpp"
#include "engine/gguf/pre_tokenizer.hpp"
#include "engine/gguf/tokenizer.hpp"
#include "engine/gguf/writer.hpp"

using namespace vigil::gguf;

namespace {

void require(bool truth) {
  if (!truth) std::abort();
}

std::string letters_of(std::string_view bytes) {
  std::string letters;
  for (const char c : bytes) append_utf8(letters, byte_letters[static_cast<unsigned char>(c)]);
  return letters;
}

struct Loaded {
  Vocabulary vocabulary;
  std::unique_ptr<Tokenizer> tokenizer;
};

std::unique_ptr<Loaded> load(const Writer& writer) {
  auto file = File::parse(*from_memory(writer.bytes()));
  require(file.ok());
  auto vocabulary = Vocabulary::from(*file);
  if (!vocabulary) {
    require(!vocabulary.error().empty());
    return nullptr;
  }
  auto loaded = std::make_unique<Loaded>(Loaded{std::move(*vocabulary), nullptr});
  loaded->tokenizer = std::move(make_tokenizer(loaded->vocabulary).value());
  return loaded;
}

Writer byte_level(std::string_view pre, const std::vector<std::string>& more, const std::vector<std::string>& merges) {
  std::vector<std::string> pieces;
  for (const uint32_t letter : byte_letters) append_utf8(pieces.emplace_back(), letter);
  std::vector<int32_t> kinds(pieces.size(), 1);
  for (const std::string& piece : more) {
    pieces.push_back(piece);
    kinds.push_back(piece.starts_with('<') ? 4 : 1);
  }
  Writer out;
  out.put_string("tokenizer.ggml.model", "gpt2");
  out.put_string("tokenizer.ggml.pre", pre);
  out.put_strings("tokenizer.ggml.tokens", pieces);
  out.put_i32s("tokenizer.ggml.token_type", kinds);
  out.put_strings("tokenizer.ggml.merges", merges);
  return out;
}

void check_words(const PreTokenizer& pre_tokenizer, std::string_view text) {
  const auto characters = characters_of(text);
  size_t bytes = 0, last = 0;
  for (const Character character : characters) bytes += character.bytes();
  require(bytes == text.size());
  for (const uint32_t end : split_words(pre_tokenizer, characters)) {
    require(end > last);
    last = end;
  }
  require(last == characters.size());
}

void check_text(const Loaded& loaded, std::string_view text) {
  for (const auto markers : {Tokenizer::Markers::typed, Tokenizer::Markers::plain, Tokenizer::Markers::special}) {
    const auto ids = loaded.tokenizer->encode(text, markers, Tokenizer::Bos::whole_text);
    for (const TokenId id : ids) {
      require(id >= 0 && id < loaded.vocabulary.size());
      require(markers == Tokenizer::Markers::special || loaded.vocabulary.kind(id) != TokenKind::control);
    }
    if (markers != Tokenizer::Markers::special) require(loaded.tokenizer->decode(ids) == text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<std::unique_ptr<Loaded>> tokenizers = [] {
    std::vector<std::unique_ptr<Loaded>> all;
    const std::string names = known_pre_tokenizers();
    for (size_t at = 0; at < names.size();) {
      const size_t end = std::min(names.find(", ", at), names.size());
      const std::string name = names.substr(at, end - at);
      at = end + 2;
      if (!find_pre_tokenizer(name)->byte_level) continue;
      all.push_back(load(byte_level(name, {"ab", "abab", letters_of("  "), letters_of(" a"), "<think>", "<|im_end|>"},
                                    {"a b", "ab ab", letters_of(" ") + " " + letters_of(" "), letters_of(" ") + " a"})));
      require(all.back() != nullptr);
    }
    return all;
  }();
  if (size < 1) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Loaded& chosen = *tokenizers[data[0] % tokenizers.size()];
  check_words(*chosen.vocabulary.pre_tokenizer(), text);
  check_text(chosen, text);

  // Now and then, since it is slow: the text as pieces and merges, a line each; mostly refused, and what is accepted must hold.
  if (data[0] % 16 != 15) return 0;
  std::vector<std::string> pieces, merges;
  for (size_t at = 0; at < text.size() && pieces.size() < 32;) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = letters_of(text.substr(at, end - at));
    pieces.push_back(line);
    if (line.size() >= 2) merges.push_back(line.substr(0, 1) + " " + line.substr(1));
    at = end + 1;
  }
  if (const auto hostile = load(byte_level("llama-bpe", pieces, merges))) {
    require(hostile->tokenizer->decode(hostile->tokenizer->encode(text, Tokenizer::Markers::typed, Tokenizer::Bos::none)) == text);
  }
  return 0;
}
