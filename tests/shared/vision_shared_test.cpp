// The vision child's parts against what another implementation computes: pixels after preprocessing and embeddings of the golden projectors.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "server/json/json.hpp"
#include "vision/encoder/encoder.hpp"
#include "vision/image/decode.hpp"
#include "vision/preprocess/preprocess.hpp"

using namespace vigil;
using namespace vigil::vision;

namespace {

const std::string golden = std::string(VIGIL_SHARED_DIR) + "/golden/";
const std::vector<std::string> projectors{"gemma3", "llava", "idefics3", "qwen25vl", "qwen3vl"};

std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  INFO(path);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<float> floats_of(const std::string& path) {
  const std::string bytes = slurp(path);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

Image picture(const std::string& name) {
  const std::string bytes = slurp(golden + "img-" + name + ".png");
  Result<Image> image = decode_picture({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, {});
  INFO((image ? std::string() : image.error()));
  REQUIRE(image);
  return std::move(*image);
}

std::unique_ptr<Encoder> load(const std::string& projector, int threads = 2) {
  auto encoder = Encoder::load(golden + "mmproj-" + projector + ".gguf", threads, {});
  INFO((encoder ? std::string() : encoder.error()));
  REQUIRE(encoder);
  return std::move(*encoder);
}

struct Difference {
  double rms = 0, max = 0, of_rms = 0;
};

Difference compare(const std::vector<float>& got, const std::vector<float>& wanted) {
  REQUIRE(got.size() == wanted.size());
  Difference out;
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = static_cast<double>(got[i]) - wanted[i];
    out.rms += error * error;
    out.of_rms += static_cast<double>(wanted[i]) * wanted[i];
    out.max = std::max(out.max, std::abs(error));
  }
  out.of_rms = std::sqrt(out.of_rms / static_cast<double>(got.size()));
  out.rms = std::sqrt(out.rms / static_cast<double>(got.size())) / out.of_rms;
  out.max /= out.of_rms;
  return out;
}

}  // namespace

TEST_CASE("Golden pictures after preprocessing, value by value") {
  for (const std::string& name : projectors) {
    const auto about = nlohmann::json::parse(slurp(golden + "mmproj-" + name + ".json"));
    const auto encoder = load(name);
    for (const auto& [image, wanted] : about["images"].items()) {
      CAPTURE(name, image);
      const Tiles tiles = preprocess(picture(image), encoder->config().preprocessing);
      const std::vector<float> values = floats_of(golden + wanted["pixels_file"].get<std::string>());
      size_t tile = 0;
      for (const auto& chunk : wanted["chunks"]) {
        if (chunk["type"] != "image") continue;
        for (const auto& pixels : chunk["pixels"]) {
          REQUIRE(tile < tiles.tiles.size());
          const Tile& mine = tiles.tiles[tile++];
          CHECK(mine.height == pixels["shape"][1].get<int64_t>());
          CHECK(mine.width == pixels["shape"][2].get<int64_t>());
          const size_t offset = pixels["offset_floats"].get<size_t>();
          double most = 0;
          for (size_t i = 0; i < mine.planes.size(); ++i) most = std::max(most, std::abs(static_cast<double>(mine.planes[i]) - values[offset + i]));
          CHECK(most <= 1e-6);
        }
      }
      CHECK(tile == tiles.tiles.size());
    }
  }
}

TEST_CASE("Golden embeddings of every projector") {
  for (const std::string& name : projectors) {
    const auto about = nlohmann::json::parse(slurp(golden + "mmproj-" + name + ".json"));
    const auto encoder = load(name);
    CHECK(encoder->config().out_width == 256);
    for (const auto& [image, wanted] : about["images"].items()) {
      const Tiles tiles = preprocess(picture(image), encoder->config().preprocessing);
      std::vector<float> all;
      for (const Tile& tile : tiles.tiles) {
        const Embeddings made = encoder->encode(tile);
        all.insert(all.end(), made.values.begin(), made.values.end());
      }
      const Difference difference = compare(all, floats_of(golden + wanted["ref32_embd_file"].get<std::string>()));
      CAPTURE(name, image, difference.rms, difference.max);
      CHECK(difference.rms <= 1e-3);
      CHECK(difference.max <= 5e-3);
      WARN(name << " " << image << ": RMS " << difference.rms << ", max " << difference.max << " of the embedding's RMS");
    }
  }
}
