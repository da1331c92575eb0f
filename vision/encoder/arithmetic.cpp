// See arithmetic.hpp. Work is dealt out by an atomic counter: threads that start late take less of it.
#include "vision/encoder/arithmetic.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>

#include "engine/compute/cpu/half.hpp"

namespace vigil::vision {
namespace {

constexpr int64_t panels_bytes = 768 * 1024;  // of weights in floats that input rows run over in one go: about half of a core's cache
constexpr int64_t query_rows = 96;            // of one head that are scored at once
constexpr int64_t value_block = 4096;         // values of one task of elementwise work
constexpr float table_range = 10;

// panel[cols][panel_lanes] = `lanes` rows of the matrix from `first`, zeros behind them. `row` is [cols].
void fill_panel(const Matrix& weight, int64_t first, int64_t lanes, float* row, float* panel) {
  for (int64_t lane = 0; lane < panel_lanes; ++lane) {
    if (lane < lanes) weight.row(first + lane, row);
    else std::fill_n(row, weight.cols, 0.0f);
    for (int64_t k = 0; k < weight.cols; ++k) panel[k * panel_lanes + lane] = row[k];
  }
}

constexpr int64_t panels_of(int64_t lanes) { return (lanes + panel_lanes - 1) / panel_lanes; }

// Values at every half-precision number, since there are no others.
template <typename Function>
std::vector<float> table_of(Function function) {
  std::vector<float> table(1 << 16);
  for (uint32_t i = 0; i < table.size(); ++i) {
    const float x = compute::cpu::half_to_float(static_cast<uint16_t>(i));
    table[i] = compute::cpu::half_to_float(compute::cpu::float_to_half(function(x)));
  }
  return table;
}

}  // namespace

float gelu(float x) {
  // Hendrycks and Gimpel 2016, tanh form.
  static const std::vector<float> table = table_of([](float v) { return 0.5f * v * (1.0f + std::tanh(0.79788456080286535587989211986876f * v * (1.0f + 0.044715f * v * v))); });
  if (x <= -table_range) return 0;
  if (x >= table_range) return x;
  return table[compute::cpu::float_to_half(x)];
}

float quick_gelu(float x) {
  static const std::vector<float> table = table_of([](float v) { return v * (1.0f / (1.0f + std::exp(-1.702f * v))); });
  return table[compute::cpu::float_to_half(x)];
}

void Arithmetic::each(int64_t count, const std::function<void(int64_t, int)>& work) {
  std::atomic<int64_t> next{0};
  team_.run([&](int thread) {
    for (int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) work(i, thread);
  });
}

void Arithmetic::linear(const Linear& by, const float* in, int64_t rows, float* out) {
  const Matrix& weight = by.weight;
  const int64_t all = panels_of(weight.rows), panel_floats = weight.cols * panel_lanes;
  const int64_t fit = std::clamp<int64_t>(panels_bytes / (panel_floats * static_cast<int64_t>(sizeof(float))), 1, 8);
  const int64_t share = std::max<int64_t>(1, all / threads());
  const int64_t group = std::min(fit, share);
  std::vector<std::vector<float>> scratch(static_cast<size_t>(threads()));
  each((all + group - 1) / group, [&](int64_t task, int thread) {
    std::vector<float>& panels = scratch[static_cast<size_t>(thread)];
    panels.resize(static_cast<size_t>(group * panel_floats + weight.cols));
    const int64_t first = task * group, count = std::min(group, all - first);
    for (int64_t p = 0; p < count; ++p) {
      const int64_t row = (first + p) * panel_lanes;
      fill_panel(weight, row, std::min(panel_lanes, weight.rows - row), panels.data() + group * panel_floats, panels.data() + p * panel_floats);
    }
    constexpr int64_t rows_at_once = 24;
    for (int64_t row = 0; row < rows; row += rows_at_once) {
      const int64_t many = std::min(rows_at_once, rows - row);
      for (int64_t p = 0; p < count; ++p) {
        const int64_t lane = (first + p) * panel_lanes, lanes = std::min(panel_lanes, weight.rows - lane);
        float* const to = out + row * weight.rows + lane;
        multiply_panel(panels.data() + p * panel_floats, weight.cols, in + row * weight.cols, weight.cols, many, to, weight.rows, lanes);
        if (by.bias.empty()) continue;
        for (int64_t r = 0; r < many; ++r) {
          for (int64_t i = 0; i < lanes; ++i) to[r * weight.rows + i] += by.bias[static_cast<size_t>(lane + i)];
        }
      }
    }
  });
}

void Arithmetic::layer_norm(const Norm& norm, double epsilon, const float* in, int64_t rows, float* out) {
  const auto width = static_cast<int64_t>(norm.gain.size());
  each(rows, [&](int64_t row, int) {
    const float* from = in + row * width;
    float* to = out + row * width;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < width; ++i) sum += from[i];
    const auto mean = static_cast<float>(sum / static_cast<double>(width));
    for (int64_t i = 0; i < width; ++i) squares += static_cast<double>(from[i] - mean) * (from[i] - mean);
    const float by = 1.0f / std::sqrt(static_cast<float>(squares / static_cast<double>(width)) + static_cast<float>(epsilon));
    for (int64_t i = 0; i < width; ++i) {
      const auto place = static_cast<size_t>(i);
      to[i] = (from[i] - mean) * by * norm.gain[place] + (norm.shift.empty() ? 0.0f : norm.shift[place]);
    }
  });
}

void Arithmetic::rms_norm(const Norm& norm, double epsilon, const float* in, int64_t rows, float* out) {
  const auto width = static_cast<int64_t>(norm.gain.size());
  each(rows, [&](int64_t row, int) {
    const float* from = in + row * width;
    double squares = 0;
    for (int64_t i = 0; i < width; ++i) squares += static_cast<double>(from[i]) * from[i];
    const float by = 1.0f / std::sqrt(static_cast<float>(squares / static_cast<double>(width)) + static_cast<float>(epsilon));
    for (int64_t i = 0; i < width; ++i) out[row * width + i] = from[i] * by * norm.gain[static_cast<size_t>(i)];
  });
}

void Arithmetic::activate(Activation kind, float* values, const float* up, int64_t count) {
  each((count + value_block - 1) / value_block, [&](int64_t task, int) {
    const int64_t end = std::min(count, (task + 1) * value_block);
    for (int64_t i = task * value_block; i < end; ++i) {
      switch (kind) {
        case Activation::gelu: values[i] = gelu(values[i]); break;
        case Activation::quick_gelu: values[i] = quick_gelu(values[i]); break;
        case Activation::silu: values[i] = values[i] / (1.0f + std::exp(-values[i])) * up[i]; break;
      }
    }
  });
}

void Arithmetic::add(float* into, const float* from, int64_t count) {
  each((count + value_block - 1) / value_block, [&](int64_t task, int) {
    const int64_t end = std::min(count, (task + 1) * value_block);
    for (int64_t i = task * value_block; i < end; ++i) into[i] += from[i];
  });
}

void Arithmetic::attention(const float* q, const float* k, const float* v, int64_t stride, std::span<const Segment> segments, Heads heads, float* out) {
  // Keys as panels of 32 rows [width][lanes], values as panels of 32 columns [rows][lanes], for each head; each segment begins a panel of keys.
  const int64_t rows = segments.back().end, value_panels = panels_of(heads.width);
  std::vector<int64_t> first_panel;
  int64_t key_panels = 0, longest = 0, tasks = 0;
  struct Task {
    size_t segment;
    int64_t first, count;
  };
  std::vector<Task> blocks;
  for (size_t s = 0; s < segments.size(); ++s) {
    const int64_t length = segments[s].end - segments[s].first;
    first_panel.push_back(key_panels);
    key_panels += panels_of(length);
    longest = std::max(longest, length);
    for (int64_t row = 0; row < length; row += query_rows) blocks.push_back({s, segments[s].first + row, std::min(query_rows, length - row)});
  }
  tasks = static_cast<int64_t>(blocks.size());
  const int64_t key_floats = key_panels * heads.width * panel_lanes, value_floats = value_panels * rows * panel_lanes;
  const auto keys = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(heads.count * key_floats));
  const auto values = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(heads.count * value_floats));
  each(heads.count, [&](int64_t head, int) {
    float* const head_keys = keys.get() + head * key_floats;
    std::fill_n(head_keys, key_floats, 0.0f);
    for (size_t s = 0; s < segments.size(); ++s) {
      for (int64_t row = segments[s].first; row < segments[s].end; ++row) {
        const int64_t place = row - segments[s].first;
        float* const panel = head_keys + (first_panel[s] + place / panel_lanes) * heads.width * panel_lanes + place % panel_lanes;
        for (int64_t i = 0; i < heads.width; ++i) panel[i * panel_lanes] = k[row * stride + head * heads.width + i];
      }
    }
    for (int64_t p = 0; p < value_panels; ++p) {
      const int64_t lanes = std::min(panel_lanes, heads.width - p * panel_lanes);
      for (int64_t row = 0; row < rows; ++row) {
        float* const to = values.get() + head * value_floats + (p * rows + row) * panel_lanes;
        std::fill_n(std::copy_n(v + row * stride + head * heads.width + p * panel_lanes, lanes, to), panel_lanes - lanes, 0.0f);
      }
    }
  });
  const float scale = 1.0f / std::sqrt(static_cast<float>(heads.width));
  std::vector<std::vector<float>> scratch(static_cast<size_t>(threads()));
  each(heads.count * tasks, [&](int64_t task, int thread) {
    const int64_t head = task / tasks;
    const Task& block = blocks[static_cast<size_t>(task % tasks)];
    const Segment& segment = segments[block.segment];
    const int64_t length = segment.end - segment.first;
    std::vector<float>& scores = scratch[static_cast<size_t>(thread)];
    scores.resize(static_cast<size_t>(query_rows * longest));
    for (int64_t p = 0; p < panels_of(length); ++p) {
      multiply_panel(keys.get() + head * key_floats + (first_panel[block.segment] + p) * heads.width * panel_lanes, heads.width,
                     q + block.first * stride + head * heads.width, stride, block.count, scores.data() + p * panel_lanes, length,
                     std::min(panel_lanes, length - p * panel_lanes));
    }
    for (int64_t r = 0; r < block.count; ++r) softmax(scores.data() + r * length, length, scale);
    for (int64_t p = 0; p < value_panels; ++p) {
      multiply_panel(values.get() + head * value_floats + (p * rows + segment.first) * panel_lanes, length, scores.data(), length, block.count,
                     out + (block.first * heads.count + head) * heads.width + p * panel_lanes, heads.count * heads.width,
                     std::min(panel_lanes, heads.width - p * panel_lanes));
    }
  });
}

}  // namespace vigil::vision
