// The host's side of the CUDA backend on the emulated device: memory that runs out, a device that is absent, slow, broken or silent, weights on
// their way to it, and an engine that ends with the reason.
#include <catch2/catch.hpp>

#include <chrono>
#include <cstring>
#include <set>
#include <string>

#include "engine/compute/cpu/dequantise.hpp"
#include "engine/gguf/writer.hpp"
#include "tests/cuda_on_cpu/device_support.hpp"
#include "tests/engine/model_support.hpp"
#include "tools/random_model.hpp"

using namespace vigil;
using namespace vigil::compute;
using Catch::Matchers::Contains;
using vigil::testing::DeviceSetting;
using vigil::testing::TinyLlama;
using vigil::testing::device_options;
using vigil::testing::on_device;
using vigil::testing::some_floats;

namespace {

const auto go_on = [](double) { return true; };
const auto keep = [](std::span<const std::byte>) {};

}  // namespace

TEST_CASE("without a device there is no backend, and the reason says what to do") {
  const DeviceSetting setting;
  cuda_on_cpu::device.count = 0;
  const auto none = cuda::CudaBackend::make();
  REQUIRE_FALSE(none);
  CHECK_THAT(none.error(), Contains("no usable device") && Contains("nvidia-smi"));
  cuda_on_cpu::device.count = 1;
  cuda_on_cpu::device.sticky = cudaErrorInsufficientDriver;
  const auto old = cuda::CudaBackend::make();
  REQUIRE_FALSE(old);
  CHECK_THAT(old.error(), Contains("cudaErrorInsufficientDriver"));
}

TEST_CASE("memory that the device has not is an error with numbers, and the device works on") {
  const DeviceSetting setting;
  const auto backend = on_device();
  cuda_on_cpu::device.memory_bytes[0] = cuda_on_cpu::allocated_bytes() + (size_t{3} << 20);
  const std::vector<float> values = some_floats(1 << 20);
  const std::vector<std::byte> bytes = gguf::f32_bytes(values);
  const std::string numbers = "device memory: 4.0 MiB wanted, 3.0 MiB free of";
  for (const WeightUse use : {WeightUse::product, WeightUse::lookup, WeightUse::values}) {
    const auto weight = backend->bind("blk.7.ffn_up.weight", gguf::TensorType::f32, 1024, 1024, bytes, use);
    REQUIRE_FALSE(weight);
    CHECK_THAT(weight.error(), Contains("tensor 'blk.7.ffn_up.weight': " + numbers));
  }
  const auto buffer = backend->allocate(1 << 20);
  REQUIRE_FALSE(buffer);
  CHECK_THAT(buffer.error(), Contains(numbers));
  const auto kv = backend->allocate_kv({KvType::f32, 8, 4, 64, 8});
  REQUIRE_FALSE(kv);
  CHECK_THAT(kv.error(), Contains("KV cache: device memory: 8.0 MiB wanted"));
  const auto states = backend->allocate_states({4, 4, 4, 4, 128, 128, 8});
  REQUIRE_FALSE(states);
  CHECK_THAT(states.error(), Contains("recurrent state: device memory"));
  CHECK(backend->allocate(1 << 10));
}

TEST_CASE("what the kernels cannot do is refused with what to do") {
  const auto backend = on_device();
  const auto odd = backend->allocate_kv({KvType::q8_0, 1, 1, 40, 1});
  REQUIRE_FALSE(odd);
  CHECK_THAT(odd.error(), Contains("multiple of 32 values, not 40; use f16"));
  const auto wide = backend->allocate_kv({KvType::f16, 1, 1, 576, 1});
  REQUIRE_FALSE(wide);
  CHECK_THAT(wide.error(), Contains("576 values are over the 512") && Contains("--backend cpu"));
  const auto keys = backend->allocate_states({1, 4, 1, 1, 512, 64, 1});
  REQUIRE_FALSE(keys);
  CHECK_THAT(keys.error(), Contains("512 values are over the 256") && Contains("--backend cpu"));
}

TEST_CASE("a model that the device has no room for is refused before it is read, with numbers") {
  const DeviceSetting setting;
  TinyLlama tiny;
  const std::vector<std::byte> bytes = tiny.bytes();
  const size_t before = cuda_on_cpu::allocated_bytes();
  size_t least = 0;  // of the rooms in which it loads
  for (const size_t room : {size_t{200} << 10, size_t{600} << 10, size_t{1} << 20, size_t{2} << 20, size_t{8} << 20, size_t{64} << 20}) {
    cuda_on_cpu::device.memory_bytes[0] = before + room;
    const auto runtime = vigil::testing::try_load(bytes, device_options());
    if (runtime) {
      least = least == 0 ? room : least;
      continue;
    }
    CHECK(least == 0);
    CHECK_THAT(runtime.error(), Contains("MiB"));
    CHECK((runtime.error().find("wanted") != std::string::npos || runtime.error().find("does not fit") != std::string::npos));
  }
  CHECK(least > (size_t{200} << 10));
  CHECK(cuda_on_cpu::allocated_bytes() == before);
}

TEST_CASE("auto takes a model to the CPU when the device has no room for it, and notes the numbers") {
  const DeviceSetting setting;
  TinyLlama tiny;
  const std::vector<std::byte> bytes = tiny.bytes();
  schedule::RuntimeOptions options = device_options();
  options.backend.backend = "auto";
  const size_t before = cuda_on_cpu::allocated_bytes();
  {
    const auto on_gpu = vigil::testing::try_load(bytes, options);
    REQUIRE(on_gpu);
    CHECK((*on_gpu)->backend().on_gpu());
  }
  cuda_on_cpu::device.memory_bytes[0] = before + (size_t{200} << 10);
  const auto on_cpu = vigil::testing::try_load(bytes, options);
  REQUIRE(on_cpu);
  CHECK_FALSE((*on_cpu)->backend().on_gpu());
  REQUIRE((*on_cpu)->backend().notes().size() == 1);
  CHECK_THAT((*on_cpu)->backend().notes()[0], Contains("the GPU cannot have the model: ") && Contains("MiB"));
  CHECK(cuda_on_cpu::allocated_bytes() == before);
  TinyLlama incomplete;
  incomplete.leave_out = "blk.1.ffn_up.weight";
  const std::vector<std::byte> bad = incomplete.bytes();
  const auto neither = vigil::testing::try_load(bad, options);
  REQUIRE_FALSE(neither);
  CHECK_THAT(neither.error(), Contains("blk.1.ffn_up.weight"));
}

TEST_CASE("after the load no step takes memory") {
  TinyLlama tiny;
  const auto loaded = vigil::testing::load_tiny(tiny, device_options());
  cache::Sequence sequence(loaded.runtime->pool());
  const size_t after_load = cuda_on_cpu::allocated_bytes();
  const std::vector<int32_t> ids = vigil::testing::random_ids(70, tiny.vocabulary, 1);
  REQUIRE(sequence.reserve(70));
  for (size_t done = 0; done < 64; done += 16) REQUIRE(loaded.runtime->step(sequence, std::span(ids).subspan(done, 16), 1) == RunOutcome::finished);
  REQUIRE(loaded.runtime->step(sequence, std::span(ids).subspan(64, 1), 1) == RunOutcome::finished);
  CHECK(cuda_on_cpu::allocated_bytes() == after_load);
}

TEST_CASE("a device that has failed says so at the next op, copy and wait") {
  const DeviceSetting setting;
  const auto backend = on_device();
  const Buffer a = *backend->allocate(64), b = *backend->allocate(64);
  cuda_on_cpu::device.sticky = cudaErrorIllegalAddress;
  std::vector<float> values(64);
  CHECK_THROWS_AS(backend->run([&](Ops& ops) { ops.add(a, b, 64, 1); }), DeviceLost);
  CHECK_THROWS_WITH(backend->read(a, 0, values), Contains("cudaErrorIllegalAddress"));
  CHECK_THROWS_AS(backend->write(a, 0, values), DeviceLost);
  StepData step({1, 1, 1, 1});
  CHECK_THROWS_AS(backend->upload(step), DeviceLost);
  CHECK_THROWS_AS(backend->allocate(64), DeviceLost);
}

TEST_CASE("a device that hangs shows as steps that stand still, and is given up after the limit") {
  const DeviceSetting setting;
  auto now = std::chrono::steady_clock::time_point{};
  const auto backend = on_device([&] { return now += std::chrono::seconds(1); });
  const Buffer a = *backend->allocate(64), b = *backend->allocate(64);
  backend->run([&](Ops& ops) { ops.add(a, b, 64, 1); });
  const uint64_t steps = backend->control().steps;
  const auto start = now;
  cuda_on_cpu::device.unready_queries = -1;
  CHECK_THROWS_WITH(backend->run([&](Ops& ops) {
    for (int i = 0; i < 1000; ++i) ops.add(a, b, 64, 1);
  }), Contains("nothing was finished for 60 s"));
  CHECK(backend->control().steps == steps);
  CHECK(now - start < std::chrono::seconds(70));
}

TEST_CASE("a slow device is waited for, and every op is counted when it is done") {
  const DeviceSetting setting;
  const auto backend = on_device();
  const Buffer a = *backend->allocate(64), b = *backend->allocate(64);
  const uint64_t steps = backend->control().steps;
  cuda_on_cpu::device.unready_queries = 500;
  CHECK(backend->run([&](Ops& ops) {
    for (int i = 0; i < 300; ++i) ops.add(a, b, 64, 1);
    CHECK(backend->control().steps < steps + 300);
  }) == RunOutcome::finished);
  CHECK(backend->control().steps == steps + 300);
}

TEST_CASE("weights are read once, let go as they are read, and can be given up") {
  TinyLlama tiny;
  const auto backend = on_device();
  const int64_t rows = 20000, cols = 1024;
  const std::vector<std::byte> big = gguf::q8_0_bytes(some_floats(static_cast<size_t>(rows * cols))), small = gguf::f32_bytes(some_floats(64));
  const auto table = backend->bind("token_embd.weight", gguf::TensorType::q8_0, rows, cols, big, WeightUse::lookup);
  const size_t one = cuda_on_cpu::allocated_bytes();
  const auto output = backend->bind("token_embd.weight", gguf::TensorType::q8_0, rows, cols, big, WeightUse::product);
  REQUIRE((table && output));
  CHECK(output->packed == table->packed);  // an embedding that is the output too is there once
  CHECK(cuda_on_cpu::allocated_bytes() == one);
  REQUIRE(backend->bind("norm", gguf::TensorType::f32, 1, 64, small, WeightUse::values));
  int calls = 0;
  CHECK_FALSE(backend->prepare([&](double) { return ++calls < 2; }, keep));
  CHECK(calls == 2);
  std::set<const std::byte*> released;
  double last = -1;
  CHECK(backend->prepare(
      [&](double share) {
        CHECK((share >= last && share <= 1));
        last = share;
        return true;
      },
      [&](std::span<const std::byte> part) { released.insert(part.data()); }));
  CHECK(last == 1);
  CHECK(released.count(small.data()) == 1);
  CHECK(released.size() >= 3);  // the big one in pieces
}

TEST_CASE("a type without kernels is kept as halves, and named once") {
  const auto backend = on_device();
  const int64_t rows = 19, cols = 256;
  // Q2_K: 84 bytes for 256 weights; any bytes are weights but for the two half-precision scales at its end.
  std::vector<std::byte> bytes(static_cast<size_t>(rows) * 84);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 89 % 251);
  for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
    const uint16_t scales[2] = {0x2e66, 0x2a66};  // 0.1 and 0.05
    std::memcpy(bytes.data() + r * 84 + 80, scales, sizeof scales);
  }
  const Weight weight = *backend->bind("a", gguf::TensorType::q2_k, rows, cols, bytes, WeightUse::product);
  CHECK(weight.type == gguf::TensorType::f16);
  const Buffer in = *backend->allocate(cols), out = *backend->allocate(rows);
  REQUIRE(backend->prepare(go_on, keep));
  REQUIRE(backend->notes().size() == 1);
  CHECK_THAT(backend->notes()[0], Contains("1 tensors of type Q2_K are kept as F16"));
  const std::vector<float> x = some_floats(static_cast<size_t>(cols));
  backend->write(in, 0, x);
  backend->run([&](Ops& ops) { ops.matmul(weight, in, out, 1); });
  std::vector<float> ours(static_cast<size_t>(rows)), values(static_cast<size_t>(cols));
  backend->read(out, 0, ours);
  for (int64_t r = 0; r < rows; ++r) {
    cpu::dequantise_row(gguf::TensorType::q2_k, bytes.data() + r * 84, cols, values.data());
    double expected = 0, size = 0;
    for (size_t c = 0; c < values.size(); ++c) {
      expected += static_cast<double>(values[c]) * static_cast<double>(x[c]);
      size += std::abs(static_cast<double>(values[c]) * static_cast<double>(x[c]));
    }
    CHECK(std::abs(static_cast<double>(ours[static_cast<size_t>(r)]) - expected) < size * 0x1p-11);
  }
}

TEST_CASE("slots of matrices take any of a file's, at any time, and are what the file has") {
  const int64_t experts = 6, slots = 4, rows = 16, cols = 256;
  for (const gguf::TensorType type : {gguf::TensorType::q8_0, gguf::TensorType::f16, gguf::TensorType::f32, gguf::TensorType::q2_k}) {
    INFO(gguf::type_info(type)->name);
    const std::vector<std::byte> file = *tools::random_tensor(type, experts * rows, cols, 1, 0, 4), biases = gguf::f32_bytes(some_floats(static_cast<size_t>(experts * rows)));
    const auto of = [&](const std::vector<std::byte>& bytes, int64_t first, int64_t count) {
      const size_t each = bytes.size() / static_cast<size_t>(experts);
      return std::span(bytes).subspan(static_cast<size_t>(first) * each, static_cast<size_t>(count) * each);
    };
    const auto backend = on_device();
    const Weight whole = *backend->bind("w", type, experts * rows, cols, file, WeightUse::product), all = *backend->bind("b", gguf::TensorType::f32, experts, rows, biases, WeightUse::values);
    const size_t before = cuda_on_cpu::allocated_bytes();
    const uint64_t own = *backend->own_memory();
    const Weight some = *backend->bind_slots("w", type, slots, rows, cols, WeightUse::product), few = *backend->bind_slots("b", gguf::TensorType::f32, slots, 1, rows, WeightUse::values);
    CHECK(cuda_on_cpu::allocated_bytes() - before == backend->bytes_kept(type, slots * rows, cols, WeightUse::product) + static_cast<size_t>(slots * rows) * sizeof(float));
    // Their bytes count with those of the file, as they do in what is needed.
    if (type != gguf::TensorType::q2_k) CHECK(std::abs(static_cast<int64_t>(*backend->own_memory() - own)) < 4096);
    const auto fill = [&](int64_t slot, int64_t first, int64_t count) {
      backend->fill_slots(some, slot * rows, of(file, first, count));
      backend->fill_slots(few, slot, of(biases, first, count));
    };
    fill(0, 0, 4);  // before the load's end and after it
    REQUIRE(backend->prepare(go_on, keep));
    fill(2, 4, 2);
    fill(0, 3, 1);
    const std::vector<float> expert_of = {3, 1, 4, 5}, slot_choice = {0, 1, 1, 1, 2, 1, 3, 1}, whole_choice = {3, 1, 1, 1, 4, 1, 5, 1};
    const Buffer in = *backend->allocate(cols), choice = *backend->allocate(8), out = *backend->allocate(4 * rows);
    backend->write(in, 0, some_floats(static_cast<size_t>(cols)));
    const auto outcome = [&](const std::vector<float>& chosen, const Weight& weight, const Weight& bias) {
      backend->write(choice, 0, chosen);
      backend->run([&](Ops& ops) { ops.expert_matmul(weight, rows, choice, 4, ExpertInput::row, in, out, 1), ops.add_expert_bias(out, bias, choice, 4, 1); });
      std::vector<float> values(static_cast<size_t>(4 * rows));
      backend->read(out, 0, values);
      return values;
    };
    CHECK(outcome(slot_choice, some, few) == outcome(whole_choice, whole, all));
  }
  const auto odd = on_device()->bind_slots("blk.3.ffn_up_exps.weight", gguf::TensorType::f32, 2, 20, 64, WeightUse::product);
  REQUIRE_FALSE(odd);
  CHECK_THAT(odd.error(), Contains("tensor 'blk.3.ffn_up_exps.weight': an expert of 20 rows, no multiple of 8,") && Contains("--gpu-experts 0"));
}

TEST_CASE("rows are written where they belong, however many, and what was started before is not disturbed") {
  const auto backend = on_device();
  for (const int64_t cols : {5, 30000, 300000}) {  // of the last not one fits into what copies pass through
    const int64_t count = cols == 5 ? 4000 : 12;
    const Buffer into = *backend->allocate(count * cols);
    backend->write(into, 0, std::vector<float>(static_cast<size_t>(into.floats), 1.0f));
    std::vector<int64_t> rows;
    for (int64_t row = 0; row < count; ++row) {
      if (row % 5 < 2 || row > count / 2) rows.push_back(row);
    }
    const std::vector<float> values = some_floats(rows.size() * static_cast<size_t>(cols));
    CHECK(backend->start([&](Ops& ops) { ops.scale(into, 3, cols, count); }, {}) == RunOutcome::finished);
    backend->write_rows(into, cols, rows, values);
    backend->finish();
    std::vector<float> all(static_cast<size_t>(into.floats)), expected(all.size(), 3.0f);
    backend->read(into, 0, all);
    for (size_t i = 0; i < rows.size(); ++i) std::copy_n(values.begin() + static_cast<int64_t>(i) * cols, cols, expected.begin() + rows[i] * cols);
    CHECK(all == expected);
  }
}

TEST_CASE("a copied KV block has every layer and head") {
  const auto backend = on_device();
  const KvShape shape{KvType::f32, 3, 2, 16, 4};
  const KvCache cache = *backend->allocate_kv(shape);
  const Buffer whole{reinterpret_cast<float*>(cache.address), static_cast<int64_t>(shape.bytes() / sizeof(float))};
  backend->write(whole, 0, some_floats(static_cast<size_t>(whole.floats)));
  REQUIRE(backend->copy_block(cache, 1, 3));
  std::vector<float> values(static_cast<size_t>(whole.floats));
  backend->read(whole, 0, values);
  const auto block = values.begin();
  const std::ptrdiff_t floats = static_cast<std::ptrdiff_t>(shape.block_bytes() / sizeof(float));
  CHECK(std::equal(block + floats, block + 2 * floats, block + 3 * floats));
  CHECK_FALSE(std::equal(block + floats, block + 2 * floats, block + 2 * floats));
}

TEST_CASE("an engine whose device fails during a request says FATAL with the reason and ends") {
  const DeviceSetting setting;
  TinyLlama tiny;
  std::string seen;
  const int status = vigil::testing::run_engine(tiny.bytes(), device_options(), [&](std::string_view line) -> std::string {
    seen += line;
    if (line.starts_with("ERR") || line.starts_with("DONE")) return "QUIT\n";  // this test has failed
    if (!line.starts_with("READY")) return "";
    cuda_on_cpu::device.sticky = cudaErrorIllegalAddress;
    return "GEN 5 1,2,3\n";
  });
  CHECK(status == 1);
  CHECK_THAT(seen, Contains("backend=cuda%20"));
  CHECK_THAT(seen.substr(seen.find("READY")), Contains(" gpu"));
  CHECK_THAT(seen, Contains("FATAL CUDA device: ") && Contains("cudaErrorIllegalAddress"));
}
