// The way of a tile through the encoder. Shapes stand behind the steps; "sequence" is the number of patches, and one for a class token.
#include "vision/encoder/encoder.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace vigil::vision {
namespace {

constexpr double rope_base = 10'000;

// cos and sin for each pair of values of a head, [sequence, head width]: the first half of the pairs turns by the row, the second by the
// column, each with the frequencies of a head of half the width (Qwen2-VL, Wang et al. 2024).
std::vector<float> rope_angles(const PatchOrder& order, int64_t columns, int64_t head_width) {
  const int64_t pairs = head_width / 2, part = pairs / 2;
  std::vector<float> angles(order.patches.size() * static_cast<size_t>(head_width));
  float* to = angles.data();
  for (const int64_t patch : order.patches) {
    const int64_t place[] = {patch / columns, patch % columns};
    for (int64_t pair = 0; pair < pairs; ++pair) {
      const double frequency = std::pow(rope_base, -2.0 * static_cast<double>(pair % part) / static_cast<double>(pairs));
      const double angle = static_cast<double>(place[pair / part]) * frequency;
      *to++ = static_cast<float>(std::cos(angle));
      *to++ = static_cast<float>(std::sin(angle));
    }
  }
  return angles;
}

// Turns value i and value i + half of each head.
void turn(float* heads, int64_t count, int64_t width, const float* angles) {
  const int64_t half = width / 2;
  for (int64_t head = 0; head < count; ++head, heads += width) {
    for (int64_t i = 0; i < half; ++i) {
      const float a = heads[i], b = heads[i + half], cosine = angles[2 * i], sine = angles[2 * i + 1];
      heads[i] = a * cosine - b * sine;
      heads[i + half] = a * sine + b * cosine;
    }
  }
}

// Mean over squares of `side` patches: [rows * columns, width] to [rows / side * columns / side, width].
std::vector<float> pooled(const std::vector<float>& x, int64_t columns, int64_t rows, int64_t side, int64_t width) {
  std::vector<float> out(static_cast<size_t>(columns / side * (rows / side) * width), 0.0f);
  for (int64_t row = 0; row < rows / side * side; ++row) {
    for (int64_t column = 0; column < columns / side * side; ++column) {
      const float* from = x.data() + (row * columns + column) * width;
      float* to = out.data() + (row / side * (columns / side) + column / side) * width;
      for (int64_t i = 0; i < width; ++i) to[i] += from[i];
    }
  }
  const float by = 1.0f / static_cast<float>(side * side);
  for (float& value : out) value *= by;
  return out;
}

// Squares of `side` patches side by side: [rows * columns, width] to [rows / side * columns / side, side, side, width].
std::vector<float> shuffled(const std::vector<float>& x, int64_t columns, int64_t rows, int64_t side, int64_t width) {
  std::vector<float> out(x.size());
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t square = row / side * (columns / side) + column / side, place = row % side * side + column % side;
      std::copy_n(x.data() + (row * columns + column) * width, width, out.data() + (square * side * side + place) * width);
    }
  }
  return out;
}

}  // namespace

PatchOrder patch_order(int64_t columns, int64_t rows, const EncoderConfig& config) {
  PatchOrder order;
  if (!config.by_cells()) {
    order.patches.resize(static_cast<size_t>(columns * rows));
    std::iota(order.patches.begin(), order.patches.end(), 0);
    return order;
  }
  const int64_t cell_columns = columns / config.merge, cell_rows = rows / config.merge;
  // Windows are squares of cells; the last ones of a row or column may be narrower.
  const int64_t side = config.window_pattern > 0 ? config.window_side / (config.patch_side * config.merge) : std::max(cell_columns, cell_rows);
  for (int64_t top = 0; top < cell_rows; top += side) {
    for (int64_t left = 0; left < cell_columns; left += side) {
      const auto first = static_cast<int64_t>(order.patches.size());
      for (int64_t y = top; y < std::min(top + side, cell_rows); ++y) {
        for (int64_t x = left; x < std::min(left + side, cell_columns); ++x) {
          order.cells.push_back(y * cell_columns + x);
          for (int64_t i = 0; i < config.merge * config.merge; ++i) {
            order.patches.push_back((y * config.merge + i / config.merge) * columns + x * config.merge + i % config.merge);
          }
        }
      }
      order.windows.push_back({first, static_cast<int64_t>(order.patches.size())});
    }
  }
  return order;
}

Embeddings Encoder::encode(const Tile& tile) {
  const int64_t columns = tile.width / config_.patch_side, rows = tile.height / config_.patch_side;
  const PatchOrder order = patch_order(columns, rows, config_);
  std::vector<float> x = patches(tile, order);                    // [sequence, width]
  add_positions(x, order, columns, rows);
  if (before_layers_) norm(before_layers_, x, x);
  const std::vector<float> angles = config_.two_frames() ? rope_angles(order, columns, config_.head_width()) : std::vector<float>();
  const std::vector<Segment> everything{{0, static_cast<int64_t>(x.size()) / config_.width}};
  for (size_t i = 0; i < layers_.size(); ++i) {
    const bool windowed = config_.window_pattern > 0 && (static_cast<int64_t>(i) + 1) % config_.window_pattern != 0;
    run_layer(layers_[i], windowed ? order.windows : everything, angles, x);
  }
  if (after_layers_) norm(after_layers_, x, x);
  return project(std::move(x), order, columns, rows);
}

std::vector<float> Encoder::patches(const Tile& tile, const PatchOrder& order) {
  const int64_t side = config_.patch_side, columns = tile.width / side, floats = 3 * side * side;
  const auto count = static_cast<int64_t>(order.patches.size());
  std::vector<float> cut(static_cast<size_t>(count * floats));    // [patches, 3, side, side]
  for (int64_t i = 0; i < count; ++i) {
    const int64_t top = order.patches[static_cast<size_t>(i)] / columns * side, left = order.patches[static_cast<size_t>(i)] % columns * side;
    float* to = cut.data() + i * floats;
    for (int64_t c = 0; c < 3; ++c) {
      for (int64_t y = 0; y < side; ++y, to += side) std::copy_n(tile.planes.data() + (c * tile.height + top + y) * tile.width + left, side, to);
    }
  }
  const int64_t more = class_token_.empty() ? 0 : 1, before = config_.class_token == ClassToken::first ? more : 0;
  std::vector<float> x(static_cast<size_t>((more + count) * config_.width));
  std::copy(class_token_.begin(), class_token_.end(), x.begin() + (before > 0 ? 0 : count * config_.width));
  arithmetic_.linear(embedding_, cut.data(), count, x.data() + before * config_.width);
  return x;
}

void Encoder::add_positions(std::vector<float>& x, const PatchOrder& order, int64_t columns, int64_t rows) {
  if (!positions_) return;
  const int64_t width = config_.width, side = config_.grid_side();
  std::vector<float> row(static_cast<size_t>(width));
  const auto add = [&](int64_t place, int64_t from, float share) {
    positions_.row(from, row.data());
    for (int64_t i = 0; i < width; ++i) x[static_cast<size_t>(place * width + i)] += share * row[static_cast<size_t>(i)];
  };
  const auto sequence = static_cast<int64_t>(x.size()) / width;
  if (config_.projector != Projector::qwen3vl) {
    for (int64_t place = 0; place < sequence; ++place) add(place, place, 1);
    return;
  }
  // The table is a picture of side x side that is stretched over the grid, corner to corner.
  const auto source = [&](int64_t at, int64_t count) { return count > 1 ? static_cast<float>(at) * static_cast<float>(side - 1) / static_cast<float>(count - 1) : 0.0f; };
  for (int64_t place = 0; place < sequence; ++place) {
    const int64_t patch = order.patches[static_cast<size_t>(place)];
    const float y = source(patch / columns, rows), across = source(patch % columns, columns);
    const auto top = static_cast<int64_t>(y), left = static_cast<int64_t>(across);
    const float down = y - static_cast<float>(top), right = across - static_cast<float>(left);
    const int64_t below = std::min(top + 1, side - 1), beside = std::min(left + 1, side - 1);
    add(place, top * side + left, (1 - down) * (1 - right));
    add(place, top * side + beside, (1 - down) * right);
    add(place, below * side + left, down * (1 - right));
    add(place, below * side + beside, down * right);
  }
}

void Encoder::norm(const Norm& by, std::vector<float>& in, std::vector<float>& out) {
  const auto rows = static_cast<int64_t>(in.size() / by.gain.size());
  if (config_.projector == Projector::qwen25vl) arithmetic_.rms_norm(by, config_.epsilon, in.data(), rows, out.data());
  else arithmetic_.layer_norm(by, config_.epsilon, in.data(), rows, out.data());
}

void Encoder::run_layer(const Layer& layer, std::span<const Segment> segments, const std::vector<float>& angles, std::vector<float>& x) {
  const int64_t width = config_.width, heads = config_.heads, head_width = config_.head_width();
  const auto rows = static_cast<int64_t>(x.size()) / width;
  std::vector<float> normed(x.size()), qkv(3 * x.size()), mixed(x.size());
  norm(layer.before_attention, x, normed);
  const bool fused = static_cast<bool>(layer.qkv.weight);
  const int64_t stride = fused ? 3 * width : width;
  float* const q = qkv.data();
  float* const k = q + (fused ? width : rows * width);
  float* const v = k + (fused ? width : rows * width);
  if (fused) {
    arithmetic_.linear(layer.qkv, normed.data(), rows, q);        // [sequence, 3, heads, head width]
  } else {
    arithmetic_.linear(layer.q, normed.data(), rows, q);          // [sequence, heads, head width]
    arithmetic_.linear(layer.k, normed.data(), rows, k);
    arithmetic_.linear(layer.v, normed.data(), rows, v);
  }
  if (!angles.empty()) {
    arithmetic_.each(rows, [&](int64_t row, int) {
      turn(q + row * stride, heads, head_width, angles.data() + row * head_width);
      turn(k + row * stride, heads, head_width, angles.data() + row * head_width);
    });
  }
  arithmetic_.attention(q, k, v, stride, segments, {heads, head_width}, mixed.data());
  arithmetic_.linear(layer.out, mixed.data(), rows, normed.data());
  arithmetic_.add(x.data(), normed.data(), rows * width);
  norm(layer.before_ff, x, normed);
  std::vector<float> inner(static_cast<size_t>(rows * config_.ff)), gated;
  arithmetic_.linear(layer.up, normed.data(), rows, inner.data());  // [sequence, ff]
  if (config_.activation == Activation::silu) {
    gated.resize(inner.size());
    arithmetic_.linear(layer.gate, normed.data(), rows, gated.data());
    arithmetic_.activate(Activation::silu, gated.data(), inner.data(), rows * config_.ff);
    inner.swap(gated);
  } else {
    arithmetic_.activate(config_.activation, inner.data(), nullptr, rows * config_.ff);
  }
  arithmetic_.linear(layer.down, inner.data(), rows, normed.data());
  arithmetic_.add(x.data(), normed.data(), rows * width);
}

Embeddings Encoder::project(std::vector<float> x, const PatchOrder& order, int64_t columns, int64_t rows) {
  const int64_t width = config_.width, out_width = config_.out_width, merge = config_.merge;
  Embeddings out{columns / merge, rows / merge, {}};
  const int64_t count = out.columns * out.rows;
  out.values.resize(static_cast<size_t>(count * out_width));
  switch (config_.projector) {
    case Projector::gemma3:
      x = pooled(x, columns, rows, merge, width);                            // [embeddings, width]
      arithmetic_.rms_norm(projector_norm_, config_.epsilon, x.data(), count, x.data());
      arithmetic_.linear(first_, x.data(), count, out.values.data());
      return out;
    case Projector::idefics3:
      x = shuffled(x, columns, rows, merge, width);                          // [embeddings, merge * merge * width]
      arithmetic_.linear(first_, x.data(), count, out.values.data());
      return out;
    case Projector::mlp: {
      const float* const without_class = x.data() + (class_token_.empty() ? 0 : width);  // the first row is left out wherever the token stands
      if (!second_.weight) {
        arithmetic_.linear(first_, without_class, count, out.values.data());
        arithmetic_.activate(Activation::gelu, out.values.data(), nullptr, count * out_width);
        return out;
      }
      std::vector<float> inner(out.values.size());
      arithmetic_.linear(first_, without_class, count, inner.data());
      arithmetic_.activate(Activation::gelu, inner.data(), nullptr, count * out_width);
      arithmetic_.linear(second_, inner.data(), count, out.values.data());
      return out;
    }
    case Projector::qwen25vl:
    case Projector::qwen3vl: {
      // The patches of a cell stand together: the sequence is [cells, 4 * width] already.
      std::vector<float> inner(x.size()), in_sequence(out.values.size());
      arithmetic_.linear(first_, x.data(), count, inner.data());
      arithmetic_.activate(Activation::gelu, inner.data(), nullptr, static_cast<int64_t>(inner.size()));
      arithmetic_.linear(second_, inner.data(), count, in_sequence.data());
      for (int64_t i = 0; i < count; ++i) {
        std::copy_n(in_sequence.data() + i * out_width, out_width, out.values.data() + order.cells[static_cast<size_t>(i)] * out_width);
      }
      return out;
    }
  }
  return out;
}

}  // namespace vigil::vision
