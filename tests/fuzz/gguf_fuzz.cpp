// Fuzz target: bytes taken as a model file (header, vocabulary), then as text through the tokenizer they describe.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "engine/gguf/tokenizer.hpp"

using namespace vigil::gguf;

namespace {

void require(bool truth) {
  if (!truth) std::abort();
}

// Small caps keep one run short; the code is the same.
HeaderLimits small_limits() {
  HeaderLimits limits;
  limits.array_elements = 1u << 14;
  limits.total_elements = 1u << 15;
  return limits;
}

void check_file(const File& file, uint64_t size) {
  for (const Tensor& tensor : file.tensors()) {
    require(file.tensor(tensor.name) == &tensor);
    require(tensor.elements() >= 1 && tensor.rows() * tensor.cols() == tensor.elements());
    require(tensor.offset % file.alignment() == 0);
    require(file.data_offset() <= size && tensor.offset <= size - file.data_offset());
    require(tensor.bytes <= size - file.data_offset() - tensor.offset);
  }
}

void check_tokenizer(const Vocabulary& vocabulary, std::string_view text) {
  auto made = make_tokenizer(vocabulary);
  require(made.ok());
  for (const auto markers : {Tokenizer::Markers::plain, Tokenizer::Markers::special}) {
    const auto ids = (*made)->encode(text, markers, Tokenizer::Bos::as_model);
    for (const TokenId id : ids) require(id >= 0 && id < vocabulary.size());
    const std::string back = (*made)->decode(ids);
    // What the round trip does not promise: U+2581 comes back as a blank, a vocabulary without byte tokens loses bytes, markers vanish.
    bool exact = markers == Tokenizer::Markers::plain && text.find("\xE2\x96\x81") == std::string_view::npos;
    for (unsigned byte = 0; byte < 256; ++byte) exact = exact && vocabulary.byte_token(static_cast<uint8_t>(byte)).has_value();
    if (exact) require(back == text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  const auto source = from_memory({begin, begin + size});
  auto file = File::parse(*source, small_limits());
  if (!file) {
    require(!file.error().empty());
    return 0;
  }
  check_file(*file, size);
  auto vocabulary = Vocabulary::from(*file);
  if (!vocabulary) {
    require(!vocabulary.error().empty());
    return 0;
  }
  constexpr size_t most_text = 512;  // bytes: the end of the file, which mutations reach best
  const size_t length = size < most_text ? size : most_text;
  check_tokenizer(*vocabulary, {reinterpret_cast<const char*>(data) + size - length, length});
  return 0;
}
