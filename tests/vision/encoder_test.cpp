// Projector files to encoders: what is refused and how, the order of patches and windows, marks between tiles. Values are the golden test's.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <unistd.h>

#include "picture_support.hpp"
#include "tools/random_model.hpp"
#include "tools/random_projector.hpp"
#include "vision/picture_encoder.hpp"

using namespace vigil;
using namespace vigil::vision;

namespace {

std::vector<std::byte> projector_bytes(const tools::RandomProjector& what) {
  gguf::Writer out;
  const Result<void> made = tools::add_random_projector(what, out);
  INFO((made ? std::string() : made.error()));
  REQUIRE(made);
  return out.bytes();
}

Result<std::unique_ptr<Encoder>> load(const std::vector<std::byte>& bytes, int threads = 2, const EncoderChoices& choices = {}) {
  const auto source = gguf::from_memory(bytes);
  const auto file = gguf::File::parse(*source);
  REQUIRE(file);
  return Encoder::load(*file, *source, threads, choices);
}

Image shades(int64_t width, int64_t height) {
  Image image(width, height);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      uint8_t* pixel = image.pixel(x, y);
      pixel[0] = static_cast<uint8_t>(3 * x + y);
      pixel[1] = static_cast<uint8_t>(x * y);
      pixel[2] = static_cast<uint8_t>(200 - y);
    }
  }
  return image;
}

std::string refusal(const std::function<void(gguf::Writer&)>& change, const tools::RandomProjector& what = {}) {
  gguf::Writer out;
  REQUIRE(tools::add_random_projector(what, out));
  change(out);
  const auto source = gguf::from_memory(out.bytes());
  const auto file = gguf::File::parse(*source);
  if (!file) return file.error();
  const auto encoder = Encoder::load(*file, *source, 1, {});
  return encoder ? "" : encoder.error();
}

struct TemporaryFile {
  explicit TemporaryFile(const gguf::Writer& out) {
    static int counter = 0;
    path = (std::filesystem::temp_directory_path() / ("vigil_vision_" + std::to_string(::getpid()) + "_" + std::to_string(counter++))).string();
    REQUIRE(out.write(path));
  }
  ~TemporaryFile() { std::filesystem::remove(path); }
  TemporaryFile(const TemporaryFile&) = delete;
  std::string path;
};

}  // namespace

TEST_CASE("Every projector: rows and grid of its pictures, the same bits with any number of threads") {
  for (const std::string& name : tools::random_projectors()) {
    CAPTURE(name);
    tools::RandomProjector what;
    what.projector = name;
    const auto bytes = projector_bytes(what);
    std::vector<std::vector<float>> first;
    for (const int threads : {1, 3}) {
      auto encoder = load(bytes, threads);
      INFO((encoder ? std::string() : encoder.error()));
      REQUIRE(encoder);
      const EncoderConfig& config = (*encoder)->config();
      CHECK(config.out_width == 32);
      const Tiles tiles = preprocess(shades(70, 40), config.preprocessing);
      std::vector<std::vector<float>> all;
      for (const Tile& tile : tiles.tiles) {
        const Embeddings made = (*encoder)->encode(tile);
        CHECK(made.values.size() == static_cast<size_t>(made.columns * made.rows * 32));
        CHECK(std::ranges::all_of(made.values, [](float value) { return std::isfinite(value); }));
        all.push_back(made.values);
      }
      if (first.empty()) first = all;
      CHECK(first == all);
    }
  }
}

TEST_CASE("Weights of other types and names as early converters wrote them") {
  tools::RandomProjector what;
  what.width = 64;
  what.ff = 96;
  what.type = gguf::TensorType::f32;
  const auto tile_of = [](Encoder& encoder) { return preprocess(shades(32, 32), encoder.config().preprocessing).tiles[0]; };
  auto plain = load(projector_bytes(what));
  what.swapped_names = true;
  auto swapped = load(projector_bytes(what));
  REQUIRE(plain);
  REQUIRE(swapped);
  CHECK((*plain)->encode(tile_of(**plain)).values == (*swapped)->encode(tile_of(**swapped)).values);
  what.type = gguf::TensorType::q8_0;
  auto small = load(projector_bytes(what));
  REQUIRE(small);
  CHECK((*small)->weight_bytes() < (*plain)->weight_bytes() * 3 / 4);
  CHECK((*small)->encode(tile_of(**small)).values.size() == 4 * 32);
}

TEST_CASE("The class token stands where it was asked to") {
  tools::RandomProjector what;
  what.projector = "mlp";
  const auto bytes = projector_bytes(what);
  EncoderChoices in_front;
  in_front.class_token = ClassToken::first;
  auto last = load(bytes), first = load(bytes, 2, in_front);
  REQUIRE(last);
  REQUIRE(first);
  const Tile tile = preprocess(shades(32, 32), (*last)->config().preprocessing).tiles[0];
  const Embeddings a = (*last)->encode(tile), b = (*first)->encode(tile);
  CHECK(a.values.size() == b.values.size());
  CHECK(a.values != b.values);
}

TEST_CASE("Patches stand in cells, cells in windows") {
  EncoderConfig config;
  config.projector = Projector::qwen25vl;
  config.patch_side = 4;
  config.merge = 2;
  config.window_pattern = 2;
  config.window_side = 16;  // two cells
  const PatchOrder order = patch_order(6, 4, config);  // 3 x 2 cells
  CHECK(order.cells == std::vector<int64_t>{0, 1, 3, 4, 2, 5});
  CHECK(std::vector<int64_t>(order.patches.begin(), order.patches.begin() + 8) == std::vector<int64_t>{0, 1, 6, 7, 2, 3, 8, 9});
  CHECK(std::vector<int64_t>(order.patches.end() - 8, order.patches.end()) == std::vector<int64_t>{4, 5, 10, 11, 16, 17, 22, 23});
  REQUIRE(order.windows.size() == 2);
  CHECK(order.windows[0].end == 16);
  CHECK(order.windows[1].first == 16);
  CHECK(order.windows[1].end == 24);
  config.window_pattern = 0;
  CHECK(patch_order(6, 4, config).cells == std::vector<int64_t>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("Windows hide what lies outside them, and only in windowed layers") {
  tools::RandomProjector what;
  what.projector = "qwen2.5vl_merger";
  what.layers = 1;
  what.window_pattern = 2;  // its one layer sees windows of 2 x 2 cells of 16 pixels
  auto windowed = load(projector_bytes(what));
  REQUIRE(windowed);
  Tile tile{96, 64, std::vector<float>(3 * 96 * 64, 0.25f)};
  const auto before = (*windowed)->encode(tile).values;
  tile.planes[95] = 1;  // the upper right corner: the second window
  const auto after = (*windowed)->encode(tile).values;
  const auto same = [&](size_t cell) {
    const auto first = static_cast<long>(cell * 32);
    return std::equal(before.begin() + first, before.begin() + first + 32, after.begin() + first);
  };
  for (size_t cell = 0; cell < 24; ++cell) {
    const size_t column = cell % 6, row = cell / 6;
    CHECK(same(cell) == !(column >= 4 && row < 2));
  }
}

TEST_CASE("Files that lie are refused by the name of key or tensor") {
  const auto nothing = [](gguf::Writer&) {};
  CHECK(refusal(nothing).empty());
  tools::RandomProjector what;
  what.projector = "gemma3";
  const auto with = [](const char* tensor) {
    return [tensor](gguf::Writer& out) { out.add_tensor(tensor, gguf::TensorType::f32, {4}, std::vector<std::byte>(16)); };
  };
  CHECK(refusal(with("v.extra")).find("'v.extra' has no place") != std::string::npos);
  what.projector = "qwen3vl_merger";
  CHECK(refusal(with("v.deepstack.0.norm.weight"), what).find("v.deepstack.0.norm.weight") != std::string::npos);
  what = {};
  what.image_side = 33;
  CHECK(refusal(nothing, what).find("clip.vision.image_size over clip.vision.patch_size") != std::string::npos);
  what = {};
  what.heads = 3;
  CHECK(refusal(nothing, what).find("clip.vision.attention.head_count") != std::string::npos);
  what = {};
  what.merge = 3;
  CHECK(refusal(nothing, what).find("scale_factor") != std::string::npos);
  what = {};
  what.projector = "idefics3";
  what.longest = 60'000;
  CHECK(refusal(nothing, what).find("clip.vision.preproc_image_size 60000 makes more than 1024 tiles") != std::string::npos);
  CHECK(refusal([](gguf::Writer& out) { out.put_u32("clip.vision.feature_layer", 1); }).find("clip.vision.feature_layer") != std::string::npos);
}

TEST_CASE("Each tensor that is missing, and each that has another shape, is named") {
  for (const std::string& name : tools::random_projectors()) {
    tools::RandomProjector what;
    what.projector = name;
    what.layers = name == "mlp" ? 2 : 1;  // its last one does not run
    const auto whole = projector_bytes(what);
    const auto source = gguf::from_memory(whole);
    const auto file = gguf::File::parse(*source);
    REQUIRE(file);
    for (const gguf::Tensor& tensor : file->tensors()) {
      if (name == "mlp" && tensor.name.starts_with("v.blk.1.")) continue;
      // The same file with a letter of the tensor's name changed: the tensor is missing, and another is there.
      auto bytes = whole;
      const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      const size_t at = text.find(tensor.name + std::string(1, static_cast<char>(tensor.dims.size())));
      REQUIRE(at != std::string_view::npos);
      bytes[at + tensor.name.size() - 1] = static_cast<std::byte>('#');
      CAPTURE(name, tensor.name);
      const auto missing = load(bytes);
      REQUIRE_FALSE(missing);
      const auto has = [&](const char* part) { return tensor.name.find(part) != std::string::npos; };
      const bool optional = has(".bias") || has("class_embd") || has("_ln.") || tensor.name == "mm.2.weight" || has("qkv");
      if (!optional) CHECK(missing.error().find("'" + tensor.name + "' is missing") != std::string::npos);
    }
  }
}

TEST_CASE("Keys out of range and of wrong types") {
  tools::RandomProjector what;
  gguf::Writer good;
  REQUIRE(tools::add_random_projector(what, good));
  const auto whole = good.bytes();
  const auto with_number = [&](const std::string& key, uint32_t value) {
    auto bytes = whole;
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const size_t at = text.find(key);
    REQUIRE(at != std::string_view::npos);
    for (size_t i = 0; i < 4; ++i) bytes[at + key.size() + 4 + i] = static_cast<std::byte>(value >> (8 * i));
    const auto encoder = load(bytes);
    return encoder ? std::string() : encoder.error();
  };
  for (const char* name : {"image_size", "patch_size", "embedding_length", "feed_forward_length", "block_count", "attention.head_count", "projection_dim",
                           "projector.scale_factor"}) {
    const std::string key = std::string("clip.vision.") + name;
    CHECK(with_number(key, 0).find(key + " is 0") != std::string::npos);
    CHECK(with_number(key, 0x7fffffff).find(key) != std::string::npos);
  }
  CHECK(with_number("clip.vision.block_count", 900).find("'v.blk.2.ln1.weight' is missing") != std::string::npos);
  CHECK(with_number("clip.vision.projection_dim", 64).find("mm.input_projection.weight") != std::string::npos);
}

TEST_CASE("Idefics 3: tiles with the text model's marks between them") {
  tools::RandomProjector what;
  what.projector = "idefics3";
  gguf::Writer projector;
  REQUIRE(tools::add_random_projector(what, projector));
  const TemporaryFile projector_file(projector);
  CHECK(PictureEncoder::load(projector_file.path, "", 1, {}).error().find("--model") != std::string::npos);

  // A vocabulary of bytes and marks; row i of the embedding is i everywhere.
  std::vector<std::string> pieces;
  for (int i = 0; i < 256; ++i) pieces.push_back(i >= 33 && i < 127 ? std::string(1, static_cast<char>(i)) : i == 10 ? "\xC4\x8A" : "b" + std::to_string(i));
  std::vector<int32_t> kinds(256, 1);
  for (const char* mark : {"<fake_token_around_image>", "<global-img>", "<image>", "<row_1_col_1>", "<row_1_col_2>", "<row_2_col_1>", "<row_2_col_2>"}) {
    pieces.emplace_back(mark);
    kinds.push_back(3);
  }
  const auto text_model = [&](int64_t width, size_t count) {
    gguf::Writer out;
    out.put_string("general.architecture", "llama");
    out.put_string("tokenizer.ggml.model", "gpt2");
    out.put_string("tokenizer.ggml.pre", "default");
    out.put_strings("tokenizer.ggml.tokens", {pieces.begin(), pieces.begin() + static_cast<long>(count)});
    out.put_i32s("tokenizer.ggml.token_type", {kinds.begin(), kinds.begin() + static_cast<long>(count)});
    out.put_strings("tokenizer.ggml.merges", {});
    std::vector<float> rows;
    for (size_t i = 0; i < pieces.size(); ++i) rows.insert(rows.end(), static_cast<size_t>(width), static_cast<float>(i));
    out.add_tensor("token_embd.weight", gguf::TensorType::f32, {static_cast<uint64_t>(width), pieces.size()}, gguf::f32_bytes(rows));
    return out;
  };
  const TemporaryFile model(text_model(32, pieces.size()));
  auto encoder = PictureEncoder::load(projector_file.path, model.path, 2, {});
  INFO((encoder ? std::string() : encoder.error()));
  REQUIRE(encoder);
  const auto picture = test::png(64, 64, [](int64_t x, int64_t y) { return test::Pixel{static_cast<uint8_t>(x * 4), static_cast<uint8_t>(y * 4), 3, 255}; });
  const auto encoded = (*encoder)->encode(picture, {});
  REQUIRE(encoded);
  // 2 x 2 tiles of 2 x 2 embeddings, and the whole.
  std::vector<float> marks;
  const auto& rows = encoded->values;
  for (size_t i = 0; i < rows.size() / 32; ++i) {
    const auto first = rows.begin() + static_cast<long>(32 * i);
    marks.push_back(std::all_of(first, first + 32, [&](float value) { return value == *first; }) ? *first : -1);
  }
  const float around = 256, whole = 257, place = 259, line = 10;
  CHECK(marks == std::vector<float>{place,     -1, -1, -1, -1, around, place + 1, -1, -1, -1, -1, line, around,
                                    place + 2, -1, -1, -1, -1, around, place + 3, -1, -1, -1, -1, line, line, around, whole, -1, -1, -1, -1});
  CHECK(encoded->shape.rows == static_cast<int64_t>(marks.size()));
  CHECK(encoded->shape.columns_of_grid == encoded->shape.rows);
  CHECK(encoded->shape.rows_of_grid == 1);

  const TemporaryFile narrow(text_model(16, pieces.size())), few(text_model(32, pieces.size() - 1));
  CHECK(PictureEncoder::load(projector_file.path, narrow.path, 1, {}).error().find("rows of 32 floats, the model") != std::string::npos);
  CHECK(PictureEncoder::load(projector_file.path, few.path, 1, {}).error().find("<row_2_col_2>") != std::string::npos);
  CHECK(PictureEncoder::load(projector_file.path, projector_file.path, 1, {}).error().find("token_embd.weight") != std::string::npos);
}
