// Fuzz target: a model's file that lies. The input says which good model to make (architecture, weight type, backend) and which of its bytes to
// change or where to cut it; what still loads computes a few tokens. Not here: headers and vocabularies alone (gguf_fuzz.cpp).
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>

#include "engine/schedule/runtime.hpp"
#include "tools/random_model.hpp"

using namespace vigil;

namespace {

using T = gguf::TensorType;

constexpr T types[] = {T::f32,  T::f16,  T::bf16, T::q4_0,    T::q4_1,   T::q5_0,  T::q5_1,    T::q8_0,  T::q2_k,   T::q3_k,  T::q4_k,  T::q5_k, T::q6_k, T::iq1_s,
                       T::iq1_m, T::iq2_xxs, T::iq2_xs, T::iq2_s, T::iq3_xxs, T::iq3_s, T::iq4_nl, T::iq4_xs, T::tq1_0, T::tq2_0, T::q1_0, T::q2_0, T::mxfp4, T::nvfp4};

void require(bool truth) {
  if (!truth) std::abort();
}

const std::vector<std::byte>& good_model(size_t architecture, size_t type) {
  static std::map<std::pair<size_t, size_t>, std::vector<std::byte>> made;
  std::vector<std::byte>& bytes = made[{architecture, type}];
  if (!bytes.empty()) return bytes;
  tools::RandomModel model;
  model.architecture = tools::random_architectures()[architecture];
  model.type = types[type];
  model.layers = 2;
  model.width = model.ff = 256;
  model.heads = 2;
  model.kv_heads = 1;
  model.head_dim = 32;
  model.vocabulary = 40;
  model.experts = 2;
  model.experts_used = 1;
  gguf::Writer writer;
  require(tools::add_random_model(model, writer).ok());
  return bytes = writer.bytes();
}

// Reads numbers off the input; zeros behind its end.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return at_ >= size_; }
  uint32_t number(size_t bytes) {
    uint32_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value |= static_cast<uint32_t>(at_ < size_ ? data_[at_++] : 0) << (8 * i);
    return value;
  }

 private:
  const uint8_t* data_;
  size_t size_, at_ = 0;
};

// Most changes go into the header, which is small beside the weights.
void change(std::vector<std::byte>& bytes, Input& input) {
  constexpr size_t most_changes = 64;
  for (size_t i = 0; i < most_changes && !input.empty() && !bytes.empty(); ++i) {
    const uint32_t kind = input.number(1);
    const size_t reach = kind % 4 == 0 ? bytes.size() : std::min<size_t>(bytes.size(), 6000);
    const size_t place = input.number(3) % reach;
    if (kind % 16 == 15) {
      bytes.resize(place);
      continue;
    }
    const uint32_t value = input.number(kind % 16 < 8 ? 1 : 4);
    std::memcpy(bytes.data() + place, &value, std::min<size_t>(kind % 16 < 8 ? 1 : 4, bytes.size() - place));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const size_t architecture = input.number(1) % tools::random_architectures().size(), type = input.number(1) % std::size(types);
  const uint32_t how = input.number(1);
  std::vector<std::byte> bytes = good_model(architecture, type);
  const bool untouched = input.empty();
  change(bytes, input);
  const auto source = gguf::from_memory(bytes);
  const auto file = gguf::File::parse(*source);
  if (!file) {
    require(!file.error().empty() && !untouched);
    return 0;
  }
  schedule::RuntimeOptions options;
  options.context = 130;
  options.step_rows = 16;
  options.backend = {how % 2 == 0 ? "auto" : "reference", 1};
  constexpr compute::KvType kv_types[] = {compute::KvType::f16, compute::KvType::f32, compute::KvType::q8_0, compute::KvType::q4_0};
  options.kv_type = kv_types[how / 2 % 4];
  options.available_bytes = uint64_t{256} << 20;
  const auto runtime = schedule::Runtime::make(*file, bytes, options);
  if (!runtime) {
    require(!runtime.error().empty() && !untouched);
    return 0;
  }
  const int64_t vocabulary = (*runtime)->model().vocabulary();
  std::vector<int32_t> ids(12);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(static_cast<int64_t>(i * 7) % vocabulary);
  cache::Sequence sequence((*runtime)->pool());
  std::vector<float> scores(static_cast<size_t>(vocabulary));
  for (int round = 0; round < 2; ++round) {
    const std::span<const int32_t> part = round == 0 ? std::span<const int32_t>(ids) : std::span<const int32_t>(ids).first(1);
    require(sequence.reserve(static_cast<int64_t>(part.size())));
    require((*runtime)->step(sequence, part, 1) == compute::RunOutcome::finished);
    (*runtime)->read_scores(0, scores);
  }
  return 0;
}
