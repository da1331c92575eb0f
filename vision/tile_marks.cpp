// What the vision child needs of the text model's file. It is read, not mapped: only the engine maps.
#include <algorithm>
#include <cmath>

#include "engine/compute/cpu/dequantise.hpp"
#include "engine/gguf/byte_source.hpp"
#include "engine/gguf/file.hpp"
#include "engine/gguf/tokenizer.hpp"
#include "vision/picture_encoder.hpp"

namespace vigil::vision {
namespace {

constexpr std::string_view embedding_name = "token_embd.weight";

struct TextModel {
  std::unique_ptr<gguf::ByteSource> source;
  std::unique_ptr<gguf::File> file;
};

Result<TextModel> open(const std::string& path) {
  TextModel model;
  auto source = gguf::open_pread(path);
  if (!source) return Error{source.error()};
  model.source = std::move(*source);
  auto file = gguf::File::parse(*model.source);
  if (!file) return Error{path + ": " + file.error()};
  model.file = std::make_unique<gguf::File>(std::move(*file));
  return model;
}

class EmbeddingRows {
 public:
  EmbeddingRows(const TextModel& model, const gguf::Tensor& tensor) : model_(model), tensor_(tensor) {}

  Result<TileMarks::Row> row(gguf::TokenId id) const {
    const auto info = gguf::type_info(tensor_.type);
    const int64_t cols = tensor_.cols();
    if (!info || !compute::cpu::can_dequantise(tensor_.type) || cols % info->block_elements != 0) return Error{"tensor 'token_embd.weight': its type is none that weights have"};
    if (id < 0 || id >= tensor_.rows()) return Error{"tensor 'token_embd.weight' has no row for id " + std::to_string(id)};
    const size_t bytes = static_cast<size_t>(cols) / info->block_elements * info->block_bytes;
    if (tensor_.bytes != bytes * static_cast<size_t>(tensor_.rows())) return Error{"tensor 'token_embd.weight': its data has another size than its shape"};
    std::vector<std::byte> data(bytes);
    const uint64_t at = model_.file->data_offset() + tensor_.offset + static_cast<uint64_t>(id) * bytes;
    if (const Result<void> done = model_.source->read(at, data); !done) return Error{done.error()};
    TileMarks::Row row(static_cast<size_t>(cols));
    compute::cpu::dequantise_row(tensor_.type, data.data(), cols, row.data());
    if (!std::ranges::all_of(row, [](float value) { return std::isfinite(value); })) return Error{"tensor 'token_embd.weight' holds numbers that are not finite"};
    return row;
  }

 private:
  const TextModel& model_;
  const gguf::Tensor& tensor_;
};

}  // namespace

Result<void> check_text_model(const std::string& path, int64_t width) {
  const Result<TextModel> model = open(path);
  if (!model) return Error{model.error()};
  const gguf::Tensor* embedding = model->file->tensor(embedding_name);
  if (embedding == nullptr) return Error{path + ": tensor 'token_embd.weight' is missing"};
  if (embedding->cols() == width) return {};
  return Error{"the projector gives rows of " + std::to_string(width) + " floats, the model " + path + " takes " + std::to_string(embedding->cols()) +
               ": they do not belong together"};
}

Result<TileMarks> read_tile_marks(const std::string& path, int64_t width, int64_t side) {
  const Result<TextModel> model = open(path);
  if (!model) return Error{model.error()};
  const auto wrong = [&](const std::string& what) { return Error{path + ": " + what}; };
  const gguf::Tensor* embedding = model->file->tensor(embedding_name);
  if (embedding == nullptr || embedding->cols() != width) return wrong("tensor 'token_embd.weight' has no rows of " + std::to_string(width) + " floats");
  const auto vocabulary = gguf::Vocabulary::from(*model->file);
  if (!vocabulary) return wrong(vocabulary.error());
  const auto tokenizer = gguf::make_tokenizer(*vocabulary);
  if (!tokenizer) return wrong(tokenizer.error());
  const EmbeddingRows rows(*model, *embedding);
  TileMarks marks;
  std::string failure;
  const auto mark = [&](const std::string& piece) {
    const auto id = vocabulary->find(piece);
    if (!id) {
      if (failure.empty()) failure = "its vocabulary has no piece \"" + piece + "\", which this projector puts between the tiles of a picture";
      return TileMarks::Row();
    }
    Result<TileMarks::Row> row = rows.row(*id);
    if (!row && failure.empty()) failure = row.error();
    return row ? std::move(*row) : TileMarks::Row();
  };
  const auto text = [&](std::string_view words) {
    std::vector<TileMarks::Row> all;
    for (const gguf::TokenId id : (*tokenizer)->encode(words, gguf::Tokenizer::Markers::plain, gguf::Tokenizer::Bos::none)) {
      Result<TileMarks::Row> row = rows.row(id);
      if (!row && failure.empty()) failure = row.error();
      if (row) all.push_back(std::move(*row));
    }
    return all;
  };
  marks.around = mark("<fake_token_around_image>");
  marks.whole = mark("<global-img>");
  for (int64_t row = 1; row <= side && failure.empty(); ++row) {
    for (int64_t column = 1; column <= side; ++column) marks.places[{row, column}] = mark("<row_" + std::to_string(row) + "_col_" + std::to_string(column) + ">");
  }
  marks.line_break = text("\n");
  marks.end_of_tiles = text("\n\n");
  if (!failure.empty()) return wrong(failure);
  return marks;
}

}  // namespace vigil::vision
