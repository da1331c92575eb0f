// See picture_encoder.hpp.
#include "vision/picture_encoder.hpp"

#include <algorithm>
#include <cmath>
#include <new>

#include "vision/fault.hpp"
#include "vision/preprocess/preprocess.hpp"

namespace vigil::vision {
namespace {

constexpr int64_t most_rows = 1 << 16;  // of one record: the daemon's own cap

void append(std::vector<float>& to, const std::vector<float>& from) { to.insert(to.end(), from.begin(), from.end()); }
void append(std::vector<float>& to, const std::vector<TileMarks::Row>& from) {
  for (const TileMarks::Row& row : from) append(to, row);
}

// The tiles' embeddings in reading order with the marks between them.
std::vector<float> with_marks(const std::vector<std::vector<float>>& tiles, int64_t columns, int64_t rows, const TileMarks& marks) {
  std::vector<float> all;
  size_t tile = 0;
  for (int64_t row = 1; row <= rows; ++row) {
    for (int64_t column = 1; column <= columns; ++column) {
      if (tile > 0) append(all, marks.around);
      append(all, marks.places.at({row, column}));
      append(all, tiles[tile++]);
    }
    append(all, row < rows ? marks.line_break : marks.end_of_tiles);
  }
  append(all, marks.around);
  append(all, marks.whole);
  append(all, tiles[tile]);
  return all;
}

}  // namespace

Result<std::unique_ptr<PictureEncoder>> PictureEncoder::load(const std::string& projector, const std::string& model, int threads,
                                                              const EncoderChoices& choices) {
  auto encoder = Encoder::load(projector, threads, choices);
  if (!encoder) return Error{encoder.error()};
  std::unique_ptr<PictureEncoder> made(new PictureEncoder(std::move(*encoder)));
  const EncoderConfig& config = made->encoder_->config();
  if (!model.empty()) {
    if (const Result<void> fits = check_text_model(model, config.out_width); !fits) return Error{fits.error()};
  }
  if (config.preprocessing.rule == Preprocessing::Rule::tiles) {
    if (model.empty()) return Error{"projector " + config.projector_name + " cuts pictures into tiles with marks of the text model between them: --model FILE.gguf is needed"};
    Result<TileMarks> marks = read_tile_marks(model, config.out_width, tiles_along(config.preprocessing));
    if (!marks) return Error{marks.error()};
    made->marks_ = std::move(*marks);
  }
  return made;
}

Result<EncodedPicture> PictureEncoder::encode(std::span<const uint8_t> bytes, const DecodeLimits& limits) {
  try {
    Result<Image> image = decode_picture(bytes, limits);
    if (!image) return Error{image.error()};
    const EncoderConfig& config = encoder_->config();
    const Tiles tiles = preprocess(*image, config.preprocessing);
    *image = Image();  // its memory is wanted elsewhere
    std::vector<std::vector<float>> encoded;
    EncodedPicture out;
    for (const Tile& tile : tiles.tiles) {
      Embeddings made = encoder_->encode(tile);
      out.shape.columns_of_grid = made.columns;
      out.shape.rows_of_grid = made.rows;
      encoded.push_back(std::move(made.values));
    }
    out.shape.width = config.out_width;
    if (config.preprocessing.rule == Preprocessing::Rule::tiles) {
      out.values = with_marks(encoded, tiles.columns, tiles.rows, marks_);
      out.shape.columns_of_grid = static_cast<int64_t>(out.values.size()) / config.out_width;  // no grid: one line of rows
      out.shape.rows_of_grid = 1;
    } else {
      out.values = std::move(encoded.front());
    }
    out.shape.rows = static_cast<int64_t>(out.values.size()) / config.out_width;
    if (out.shape.rows > most_rows) return Error{"the picture makes " + std::to_string(out.shape.rows) + " embeddings, more than " + std::to_string(most_rows)};
    if (!std::ranges::all_of(out.values, [](float value) { return std::isfinite(value); })) return fault("the encoder gave numbers that are not finite: the projector file is broken");
    return out;
  } catch (const std::bad_alloc&) {
    return fault("there is not enough memory to encode the picture");
  }
}

}  // namespace vigil::vision
