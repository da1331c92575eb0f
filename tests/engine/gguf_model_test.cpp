// The writer's encodings, and the tests' random model: the tool still makes the committed file, and it is a file an engine can use.
#include <catch2/catch.hpp>

#include <sys/wait.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "engine/gguf/tokenizer.hpp"
#include "tests/engine/gguf_support.hpp"

using namespace vigil::gguf;
using namespace vigil::gguf::test;

namespace {

const std::string committed = std::string(VIGIL_SOURCE_DIR) + "/tests/models/random.gguf";

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

int run(const std::string& arguments) {
  const std::string command = "'" + std::string(VIGIL_BIN_DIR) + "/make_model' " + arguments + " 2>/dev/null";
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("half precision: exact values, rounding to even, the ends") {
  CHECK(half_bits(0.0f) == 0x0000);
  CHECK(half_bits(-0.0f) == 0x8000);
  CHECK(half_bits(1.0f) == 0x3c00);
  CHECK(half_bits(-2.0f) == 0xc000);
  CHECK(half_bits(65504.0f) == 0x7bff);
  CHECK(half_bits(65519.0f) == 0x7bff);
  CHECK(half_bits(65520.0f) == 0x7c00);
  CHECK(half_bits(std::ldexp(1.0f, -14)) == 0x0400);
  CHECK(half_bits(std::ldexp(1.0f, -24)) == 0x0001);
  CHECK(half_bits(std::ldexp(1.0f, -25)) == 0x0000);  // half way: to even
  CHECK(half_bits(std::ldexp(1.5f, -24)) == 0x0002);
  CHECK(half_bits(1.0f + std::ldexp(1.0f, -11)) == 0x3c00);
  CHECK(half_bits(1.0f + std::ldexp(3.0f, -11)) == 0x3c02);
  CHECK(half_bits(0.1f) == 0x2e66);
  CHECK((half_bits(std::nanf("")) & 0x7fff) > 0x7c00);
}

TEST_CASE("Q8_0 blocks: the largest value becomes 127, the rest scale with it") {
  std::vector<float> values(64, 0.0f);
  values[0] = 127.0f;
  values[1] = -63.6f;
  const auto bytes = q8_0_bytes(values);
  REQUIRE(bytes.size() == 68);
  CHECK(bytes[0] == std::byte{0x00});
  CHECK(bytes[1] == std::byte{0x3c});  // a scale of 1
  CHECK(static_cast<int8_t>(bytes[2]) == 127);
  CHECK(static_cast<int8_t>(bytes[3]) == -64);
  for (size_t i = 34; i < 68; ++i) CHECK(bytes[i] == std::byte{0});
}

TEST_CASE("make_model gives the committed file byte for byte, and another one for another seed") {
  const auto out = std::filesystem::temp_directory_path() / ("vigil-make-model-" + std::to_string(std::rand()) + ".gguf");
  const std::string quoted = "'" + out.string() + "'";
  REQUIRE(run(quoted) == 0);
  const std::string made = content(out.string());
  CHECK(made.size() <= 1'000'000);
  CHECK(made == content(committed));
  REQUIRE(run(quoted + " --seed 2") == 0);
  CHECK(content(out.string()) != made);
  CHECK(content(out.string()).size() == made.size());
  std::filesystem::remove(out);
  CHECK(run("") == 2);
  CHECK(run(quoted + " --seed x") == 2);
  CHECK(run(quoted + " extra") == 2);
  CHECK(run("/nonexistent-folder/out.gguf") == 1);
}

TEST_CASE("the tests' random model has a vocabulary for any text and every tensor of its blocks") {
  auto source = open_pread(committed);
  REQUIRE(source);
  auto file = File::parse(**source);
  REQUIRE(file);
  auto vocabulary = Vocabulary::from(*file);
  REQUIRE(vocabulary);
  CHECK(file->string("general.architecture").value() == "llama");
  CHECK(file->integer("llama.vocab_size").value() == vocabulary->size());
  CHECK(file->tensor("token_embd.weight")->rows() == vocabulary->size());
  CHECK(file->tensor("output.weight")->rows() == vocabulary->size());
  CHECK(file->tensors().size() == 3 + 9 * static_cast<size_t>(file->integer("llama.block_count").value()));
  const auto end = vocabulary->find("<|im_end|>");
  REQUIRE(end);
  CHECK(vocabulary->eos() == end);
  CHECK(vocabulary->ends(*end));

  auto made = make_tokenizer(*vocabulary);
  REQUIRE(made);
  const Tokenizer& tokenizer = **made;
  const std::string text = "Hello, there! \xC3\xA9 \n  two people";
  CHECK(tokenizer.decode(tokenizer.encode(text, Tokenizer::Markers::plain, Tokenizer::Bos::as_model)) == text);
  for (const char* word : {"the", "people", "hello", "which", "there"}) {
    INFO(word);
    CHECK(tokenizer.encode(word, Tokenizer::Markers::plain, Tokenizer::Bos::none).size() == 1);  // its merges are all there
  }
  CHECK(tokenizer.encode("<|im_start|>user\n", Tokenizer::Markers::special, Tokenizer::Bos::none).front() == vocabulary->find("<|im_start|>"));
}

TEST_CASE("the bundled model's file says what it is, fits its size, and has a token for any text and for pictures") {
  const std::string models = std::string(VIGIL_SOURCE_DIR) + "/models/", bundled = models + "vigil-tiny.gguf", projector = models + "vigil-tiny-mmproj.gguf";
  CHECK(std::filesystem::file_size(bundled) + std::filesystem::file_size(projector) <= 6'000'000);
  auto source = open_pread(bundled);
  REQUIRE(source);
  auto file = File::parse(**source);
  REQUIRE(file);
  CHECK(file->string("general.name").value() == "vigil-tiny");
  CHECK(file->string("general.license").value() == "mit");
  CHECK(file->string("general.architecture").value() == "qwen3");
  CHECK(file->string("tokenizer.chat_template").value().find("<tool_call>") != std::string::npos);
  auto vocabulary = Vocabulary::from(*file);
  REQUIRE(vocabulary);
  CHECK(file->tensor("token_embd.weight")->rows() == vocabulary->size());
  CHECK(vocabulary->eos() == vocabulary->find("<|im_end|>"));
  CHECK_FALSE(vocabulary->add_bos());
  for (const char* marker : {"<|image_pad|>", "<|vision_start|>", "<|vision_end|>"}) {
    INFO(marker);
    const auto id = vocabulary->find(marker);
    REQUIRE(id);
    CHECK(vocabulary->kind(*id) == TokenKind::control);
  }
  auto made = make_tokenizer(*vocabulary);
  REQUIRE(made);
  std::string text;
  for (int byte = 1; byte < 256; ++byte) text.push_back(static_cast<char>(byte));
  text += "Hello, there! \xC3\xA9 \n  two people";
  CHECK((*made)->decode((*made)->encode(text, Tokenizer::Markers::plain, Tokenizer::Bos::none)) == text);
  auto projector_source = open_pread(projector);
  REQUIRE(projector_source);
  auto projector_file = File::parse(**projector_source);
  REQUIRE(projector_file);
  CHECK(projector_file->string("general.license").value() == "mit");
  CHECK(projector_file->integer("clip.vision.projection_dim").value() == file->integer("qwen3.embedding_length").value());
}
