// Every field of a configuration that lies gets an error with its name; none reaches a division or an allocation.
#include <catch2/catch.hpp>
#include <limits>

#include "engine/model/config.hpp"
#include "model_support.hpp"

using namespace vigil;
using namespace vigil::testing;

namespace {

struct Fields {
  std::map<std::string, int64_t> integers{{"block_count", 2}, {"embedding_length", 64}, {"feed_forward_length", 96},
                                          {"context_length", 128}, {"attention.head_count", 4}, {"attention.head_count_kv", 2}};
  std::map<std::string, float> floats{{"attention.layer_norm_rms_epsilon", 1e-5f}};
  std::map<std::string, std::string> strings;

  Result<model::Config> read() const {
    gguf::Writer writer;
    writer.put_string("general.architecture", "llama");
    for (const auto& [key, value] : integers) writer.put_u32("llama." + key, static_cast<uint32_t>(value));
    for (const auto& [key, value] : floats) writer.put_f32("llama." + key, value);
    for (const auto& [key, value] : strings) writer.put_string("llama." + key, value);
    const auto source = gguf::from_memory(writer.bytes());
    Result<gguf::File> file = gguf::File::parse(*source);
    if (!file) return Error{file.error()};
    Result<model::Config> config = model::read_config(*file);
    if (!config) return config;
    for (const Result<void>& met : {model::need_feed_forward(*config), model::refuse_experts(*config)}) {
      if (!met) return Error{met.error()};
    }
    return config;
  }
  void refuses(const std::string& word) const {
    INFO(word);
    const Result<model::Config> config = read();
    REQUIRE_FALSE(config);
    CHECK(config.error().find(word) != std::string::npos);
  }
  Fields with(const std::string& key, int64_t value) const {
    Fields changed = *this;
    changed.integers[key] = value;
    return changed;
  }
  Fields with_float(const std::string& key, float value) const {
    Fields changed = *this;
    changed.integers.erase(key);
    changed.floats[key] = value;
    return changed;
  }
  Fields without(const std::string& key) const {
    Fields changed = *this;
    changed.integers.erase(key);
    changed.floats.erase(key);
    return changed;
  }
};

}  // namespace

TEST_CASE("a configuration takes its defaults from the fields that are there") {
  const Result<model::Config> config = Fields().without("attention.head_count_kv").read();
  REQUIRE(config);
  CHECK(config->kv_heads == 4);
  CHECK(config->head_dim == 16);
  CHECK(config->rotated == 16);
  CHECK(config->rope_base == 10000.0);
  CHECK(config->rope_scaling.kind == model::RopeScaling::Kind::none);
  Fields linear = Fields().with_float("rope.scaling.factor", 4);
  linear.strings["rope.scaling.type"] = "linear";
  REQUIRE(linear.read());
  CHECK(linear.read()->rope_scaling.kind == model::RopeScaling::Kind::linear);
  CHECK(linear.read()->rope_scaling.factor == 4.0);
}

TEST_CASE("a field out of range is named") {
  const Fields good;
  good.with("block_count", 0).refuses("llama.block_count");
  good.with("block_count", int64_t{1} << 31).refuses("llama.block_count");
  good.with("embedding_length", 0).refuses("llama.embedding_length");
  good.with("feed_forward_length", 0).refuses("llama.feed_forward_length");
  good.with("context_length", 0).refuses("llama.context_length");
  good.with("attention.head_count", 0).refuses("llama.attention.head_count");
  good.with("attention.head_count_kv", 0).refuses("llama.attention.head_count_kv");
  good.with("attention.head_count_kv", 3).refuses("llama.attention.head_count");
  good.with("attention.head_count", 6).refuses("llama.embedding_length");  // 64 / 6 is no head
  good.with("attention.key_length", 0).refuses("llama.attention.key_length");
  good.with("attention.value_length", 8).refuses("llama.attention.value_length");
  good.with("rope.dimension_count", 7).refuses("llama.rope.dimension_count");
  good.with("rope.dimension_count", 18).refuses("llama.rope.dimension_count");
  good.with("expert_count", 8).refuses("llama.expert_used_count");
  good.with("expert_count", 8).with("expert_used_count", 9).refuses("llama.expert_used_count");
  good.with("expert_count", 8).with("expert_used_count", 2).refuses("llama.expert_count");
}

TEST_CASE("a field of the wrong type or absent is named") {
  const Fields good;
  good.with_float("attention.head_count", 8).refuses("llama.attention.head_count");
  good.without("block_count").refuses("llama.block_count");
  good.without("attention.layer_norm_rms_epsilon").refuses("llama.attention.layer_norm_rms_epsilon");
  for (const float value : {0.0f, -1.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    good.with_float("attention.layer_norm_rms_epsilon", value).refuses("llama.attention.layer_norm_rms_epsilon");
    good.with_float("rope.freq_base", value).refuses("llama.rope.freq_base");
  }
  Fields yarn;
  yarn.strings["rope.scaling.type"] = "yarn";
  yarn.refuses("llama.rope.scaling.factor");
  yarn.with_float("rope.scaling.factor", 0.5f).refuses("llama.rope.scaling.factor");
  yarn = yarn.with_float("rope.scaling.factor", 4.0f);
  CHECK(yarn.read());
  CHECK(yarn.read()->rope_scaling.original_context == 128);
  yarn.with_float("rope.freq_base", 1.0f).refuses("llama.rope.freq_base");
  yarn.with("rope.scaling.original_context_length", 0).refuses("llama.rope.scaling.original_context_length");
  yarn.strings["rope.scaling.type"] = "longrope";
  yarn.refuses("llama.rope.scaling.type");
}

TEST_CASE("a recurrent layer's fields divide each other, or are named") {
  Fields good;
  for (const auto& [key, value] : {std::pair{"ssm.conv_kernel", 4}, {"ssm.state_size", 16}, {"ssm.group_count", 2}, {"ssm.time_step_rank", 4},
                                   {"ssm.inner_size", 32}}) {
    good.integers[key] = value;
  }
  REQUIRE(good.read());
  CHECK(good.read()->recurrent.value_dim == 8);
  CHECK(good.read()->recurrent.attention_every == 4);
  good.with("ssm.conv_kernel", 0).refuses("llama.ssm.conv_kernel");
  good.with("ssm.conv_kernel", 257).refuses("llama.ssm.conv_kernel");
  good.with("ssm.state_size", 0).refuses("llama.ssm.state_size");
  good.with("ssm.state_size", 1 << 20).refuses("llama.ssm.state_size");
  good.with("ssm.group_count", 3).refuses("llama.ssm.time_step_rank");
  good.with("ssm.group_count", 0).refuses("llama.ssm.group_count");
  good.with("ssm.time_step_rank", 0).refuses("llama.ssm.time_step_rank");
  good.with("ssm.inner_size", 30).refuses("llama.ssm.inner_size");
  good.with("ssm.inner_size", 1 << 20).refuses("llama.ssm.inner_size");
  good.with("full_attention_interval", 0).refuses("llama.full_attention_interval");
}
