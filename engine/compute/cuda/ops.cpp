// Each op as launches of its kernels; what it has to do before them is decided here, on the host, from arguments alone.
#include "engine/compute/cuda/ops.hpp"

#include <cassert>

#include "engine/compute/cuda/op_kernels.hpp"

namespace vigil::compute::cuda {
namespace {

// Most memory for what KV blocks give before it is merged; a single row's is always worth it up to the second figure (docs/cuda.md).
constexpr uint64_t usual_partial_bytes = uint64_t{64} << 20, most_partial_bytes = uint64_t{256} << 20;

Matrix matrix_of(const Weight& weight) {
  assert(weight.packed != nullptr);  // bound for products or as a table
  return {weight.type, weight.rows, weight.cols, weight.packed};
}

const float* values_of(const Weight& weight) {
  assert(weight.packed == nullptr);  // bound by values
  return reinterpret_cast<const float*>(weight.address);
}

}  // namespace

std::byte* CudaOps::product_scratch(size_t bytes) {
  if (rehearsal_ != nullptr) {
    rehearsal_->products = std::max<uint64_t>(rehearsal_->products, bytes);
    return nullptr;
  }
  if (Result<void> grown = backend_.products_.grow(bytes); !grown) throw DeviceLost(grown.error());  // only without reserve()
  return backend_.products_.memory.get();
}

void CudaOps::embed(const Weight& table, Buffer out, int64_t rows) {
  assert(out.floats >= rows * table.cols);
  prepared_ = {};
  issue([&](cudaStream_t stream) { cuda::embed(stream, matrix_of(table), backend_.step_.ids, out.address, rows); });
}

void CudaOps::place_pictures(Buffer pictures, Buffer into, int64_t cols, int64_t rows) {
  assert(into.floats >= rows * cols);
  prepared_ = {};
  issue([&](cudaStream_t stream) { cuda::place_pictures(stream, backend_.step_, pictures.address, into.address, cols, rows); });
}

void CudaOps::rms_norm(Buffer in, const Weight& gain, float epsilon, Buffer out, int64_t rows) {
  assert(in.floats >= rows * gain.cols && out.floats >= rows * gain.cols);
  prepared_ = {};
  issue([&](cudaStream_t stream) { cuda::rms_norm(stream, in.address, values_of(gain), epsilon, out.address, gain.cols, rows); });
}

void CudaOps::matmul(const Weight& weight, Buffer in, Buffer out, int64_t rows) {
  assert(in.floats >= rows * weight.cols && out.floats >= rows * weight.rows);
  const Matrix matrix = matrix_of(weight);
  std::byte* scratch = product_scratch(product_scratch_bytes(rows, weight.cols));
  const Prepared wanted{in.address, input_form(weight.type), rows, weight.cols};
  issue([&](cudaStream_t stream) {
    if (prepared_ != wanted) prepare_input(stream, wanted.form, in.address, rows, weight.cols, scratch);
    product_of_prepared(stream, matrix, scratch, out.address, rows);
  });
  prepared_ = out.address == in.address ? Prepared{} : wanted;
}

void CudaOps::add_bias(Buffer into, const Weight& bias, int64_t rows) {
  assert(into.floats >= rows * bias.cols);
  if (into.address == prepared_.in) prepared_ = {};
  issue([&](cudaStream_t stream) { cuda::add_bias(stream, into.address, values_of(bias), bias.cols, rows); });
}

void CudaOps::rope_angles(const Rope& rope, Buffer out, int64_t rows) {
  assert(out.floats >= rows * rope.rotated);
  prepared_ = {};
  issue([&](cudaStream_t stream) { cuda::rope_angles(stream, backend_.step_, rope, out.address, rows); });
}

void CudaOps::rope_and_store(const Rope& rope, Buffer angles, Buffer q, Buffer k, Buffer v, const KvCache& cache, int64_t layer, int64_t heads,
                             int64_t rows) {
  const int64_t dim = cache.shape.head_dim;
  assert(q.floats >= rows * heads * dim && k.floats >= rows * cache.shape.kv_heads * dim && v.floats >= rows * cache.shape.kv_heads * dim);
  static_cast<void>(dim);
  prepared_ = {};
  issue([&](cudaStream_t stream) {
    cuda::rope_and_store(stream, backend_.step_.with(cache.shape.table), rope, angles.address, q.address, k.address, v.address, cache, layer, heads, rows);
  });
}

void CudaOps::attention(Buffer q, const KvCache& cache, int64_t layer, int64_t heads, const AttentionRule& rule, Buffer out, int64_t rows) {
  const KvShape& shape = cache.shape;
  assert(q.floats >= rows * heads * shape.head_dim && out.floats >= rows * heads * shape.head_dim);
  prepared_ = {};
  // Without reserve() or room for a single row all rows take the form that needs no partials.
  const uint64_t row_bytes = static_cast<uint64_t>(attention_partial_floats(1, heads, shape.head_dim, backend_.step_.blocks_per_sequence)) * sizeof(float);
  if (rehearsal_ != nullptr && row_bytes <= most_partial_bytes) {
    const uint64_t usual = std::clamp<uint64_t>(usual_partial_bytes / row_bytes, 1, attention_few_rows) * row_bytes;
    rehearsal_->attention = std::max(rehearsal_->attention, usual);
  }
  issue([&](cudaStream_t stream) {
    const float* sinks = rule.sinks ? values_of(rule.sinks) : nullptr;
    const int64_t partial_floats = static_cast<int64_t>(backend_.attention_.memory.bytes() / sizeof(float));
    cuda::attention(stream, backend_.step_.with(shape.table), q.address, cache, layer, heads, rule.scale, rule.window, sinks, backend_.attention_.memory.as<float>(),
                    partial_floats, out.address, rows);
  });
}

void CudaOps::gate(Gate kind, Buffer gate, Buffer up, int64_t cols, int64_t rows) {
  assert(gate.floats >= rows * cols && up.floats >= rows * cols);
  prepared_ = {};
  issue([&](cudaStream_t stream) { cuda::gate(stream, kind, gate.address, up.address, rows * cols); });
}

void CudaOps::sigmoid_gate(Buffer into, Buffer gate, int64_t gate_cols, int64_t cols, int64_t rows) {
  assert((gate_cols == 1 || gate_cols == cols) && into.floats >= rows * cols && gate.floats >= rows * gate_cols);
  prepared_ = {};
  issue([&](cudaStream_t stream) { cuda::sigmoid_gate(stream, into.address, gate.address, gate_cols, cols, rows); });
}

void CudaOps::add(Buffer into, Buffer from, int64_t cols, int64_t rows) {
  assert(into.floats >= rows * cols && from.floats >= rows * cols);
  prepared_ = {};
  issue([&](cudaStream_t stream) { cuda::add(stream, into.address, from.address, rows * cols); });
}

void CudaOps::scale(Buffer into, float factor, int64_t cols, int64_t rows) {
  assert(into.floats >= rows * cols);
  prepared_ = {};
  issue([&](cudaStream_t stream) { cuda::scale(stream, into.address, factor, rows * cols); });
}

void CudaOps::split(Buffer joined, Buffer first, Buffer second, int64_t cols, int64_t count) {
  assert(joined.floats >= 2 * count * cols && first.floats >= count * cols && second.floats >= count * cols);
  prepared_ = {};
  issue([&](cudaStream_t stream) { cuda::split(stream, joined.address, first.address, second.address, cols, count); });
}

void CudaOps::route(Buffer logits, int64_t experts, int64_t used, Buffer choice, int64_t rows) {
  assert(used <= experts && logits.floats >= rows * experts && choice.floats >= 2 * rows * used);
  prepared_ = {};
  issue([&](cudaStream_t stream) { cuda::route(stream, logits.address, experts, used, choice.address, rows); });
}

void CudaOps::find_slots(Buffer choice, Buffer slots, int64_t used, int64_t rows) {
  assert(choice.floats >= 2 * rows * used);
  prepared_ = {};
  issue([&](cudaStream_t stream) { cuda::find_slots(stream, choice.address, slots.address, used, rows); });
}

void CudaOps::expert_matmul(const Weight& experts, int64_t out_cols, Buffer choice, int64_t used, ExpertInput kind, Buffer in, Buffer out, int64_t rows) {
  const int64_t count = experts.rows / out_cols;
  assert(in.floats >= rows * (kind == ExpertInput::row ? 1 : used) * experts.cols && out.floats >= rows * used * out_cols);
  prepared_ = {};
  std::byte* scratch = product_scratch(expert_scratch_bytes(rows, used, count, experts.cols));
  issue([&](cudaStream_t stream) {
    expert_product(stream, matrix_of(experts), out_cols, {choice.address, rows, used, count, kind == ExpertInput::choice}, in.address, out.address, scratch);
  });
}

void CudaOps::add_expert_bias(Buffer into, const Weight& bias, Buffer choice, int64_t used, int64_t rows) {
  assert(into.floats >= rows * used * bias.cols);
  prepared_ = {};
  issue([&](cudaStream_t stream) { cuda::add_expert_bias(stream, into.address, values_of(bias), bias.cols, choice.address, used, rows); });
}

void CudaOps::sum_experts(Buffer in, Buffer choice, int64_t used, Buffer out, int64_t cols, int64_t rows) {
  assert(in.floats >= rows * used * cols && out.floats >= rows * cols);
  prepared_ = {};
  issue([&](cudaStream_t stream) { cuda::sum_experts(stream, in.address, choice.address, used, out.address, cols, rows); });
}

void CudaOps::convolve(const Weight& kernels, const StateCache& states, int64_t layer, Buffer in, Buffer out, int64_t rows) {
  assert(kernels.rows == states.shape.channels() && kernels.cols == states.shape.kernel);
  assert(in.floats >= rows * kernels.rows && out.floats >= rows * kernels.rows);
  prepared_ = {};
  issue([&](cudaStream_t stream) { cuda::convolve(stream, backend_.step_, values_of(kernels), states, layer, in.address, out.address, rows); });
}

void CudaOps::delta_net(const DeltaInput& input, const StateCache& states, int64_t layer, Buffer out, int64_t rows) {
  const StateShape& shape = states.shape;
  assert(input.qkv.floats >= rows * shape.channels() && out.floats >= rows * shape.value_heads * shape.value_dim);
  assert(input.alpha.floats >= rows * shape.value_heads && input.beta.floats >= rows * shape.value_heads);
  static_cast<void>(shape);
  prepared_ = {};
  issue([&](cudaStream_t stream) {
    const DeltaPointers pointers{input.qkv.address, input.beta.address, input.alpha.address, values_of(input.decay), values_of(input.decay_bias)};
    cuda::delta_net(stream, backend_.step_, pointers, input.order, input.epsilon, states, layer, out.address, rows);
  });
}

void CudaOps::select_outputs(Buffer in, Buffer out, int64_t cols, int64_t outputs) {
  assert(out.floats >= outputs * cols);
  prepared_ = {};
  issue([&](cudaStream_t stream) { cuda::select_outputs(stream, backend_.step_, in.address, out.address, cols, outputs); });
}

void CudaOps::pick_best(Buffer scores, int64_t cols, int64_t count, Buffer picked, int64_t rows) {
  assert(count <= most_picked && scores.floats >= rows * cols && picked.floats >= 2 * rows * count);
  prepared_ = {};
  std::byte* scratch = product_scratch(pick_scratch_bytes(cols, rows));
  issue([&](cudaStream_t stream) { cuda::pick_best(stream, scores.address, cols, count, scratch, picked.address, rows); });
}

}  // namespace vigil::compute::cuda
