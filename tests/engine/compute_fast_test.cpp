// The fast kernels against formulas in double precision, against one another (all instruction sets give the same bits, few rows and many rows
// too), and the fast backend's attention against the reference's at length.
#include <catch2/catch.hpp>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "engine/compute/backend.hpp"
#include "engine/compute/cpu/dequantise.hpp"
#include "engine/compute/cpu/fast_kernels.hpp"
#include "engine/compute/cpu/packed.hpp"
#include "engine/compute/cpu/panel_types.hpp"
#include "engine/gguf/writer.hpp"
#include "engine/sample/random.hpp"
#include "tools/random_model.hpp"

using namespace vigil;
using namespace vigil::compute;
using cpu::FastKernels;
using T = gguf::TensorType;

namespace {

using Floats = std::vector<float>;

Floats random_floats(int64_t count, uint64_t seed, float size = 1) {
  sample::Random random(seed);
  Floats values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(random.uniform() * 2 - 1) * size;
  return values;
}

// Every table that this processor can run.
std::vector<const FastKernels*> all_kernels() {
  std::vector<const FastKernels*> tables;
  for (const auto most : {cpu::InstructionSet::avx512_vbmi, cpu::InstructionSet::avx512, cpu::InstructionSet::avx2}) {
    const FastKernels* table = cpu::fast_kernels(most);
    if (table != nullptr && (tables.empty() || tables.back() != table)) tables.push_back(table);
  }
  return tables;
}

const T packed_types[] = {T::f32,  T::f16,  T::bf16, T::q4_0, T::q4_1, T::q5_0,   T::q5_1,   T::q8_0,
                          T::q2_k, T::q3_k, T::q4_k, T::q5_k, T::q6_k, T::iq4_nl, T::iq4_xs, T::mxfp4};

bool is_float(T type) { return type == T::f32 || type == T::f16 || type == T::bf16; }

// A random matrix, as the file has it, packed, and as floats.
struct Matrix {
  T type;
  int64_t rows, cols;
  std::vector<std::byte> file;
  std::vector<std::byte> packed;
  Floats values;
  int64_t group_bytes = 0;
  size_t row_bytes;

  Matrix(T kind, int64_t row_count, int64_t col_count, uint64_t seed) : type(kind), rows(row_count), cols(col_count) {
    // Every 256 columns of every row have a size of their own, so that no block's scale can stand for another's.
    for (int64_t piece = 0; piece < rows * cols / 256; ++piece) {
      const auto bytes = *tools::random_tensor(type, 1, 256, 0.02 + 0.003 * static_cast<double>(piece * 7 % 23), 0, seed + static_cast<uint64_t>(piece));
      file.insert(file.end(), bytes.begin(), bytes.end());
    }
    row_bytes = file.size() / static_cast<size_t>(rows);
    values.resize(static_cast<size_t>(rows * cols));
    for (int64_t r = 0; r < rows; ++r) cpu::dequantise_row(type, file.data() + static_cast<size_t>(r) * row_bytes, cols, values.data() + r * cols);
    if (!cpu::packed_form(type)) return;
    group_bytes = cpu::packed_group_bytes(*cpu::packed_form(type), cols);
    const int64_t groups = (rows + cpu::group_rows - 1) / cpu::group_rows;
    packed.resize(static_cast<size_t>(groups * group_bytes));
    for (int64_t g = 0; g < groups; ++g) cpu::pack_group(type, file.data(), rows, row_bytes, cols, g * cpu::group_rows, packed.data() + g * group_bytes);
  }
};

// Input rows, rounded by one table of kernels.
struct Input {
  int64_t rows, cols;
  Floats values;
  std::vector<std::byte> memory;

  Input(const FastKernels& kernels, int64_t row_count, int64_t col_count, uint64_t seed)
      : rows(row_count), cols(col_count), values(random_floats(rows * cols, seed)),
        memory(static_cast<size_t>(rows * cpu::quantised_row_bytes(cols)) + 64) {
    for (int64_t r = 0; r < rows; ++r) kernels.quantise_row(values.data() + r * cols, cols, row(r));
  }
  cpu::QuantisedRow row(int64_t r) {
    auto* begin = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
    return cpu::quantised_row(begin + r * cpu::quantised_row_bytes(cols), cols);
  }
  std::vector<cpu::ProductRow> products(Floats& out, int64_t out_cols) {
    std::vector<cpu::ProductRow> made;
    for (int64_t r = 0; r < rows; ++r) made.push_back({row(r), values.data() + r * cols, out.data() + r * out_cols});
    return made;
  }
};

Floats product_by_few(const FastKernels& kernels, const Matrix& matrix, Input& input) {
  Floats out(static_cast<size_t>(input.rows * matrix.rows), -1.0f);
  const auto rows = input.products(out, matrix.rows);
  for (int64_t first = 0, g = 0; first < matrix.rows; first += cpu::group_rows, ++g) {
    kernels.few(matrix.type, matrix.packed.data() + g * matrix.group_bytes, matrix.cols, rows.data(), input.rows, first,
                std::min(cpu::group_rows, matrix.rows - first));
  }
  return out;
}

Floats product_by_many(const FastKernels& kernels, const Matrix& matrix, Input& input) {
  Floats out(static_cast<size_t>(input.rows * matrix.rows), -1.0f), memory[2];
  const auto rows = input.products(out, matrix.rows);
  cpu::Panel panels[2];
  for (int64_t i = 0; i < 2; ++i) {
    memory[i].resize(static_cast<size_t>(cpu::panel_floats(matrix.cols)));
    panels[i] = cpu::panel_in(memory[i].data(), matrix.cols);
  }
  for (int64_t first = 0; first < matrix.rows; first += 2 * cpu::group_rows) {
    for (int64_t i = 0; i < 2 && first + i * cpu::group_rows < matrix.rows; ++i) {
      const int64_t row = first + i * cpu::group_rows, row_bytes = static_cast<int64_t>(matrix.row_bytes);
      if (matrix.packed.empty()) {
        const bool done = kernels.unpack_from_file(matrix.type, matrix.file.data() + row * row_bytes, row_bytes, matrix.cols,
                                                   std::min(cpu::group_rows, matrix.rows - row), panels[i]);
        if (!done) cpu::unpack_rows(matrix.type, matrix.file.data(), matrix.rows, matrix.row_bytes, matrix.cols, row, panels[i]);
      } else {
        kernels.unpack(matrix.type, matrix.packed.data() + row / cpu::group_rows * matrix.group_bytes, matrix.cols, panels[i]);
      }
    }
    kernels.many(matrix.type, panels, matrix.cols, rows.data(), input.rows, first, std::min(2 * cpu::group_rows, matrix.rows - first), {});
  }
  return out;
}

// The largest difference from the exact product of the weights and the inputs as they were rounded, in units of the sum of magnitudes.
double error_of(const Matrix& matrix, Input& input, const Floats& out) {
  double worst = 0;
  for (int64_t r = 0; r < input.rows; ++r) {
    const cpu::QuantisedRow rounded = input.row(r);
    for (int64_t w = 0; w < matrix.rows; ++w) {
      double exact = 0, size = 1e-9;
      for (int64_t c = 0; c < matrix.cols; ++c) {
        const double x = is_float(matrix.type) ? static_cast<double>(input.values[static_cast<size_t>(r * matrix.cols + c)])
                                               : static_cast<double>(rounded.scales[c / 32]) * rounded.codes[c];
        const double term = x * static_cast<double>(matrix.values[static_cast<size_t>(w * matrix.cols + c)]);
        exact += term;
        size += std::abs(term);
      }
      worst = std::max(worst, std::abs(exact - static_cast<double>(out[static_cast<size_t>(r * matrix.rows + w)])) / size);
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("packed products are the products, in every type, on every instruction set, of few rows and of many") {
  for (const T type : packed_types) {
    for (const int64_t cols : {256, 512, 768, 1280}) {  // 1, 2, 3 and 5 superblocks
      INFO(gguf::type_info(type)->name << ", " << cols << " columns");
      const Matrix matrix(type, 40, cols, 11);  // two whole groups and half of one
      Floats first_of_all;
      for (const FastKernels* kernels : all_kernels()) {
        INFO(kernels->name);
        Input input(*kernels, 13, cols, 12);
        const Floats few = product_by_few(*kernels, matrix, input);
        if (first_of_all.empty()) {
          first_of_all = few;
          CHECK(error_of(matrix, input, few) < 1e-6);
        }
        CHECK(few == first_of_all);
        if (!is_float(type)) CHECK(product_by_many(*kernels, matrix, input) == few);
        for (const int64_t rows : {1, 2, 3, 5}) {  // a row's result does not depend on its company
          Input less(*kernels, rows, cols, 12);
          const Floats part = product_by_few(*kernels, matrix, less);
          CHECK(std::equal(part.begin(), part.end(), few.begin()));
        }
      }
    }
  }
}

TEST_CASE("products of the types that stay as the file has them, unpacked and straight from their blocks") {
  for (const T type : {T::iq1_s, T::iq1_m, T::iq2_xxs, T::iq2_xs, T::iq2_s, T::iq3_xxs, T::iq3_s, T::q1_0, T::q2_0, T::tq1_0, T::tq2_0, T::nvfp4}) {
    for (const int64_t cols : {256, 768}) {
      INFO(gguf::type_info(type)->name << ", " << cols << " columns");
      const Matrix matrix(type, 40, cols, 11);
      Floats first_of_all;
      for (const FastKernels* kernels : all_kernels()) {
        INFO(kernels->name);
        Input input(*kernels, 7, cols, 12);
        const Floats many = product_by_many(*kernels, matrix, input);
        if (first_of_all.empty()) first_of_all = many;
        CHECK(many == first_of_all);
        CHECK(error_of(matrix, input, many) < 1e-6);
        Floats few(many.size());
        const auto rows = input.products(few, matrix.rows);
        bool known = false;
        for (int64_t first = 0; first < matrix.rows; first += cpu::group_rows) {
          known = kernels->few_from_file(type, matrix.file.data() + static_cast<size_t>(first) * matrix.row_bytes, static_cast<int64_t>(matrix.row_bytes), cols,
                                         rows.data(), input.rows, first, std::min(cpu::group_rows, matrix.rows - first));
        }
        if (known) CHECK(few == many);
      }
    }
  }
}

TEST_CASE("rounding an input row keeps each block's largest value and its sums") {
  for (const FastKernels* kernels : all_kernels()) {
    Floats values = random_floats(96, 3, 5);
    std::fill_n(values.begin() + 32, 32, 0.0f);  // nothing to scale by
    values[70] = -9;
    std::vector<std::byte> memory(static_cast<size_t>(cpu::quantised_row_bytes(96)) + 64);
    const cpu::QuantisedRow row = cpu::quantised_row(reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64), 96);
    kernels->quantise_row(values.data(), 96, row);
    CHECK(row.codes[70] == -127);
    CHECK(row.scales[1] == 0.0f);
    for (int64_t b = 0; b < 3; ++b) {
      int32_t sum = 0;
      for (int64_t i = 32 * b; i < 32 * b + 32; ++i) {
        sum += row.codes[i];
        CHECK(std::abs(static_cast<float>(row.codes[i]) * row.scales[b] - values[static_cast<size_t>(i)]) <= row.scales[b] * 0.501f);
      }
      CHECK(row.negative_sums[b] == -sum);
      CHECK(row.negative_halves[2 * b] + row.negative_halves[2 * b + 1] == -sum);
    }
  }
}

TEST_CASE("norms, gates and sums of rows are what their formulas say, odd lengths too") {
  for (const FastKernels* kernels : all_kernels()) {
    INFO(kernels->name);
    for (const int64_t cols : {1, 15, 16, 33, 256}) {
      const Floats in = random_floats(cols, 5, 30), gain = random_floats(cols, 6), up = random_floats(cols, 7);
      Floats out(in.size()), gated = in, sum = in;
      kernels->rms_norm_row(in.data(), gain.data(), 1e-5f, cols, out.data());
      kernels->gate_row(Gate::silu, gated.data(), up.data(), cols);
      kernels->add_row(sum.data(), up.data(), cols);
      double square = 0;
      for (const float value : in) square += static_cast<double>(value) * static_cast<double>(value);
      for (size_t i = 0; i < in.size(); ++i) {
        const double x = static_cast<double>(in[i]);
        CHECK(static_cast<double>(out[i]) == Approx(x / std::sqrt(square / static_cast<double>(cols) + 1e-5) * static_cast<double>(gain[i])).epsilon(1e-5));
        CHECK(static_cast<double>(gated[i]) == Approx(x / (1 + std::exp(-x)) * static_cast<double>(up[i])).epsilon(1e-5).margin(1e-12));
        CHECK(sum[i] == in[i] + up[i]);
      }
    }
    Floats extremes = {-1000, -88, -87.5f, 0, 88, 1000, std::numeric_limits<float>::quiet_NaN()};
    const Floats ones(extremes.size(), 1.0f);
    kernels->gate_row(Gate::silu, extremes.data(), ones.data(), static_cast<int64_t>(extremes.size()));
    CHECK(std::abs(extremes[0]) < 1e-30f);
    CHECK(extremes[3] == 0.0f);
    CHECK(extremes[4] == 88.0f);
    CHECK(extremes[5] == 1000.0f);
    CHECK(std::isnan(extremes[6]));
  }
}

TEST_CASE("the fast gates are the reference's") {
  const Floats gate = random_floats(200, 1, 14), up = random_floats(200, 2, 9);
  for (const Gate kind : {Gate::silu, Gate::gelu, Gate::clamped_silu}) {
    Floats plain = gate;
    cpu::gate_row(kind, plain.data(), up.data(), 200);
    for (const FastKernels* kernels : all_kernels()) {
      Floats fast = gate;
      kernels->gate_row(kind, fast.data(), up.data(), 200);
      // Rounding to half precision may go the other way where the value before it differs in its last bit.
      const double epsilon = kind == Gate::gelu ? 1e-3 : 1e-5;
      for (size_t i = 0; i < fast.size(); ++i) CHECK(static_cast<double>(fast[i]) == Approx(static_cast<double>(plain[i])).epsilon(epsilon).margin(1e-6));
    }
  }
}

TEST_CASE("the delta rule's fast step is the reference's") {
  for (const FastKernels* kernels : all_kernels()) {
    for (const int64_t value_dim : {16, 40, 128}) {
      const int64_t key_dim = 32;
      Floats fast = random_floats(key_dim * value_dim, 1), plain = fast, spare(static_cast<size_t>(value_dim));
      const Floats q = random_floats(key_dim, 2), k = random_floats(key_dim, 3), v = random_floats(value_dim, 4);
      Floats fast_out(spare.size()), plain_out(spare.size());
      kernels->delta_step(fast.data(), q.data(), k.data(), v.data(), {0.9f, 0.4f}, key_dim, value_dim, spare.data(), fast_out.data());
      cpu::delta_step(plain.data(), q.data(), k.data(), v.data(), {0.9f, 0.4f}, key_dim, value_dim, spare.data(), plain_out.data());
      for (size_t i = 0; i < fast_out.size(); ++i) CHECK(fast_out[i] == Approx(plain_out[i]).epsilon(1e-4).margin(1e-5));
      for (size_t i = 0; i < fast.size(); ++i) CHECK(fast[i] == Approx(plain[i]).epsilon(1e-4).margin(1e-5));
    }
  }
}

namespace {

// Attention of the last row over `length` positions on one backend, its cache filled in steps of `chunk` rows.
Floats attend(const std::string& name, KvType type, int64_t length, int64_t chunk, int64_t dim, const AttentionRule& rule, const Floats* sinks) {
  constexpr int64_t heads = 6, kv_heads = 2;
  auto made = make_backend({name, 2});
  REQUIRE(made);
  const std::unique_ptr<Backend> backend = std::move(*made);
  std::vector<std::byte> sink_bytes;
  AttentionRule used = rule;
  if (sinks != nullptr) {
    sink_bytes = gguf::f32_bytes(*sinks);
    used.sinks = *backend->bind("sinks", T::f32, 1, heads, sink_bytes, WeightUse::lookup);
  }
  REQUIRE(backend->prepare([](double) { return true; }, [](std::span<const std::byte>) {}));
  const int64_t blocks = (length + kv_block_positions - 1) / kv_block_positions;
  const KvCache cache = *backend->allocate_kv({type, 1, kv_heads, dim, blocks});
  const std::vector<double> turns(static_cast<size_t>(dim / 2), 0.01);
  const Rope rope = backend->bind_rope(RopeKind::half_split, turns);
  const Buffer q = *backend->allocate(chunk * heads * dim), out = *backend->allocate(chunk * heads * dim), angles = *backend->allocate(chunk * dim);
  const Buffer k = *backend->allocate(chunk * kv_heads * dim), v = *backend->allocate(chunk * kv_heads * dim);
  StepData step({chunk, 1, 1, blocks});
  std::iota(step.blocks(0).begin(), step.blocks(0).end(), 0);
  Floats last;
  for (int64_t first = 0; first < length; first += chunk) {
    const int64_t rows = std::min(chunk, length - first);
    for (int64_t r = 0; r < rows; ++r) {
      step.positions()[static_cast<size_t>(r)] = static_cast<int32_t>(first + r);
      const uint64_t seed = static_cast<uint64_t>(first + r) * 3 + 1;
      std::copy_n(random_floats(heads * dim, seed).begin(), heads * dim, q.address + r * heads * dim);
      std::copy_n(random_floats(kv_heads * dim, seed + 1).begin(), kv_heads * dim, k.address + r * kv_heads * dim);
      std::copy_n(random_floats(kv_heads * dim, seed + 2).begin(), kv_heads * dim, v.address + r * kv_heads * dim);
    }
    backend->upload(step);
    const bool wanted = first + rows == length;
    REQUIRE(backend->run([&](Ops& ops) {
      ops.rope_angles(rope, angles, rows);
      ops.rope_and_store(rope, angles, q, k, v, cache, 0, heads, rows);
      if (wanted) ops.attention(q, cache, 0, heads, used, out, rows);
    }) == RunOutcome::finished);
    if (wanted) last.assign(out.address + (rows - 1) * heads * dim, out.address + rows * heads * dim);
  }
  return last;
}

void check_attention(KvType type, int64_t length, int64_t dim, const AttentionRule& rule = {0.3f, 0, {}}, const Floats* sinks = nullptr) {
  INFO(length << " positions, " << dim << " wide, window " << rule.window);
  const Floats expected = attend("reference", type, length, 128, dim, rule, sinks);
  const Floats whole = attend("cpu", type, length, 128, dim, rule, sinks);
  double worst = 0, square = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(whole[i]) - static_cast<double>(expected[i])));
    square += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
  }
  CHECK(worst < 2e-5);
  CHECK(std::sqrt(square / static_cast<double>(whole.size())) > 1e-3);
  for (const int64_t chunk : {int64_t{1}, int64_t{37}}) {
    if (length <= 300) CHECK(attend("cpu", type, length, chunk, dim, rule, sinks) == whole);
  }
}

}  // namespace

TEST_CASE("fast attention is the reference's at every length around a block, with windows and sinks, in both number types") {
  const Floats sinks = random_floats(6, 9);
  for (const KvType type : {KvType::f16, KvType::f32}) {
    for (const int64_t length : {1, 2, 63, 64, 65, 127, 128, 129, 300}) check_attention(type, length, 64);
    for (const int64_t dim : {8, 40, 80, 128}) check_attention(type, 70, dim);
    for (const int64_t window : {1, 16, 64, 100}) check_attention(type, 200, 64, {0.3f, window, {}});
    check_attention(type, 150, 64, {0.3f, 0, {}}, &sinks);
  }
}

TEST_CASE("fast attention is the reference's after 4,096 and 32,768 positions") {
  check_attention(KvType::f16, 4096, 32);
  check_attention(KvType::f16, 32768, 16);
}

TEST_CASE("a quantised cache is read as its blocks say, and stays near the exact one") {
  for (const KvType type : {KvType::q8_0, KvType::q4_0}) {
    INFO(name_of(type));
    for (const int64_t length : {1, 64, 130}) {
      for (const int64_t dim : {32, 96, 128}) check_attention(type, length, dim);
    }
    check_attention(type, 200, 64, {0.3f, 40, {}});
    const Floats exact = attend("reference", KvType::f32, 130, 130, 64, {0.3f, 0, {}}, nullptr);
    const Floats rounded = attend("cpu", type, 130, 130, 64, {0.3f, 0, {}}, nullptr);
    double apart = 0, size = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      apart += std::pow(static_cast<double>(rounded[i] - exact[i]), 2);
      size += std::pow(static_cast<double>(exact[i]), 2);
    }
    CHECK(std::sqrt(apart / size) < (type == KvType::q8_0 ? 0.02 : 0.3));
    CHECK(apart > 0);
  }
  for (const char* name : {"reference", "cpu"}) {
    const auto backend = make_backend({name, 1});
    REQUIRE(backend);
    const auto refused = (*backend)->allocate_kv({KvType::q8_0, 1, 1, 40, 1});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().find("multiple of 32") != std::string::npos);
  }
}
