// Model files, lying files and prompts of the shared data, which another implementation made.
#include <catch2/catch.hpp>

#include <unistd.h>

#include <map>
#include <set>

#include "tests/shared/vocabulary_support.hpp"

using namespace vigil::gguf;
using namespace vigil::gguf::test;
using Catch::Matchers::Contains;

TEST_CASE("every golden model and vocabulary file parses") {
  size_t parsed = 0;
  for (const char* folder : {"golden", "tokenizers", "models"}) {
    for (const auto& path : gguf_files(shared / folder)) {
      auto file = parse(path);
      INFO(path << ": " << (file ? "" : file.error()));
      CHECK(file);
      ++parsed;
    }
  }
  CHECK(parsed >= 50);
}

TEST_CASE("model files that lie are refused with an error that names the place") {
  const auto out = std::filesystem::temp_directory_path() / ("vigil-e1-" + std::to_string(::getpid()));
  const auto script = std::filesystem::path(VIGIL_SOURCE_DIR) / "tests" / "shared" / "make_e1.py";
  CHECK(output_of("python3 -B '" + script.string() + "' '" + shared.string() + "' '" + out.string() + "'") == "34\n");
  const std::map<std::string, std::string> expected = {
      {"e1_01_empty", "empty"},
      {"e1_02_magic_only", "version"},
      {"e1_03_version_99", "version 99"},
      {"e1_04_key_length_max", "metadata"},
      {"e1_05_key_length_allones", "metadata"},
      {"e1_06_kv_count_allones", "metadata count"},
      {"e1_07_tensor_count_2p62", "tensor count"},
      {"e1_08_string_array_2p40", "key 'a'"},
      {"e1_09_u8_array_2p63", "key 'a'"},
      {"e1_10_arrays_in_arrays", "key 'a': arrays inside arrays"},
      {"e1_11_empty_key", "key is empty"},
      {"e1_20_dim_zero", "tensor 'token_embd.weight': dimension 1 is 0"},
      {"e1_21_five_dims", "tensor 'token_embd.weight': has 5 dimensions"},
      {"e1_22_dims_wrap_64bit", "tensor 'token_embd.weight': the dimensions multiply"},
      {"e1_23_dim_negative", "tensor 'token_embd.weight': dimension 1 is -512"},
      {"e1_24_type_200", "tensor 'token_embd.weight': type 200"},
      {"e1_25_type_4_removed", "tensor 'token_embd.weight': type 4"},
      {"e1_26_row_not_multiple_of_block", "tensor 'blk.0.attn_norm.weight': rows of 63"},
      {"e1_27_offset_past_end", "lie outside"},
      {"e1_28_offset_wraps", "lie outside"},
      {"e1_29_offset_unaligned", "tensor 'blk.0.attn_norm.weight': offset 131073 is not a multiple of 32"},
      {"e1_30_alignment_zero", "key 'general.alignment': 0"},
      {"e1_31_alignment_three", "key 'general.alignment': 3"},
      {"e1_32_alignment_is_string", "key 'general.alignment'"},
      {"e1_33_data_cut_in_half", "lie outside"},
      {"e1_34_data_one_byte_short", "lie outside"},
      {"e1_35_no_data_at_all", "lie outside"},
      {"e1_39_same_tensor_twice", "tensor 'token_embd.weight': comes twice"},
      {"e1_42_tensor_name_64k", "tensor_name_bytes"},
  };
  // Honest headers about models that cannot be: the engine's model room refuses these.
  const std::set<std::string> model_faults = {"e1_36_block_count_huge", "e1_37_head_count_zero", "e1_38_head_count_is_float", "e1_40_tensor_missing",
                                              "e1_41_unknown_architecture"};
  size_t seen = 0;
  for (const auto& path : gguf_files(out)) {
    const std::string name = path.stem().string();
    auto file = parse(path);
    INFO(name);
    ++seen;
    if (model_faults.contains(name)) {
      CHECK(file);
      continue;
    }
    REQUIRE(expected.contains(name));
    REQUIRE_FALSE(file);
    CHECK_THAT(file.error(), Contains(expected.at(name)));
  }
  CHECK(seen == 34);
  std::filesystem::remove_all(out);
}

TEST_CASE("prompts of the greedy runs give their ids") {
  const auto greedy = nlohmann::json::parse(content(shared / "models" / "stories260K-greedy.json"));
  const Loaded stories(shared / "models" / "stories260K-f32.gguf");
  REQUIRE(greedy.at("rows").size() >= 1);
  for (const auto& row : greedy["rows"]) {
    const auto prompt = row.at("prompt").get<std::string>();
    INFO(prompt);
    CHECK(stories.tokenizer->encode(prompt, Markers::plain, Bos::as_model) == row.at("prompt_tokens").get<Ids>());
  }
  const auto golden = nlohmann::json::parse(content(shared / "golden" / "arch-llama.json"));
  const Loaded arch(shared / "golden" / "arch-llama.gguf");
  CHECK(arch.tokenizer->encode(golden.at("prompt").get<std::string>(), Markers::plain, Bos::as_model) == golden.at("tokens").get<Ids>());
  const auto gemma = nlohmann::json::parse(content(shared / "golden" / "arch-gemma3.json"));
  const Loaded no_prefix(shared / "golden" / "arch-gemma3.gguf");
  CHECK(no_prefix.tokenizer->encode(gemma.at("prompt").get<std::string>(), Markers::plain, Bos::as_model) == gemma.at("tokens").get<Ids>());
}
