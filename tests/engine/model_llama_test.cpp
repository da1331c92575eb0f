// The llama graph against a plain double-precision llama, and the ways in which a file's tensors can be wrong.
#include <catch2/catch.hpp>
#include <cmath>

#include "model_support.hpp"

using namespace vigil;
using namespace vigil::testing;

namespace {

std::vector<float> scores_after(schedule::Runtime& runtime, const std::vector<int32_t>& ids) {
  cache::Sequence sequence(runtime.pool());
  REQUIRE(sequence.reserve(static_cast<int64_t>(ids.size())));
  REQUIRE(runtime.step(sequence, ids, 1) == compute::RunOutcome::finished);
  std::vector<float> scores(static_cast<size_t>(runtime.model().vocabulary()));
  runtime.read_scores(0, scores);
  return scores;
}

void check_against_formulas(TinyLlama tiny, const std::string& what, const std::string& backend = "auto") {
  INFO(what);
  schedule::RuntimeOptions options;
  options.backend.backend = backend;
  options.kv_type = compute::KvType::f32;
  LoadedModel loaded = load_tiny(tiny, options);
  for (const int64_t length : {1, 5, 70}) {
    const std::vector<int32_t> ids = random_ids(length, tiny.vocabulary, 7);
    const std::vector<float> scores = scores_after(*loaded.runtime, ids);
    const std::vector<double> expected = tiny.scores_after(ids);
    double worst = 0, square = 0;
    for (size_t i = 0; i < scores.size(); ++i) {
      worst = std::max(worst, std::abs(static_cast<double>(scores[i]) - expected[i]));
      square += expected[i] * expected[i];
    }
    CHECK(worst < 5e-5);
    CHECK(std::sqrt(square / static_cast<double>(scores.size())) > 1);  // the comparison means something
  }
}

void check_refused(const std::string& word, TinyLlama tiny, const std::function<void(gguf::Writer&)>& edit = {}) {
  const auto runtime = try_load(tiny.bytes(edit));
  INFO(word);
  REQUIRE_FALSE(runtime);
  CAPTURE(runtime.error());
  CHECK(runtime.error().find(word) != std::string::npos);
}

}  // namespace

TEST_CASE("llama computes what the formulas say") {
  check_against_formulas({}, "plain");
  TinyLlama tied;
  tied.tied = true;
  check_against_formulas(tied, "tied embeddings");
  TinyLlama factors;
  factors.rope_factors = true;
  check_against_formulas(factors, "rope factors");
  TinyLlama partial;
  partial.rotated = 8;
  check_against_formulas(partial, "half of each head turned");
  TinyLlama wide_heads;
  wide_heads.head_dim = wide_heads.rotated = 24;
  wide_heads.kv_heads = 1;
  check_against_formulas(wide_heads, "heads wider than the model, one KV head");
  TinyLlama half;
  half.type = gguf::TensorType::f16;
  check_against_formulas(half, "half-precision weights");
  for (const gguf::TensorType type : {gguf::TensorType::f16, gguf::TensorType::bf16, gguf::TensorType::q8_0}) {
    TinyLlama typed;
    typed.type = type;
    check_against_formulas(typed, std::string(gguf::type_info(type)->name), "reference");
  }
}

TEST_CASE("a half-precision cache stays close to a float one") {
  TinyLlama tiny;
  schedule::RuntimeOptions options;
  options.kv_type = compute::KvType::f32;
  LoadedModel exact = load_tiny(tiny, options);
  options.kv_type = compute::KvType::f16;
  LoadedModel halved = load_tiny(tiny, options);
  const std::vector<int32_t> ids = random_ids(200, tiny.vocabulary, 3);
  const auto a = scores_after(*exact.runtime, ids), b = scores_after(*halved.runtime, ids);
  float worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  CHECK(worst < 2e-2f);
  CHECK(worst > 0.0f);
}

TEST_CASE("a tensor that is missing, misshapen, unknown or without a kernel is named") {
  TinyLlama claims;
  claims.claims["block_count"] = 3;  // one layer more than there is
  check_refused("'blk.2.attn_norm.weight' is missing", claims);
  claims.claims = {{"block_count", 1000}};
  check_refused("'blk.2.attn_norm.weight' is missing", claims);
  claims.claims = {{"feed_forward_length", 95}};
  check_refused("'blk.0.ffn_gate.weight' has shape [64, 96], the configuration asks for [64, 95]", claims);
  claims.claims = {{"embedding_length", 128}};
  check_refused("token_embd.weight", claims);
  claims.claims = {{"attention.head_count_kv", 4}};
  check_refused("blk.0.attn_k.weight", claims);
  check_refused("blk.0.attn_q_norm.weight", {}, [](gguf::Writer& writer) {
    writer.add_tensor("blk.0.attn_q_norm.weight", gguf::TensorType::f32, {64}, std::vector<std::byte>(256));
  });
  TinyLlama factors;
  factors.rope_factors = true;
  factors.rotated = 14;
  factors.claims = {{"rope.dimension_count", 16}};
  check_refused("rope_freqs.weight", factors);
  TinyLlama gone;
  gone.leave_out = "output_norm.weight";
  check_refused("'output_norm.weight' is missing", gone);
  gone.leave_out = "token_embd.weight";
  check_refused("'token_embd.weight' is missing", gone);
}

TEST_CASE("an unknown architecture is refused with the known ones") {
  TinyLlama tiny;
  tiny.architecture = "nosuch";
  check_refused("'nosuch' is not known here; this version runs: llama, qwen2", tiny);
}

TEST_CASE("a vocabulary that this version cannot read is no obstacle, end ids come from the metadata") {
  TinyLlama tiny;
  tiny.end_id = 5;
  const LoadedModel loaded = load_tiny(tiny);
  CHECK(loaded.runtime->ends(5));
  CHECK_FALSE(loaded.runtime->ends(6));
}
