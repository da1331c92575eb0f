// See config.hpp. The ranges are far above real files; they keep products of two from overflowing.
#include "vision/encoder/config.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

namespace vigil::vision {
namespace {

constexpr struct {
  std::string_view name;
  Projector projector;
} projectors[] = {{"gemma3", Projector::gemma3},
                  {"mlp", Projector::mlp},
                  {"idefics3", Projector::idefics3},
                  {"qwen2.5vl_merger", Projector::qwen25vl},
                  {"qwen3vl_merger", Projector::qwen3vl}};

constexpr int64_t least_cells = 8;    // qwen: a small picture is made larger until it has so many embeddings
constexpr int64_t most_tiles = 1024;  // idefics3
constexpr Fill clip_mean_colour{122, 116, 104};  // LLaVA's frame: CLIP's mean in bytes

class Reader {
 public:
  explicit Reader(const gguf::File& file) : file_(file) {}

  int64_t integer(std::string_view key, int64_t low, int64_t high) { return take(file_.integer(key), key, low, high); }
  int64_t integer_or(std::string_view key, int64_t fallback, int64_t low, int64_t high) {
    return take(file_.integer_or(key, fallback), key, low, high);
  }
  bool boolean_or(std::string_view key, bool fallback) {
    const Result<bool> value = file_.boolean_or(key, fallback);
    if (!value) fail(value.error());
    return value ? *value : fallback;
  }
  double number(std::string_view key, double low, double high) {
    const Result<double> value = file_.number(key);
    if (!value) return fail(value.error()), low;
    if (!(*value >= low && *value <= high)) return fail(std::string(key) + " is not between " + std::to_string(low) + " and " + std::to_string(high)), low;
    return *value;
  }
  std::array<float, 3> three(std::string_view key, double low, double high) {
    std::array<float, 3> out{};
    const Result<std::vector<double>> values = file_.numbers(key);
    if (!values) return fail(values.error()), out;
    if (values->size() != out.size()) return fail(std::string(key) + " must have 3 numbers, not " + std::to_string(values->size())), out;
    for (size_t i = 0; i < out.size(); ++i) {
      if (!((*values)[i] >= low && (*values)[i] <= high)) fail(std::string(key) + ": a number is out of range");
      out[i] = static_cast<float>((*values)[i]);
    }
    return out;
  }
  void fail(std::string what) {
    if (error_.empty()) error_ = std::move(what);
  }
  const std::string& error() const { return error_; }

 private:
  int64_t take(const Result<int64_t>& value, std::string_view key, int64_t low, int64_t high) {
    if (!value) return fail(value.error()), low;
    if (*value < low || *value > high) {
      fail(std::string(key) + " is " + std::to_string(*value) + ", not between " + std::to_string(low) + " and " + std::to_string(high));
      return low;
    }
    return *value;
  }
  const gguf::File& file_;
  std::string error_;
};

Result<Projector> find_projector(const std::string& name) {
  std::string known;
  for (const auto& entry : projectors) {
    if (entry.name == name) return entry.projector;
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  return Error{"clip.projector_type '" + name + "' is not known here; this version runs: " + known};
}

// What each projector adds to the keys that all have.
void read_projector(Reader& read, const EncoderChoices& choices, EncoderConfig& config) {
  Preprocessing& how = config.preprocessing;
  how.side = config.image_side;
  switch (config.projector) {
    case Projector::gemma3:
      config.merge = read.integer_or("clip.vision.projector.scale_factor", 4, 1, 64);
      break;
    case Projector::mlp:
      // Its features are those of the layer before the last (Liu et al. 2023).
      config.layers -= 1;
      how.filter = Filter::bicubic;
      how.fill = clip_mean_colour;
      break;
    case Projector::idefics3:
      config.merge = read.integer("clip.vision.projector.scale_factor", 1, 64);
      how.rule = Preprocessing::Rule::tiles;
      how.longest = read.integer("clip.vision.preproc_image_size", 1, 1 << 16);
      if ((how.longest + how.side - 1) / how.side * ((how.longest + how.side - 1) / how.side) > most_tiles) {
        read.fail("clip.vision.preproc_image_size " + std::to_string(how.longest) + " makes more than " + std::to_string(most_tiles) + " tiles");
      }
      break;
    case Projector::qwen25vl:
      config.window_pattern = read.integer_or("clip.vision.n_wa_pattern", 0, 0, 1024);
      config.window_side = read.integer_or("clip.vision.window_size", 112, 1, 1 << 16);
      [[fallthrough]];
    case Projector::qwen3vl:
      config.merge = read.integer_or("clip.vision.spatial_merge_size", 2, 2, 2);
      how.rule = Preprocessing::Rule::cells;
      how.cell = config.patch_side * config.merge;
      how.least_pixels = least_cells * how.cell * how.cell;
      how.most_pixels = std::max(choices.tokens, least_cells) * how.cell * how.cell;
      break;
  }
}

void check_fit(Reader& read, const EncoderConfig& config) {
  const auto divides = [&](int64_t part, int64_t whole, const std::string& what) {
    if (whole % part != 0) read.fail(what + ": " + std::to_string(whole) + " is no multiple of " + std::to_string(part));
  };
  divides(config.heads, config.width, "clip.vision.embedding_length over clip.vision.attention.head_count");
  divides(config.patch_side, config.image_side, "clip.vision.image_size over clip.vision.patch_size");
  if (!read.error().empty()) return;
  if (!config.by_cells()) divides(config.merge, config.grid_side(), "clip.vision.image_size over patch_size and clip.vision.projector.scale_factor");
  if (config.two_frames()) divides(4, config.head_width(), "the width of a head, for rotary positions in two directions");
  if (config.window_pattern > 0) divides(config.preprocessing.cell, config.window_side, "clip.vision.window_size over the patches of an embedding");
  if (config.layers < 1) read.fail("clip.vision.block_count leaves no layer");
}

}  // namespace

Result<EncoderConfig> read_encoder_config(const gguf::File& file, const EncoderChoices& choices) {
  const Result<std::string> architecture = file.string("general.architecture");
  if (!architecture) return Error{architecture.error()};
  if (*architecture != "clip") return Error{"general.architecture is '" + *architecture + "', not 'clip': this is no projector file"};
  const Result<std::string> type = file.string_or("clip.vision.projector_type", "");
  if (!type) return Error{type.error()};
  const Result<std::string> name = type->empty() ? file.string("clip.projector_type") : type;
  if (!name) return Error{name.error()};
  const Result<Projector> projector = find_projector(*name);
  if (!projector) return Error{projector.error()};
  Reader read(file);
  EncoderConfig config;
  config.projector = *projector;
  config.projector_name = *name;
  config.class_token = choices.class_token;
  if (!read.boolean_or("clip.has_vision_encoder", true)) read.fail("clip.has_vision_encoder is false: there is no encoder for pictures in it");
  config.image_side = read.integer("clip.vision.image_size", 1, 1 << 14);
  config.patch_side = read.integer("clip.vision.patch_size", 1, 256);
  config.width = read.integer("clip.vision.embedding_length", 1, 1 << 15);
  config.ff = read.integer("clip.vision.feed_forward_length", 1, 1 << 18);
  config.layers = read.integer("clip.vision.block_count", 1, 1024);
  config.heads = read.integer("clip.vision.attention.head_count", 1, 1 << 10);
  config.out_width = read.integer("clip.vision.projection_dim", 1, 1 << 16);
  config.epsilon = read.number("clip.vision.attention.layer_norm_epsilon", 0, 1);
  config.activation = read.boolean_or("clip.use_silu", false) ? Activation::silu
                      : read.boolean_or("clip.use_gelu", false) ? Activation::gelu
                                                                : Activation::quick_gelu;
  config.preprocessing.mean = read.three("clip.vision.image_mean", -16, 16);
  config.preprocessing.deviation = read.three("clip.vision.image_std", 1e-6, 1e6);
  if (!read.error().empty()) return Error{read.error()};
  read_projector(read, choices, config);
  check_fit(read, config);
  if (file.find("clip.vision.feature_layer") != nullptr) read.fail("clip.vision.feature_layer: features of several layers are not computed by this version");
  if (!read.error().empty()) return Error{read.error()};
  return config;
}

}  // namespace vigil::vision
