// Memory, copies and the run of a step; the ops themselves are in ops.cpp.
#include "engine/compute/cuda/backend.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "engine/compute/cuda/op_kernels.hpp"
#include "engine/compute/cuda/ops.hpp"

namespace vigil::compute::cuda {
namespace {

constexpr size_t pinned_bytes = size_t{1} << 20;  // copies of scores and pictures pass through so much

}  // namespace

Result<std::unique_ptr<Backend>> CudaBackend::make(const GpuOptions& options, Clock clock) {
  static_cast<void>(cudaGetLastError());  // what an earlier call in this thread left is not this device's
  try {
    const Result<DeviceInfo> device = choose_device(options.device);
    if (!device) return Error{device.error()};
    std::unique_ptr<CudaBackend> backend(new CudaBackend(*device, options, std::move(clock)));
    backend->try_a_kernel();
    return std::unique_ptr<Backend>(std::move(backend));
  } catch (const DeviceLost& failure) {
    return Error{std::string("no usable device: ") + failure.what()};
  }
}

CudaBackend::CudaBackend(const DeviceInfo& device, const GpuOptions& options, Clock clock)
    : device_(device.index), name_("cuda " + device.name), clock_(std::move(clock)), progress_(stream_, control_, clock_), pinned_(pinned_bytes), graphs_(options.graphs) {}
CudaBackend::~CudaBackend() = default;

void CudaBackend::be_current() { need(cudaSetDevice(device_), "choosing the device"); }

void CudaBackend::try_a_kernel() {
  Result<DeviceMemory> memory = DeviceMemory::take(sizeof(float));
  if (!memory) throw DeviceLost(memory.error());
  scale(stream_.get(), memory->as<float>(), 1, 1);
  need(cudaGetLastError(), "a first kernel (is this build's VIGIL_CUDA_ARCHITECTURES right for it?)");
  progress_.finish();
}

Result<Weight> CudaBackend::bind(std::string_view tensor_name, gguf::TensorType type, int64_t rows, int64_t cols, std::span<const std::byte> bytes,
                                 WeightUse use) {
  be_current();
  return weights_.bind(tensor_name, type, rows, cols, bytes, use);
}

bool CudaBackend::prepare(const std::function<bool(double)>& progress, const std::function<void(std::span<const std::byte>)>& release) {
  be_current();
  for (std::string& note : weights_.converted()) add_note(std::move(note));
  return weights_.upload(stream_, clock_, progress, release);
}

Result<Weight> CudaBackend::bind_slots(std::string_view tensor_name, gguf::TensorType type, int64_t slots, int64_t rows, int64_t cols, WeightUse use) {
  be_current();
  return weights_.bind_slots(tensor_name, type, slots, rows, cols, use);
}

void CudaBackend::fill_slots(const Weight& slots, int64_t first_row, std::span<const std::byte> bytes) {
  be_current();
  weights_.fill_slots(stream_, clock_, slots, first_row, bytes);
}

Rope CudaBackend::bind_rope(RopeKind kind, std::span<const double> frequencies, double magnitude, std::span<const uint8_t> axes) {
  be_current();
  const auto put = [&](const void* from, size_t bytes) {
    Result<std::byte*> memory = take(bytes);
    if (!memory) throw DeviceLost("rope table: " + memory.error());  // some hundred bytes: a device that has not even these is of no use
    copy_in(*memory, from, bytes);
    return *memory;
  };
  Rope rope{kind, static_cast<int64_t>(2 * frequencies.size()), nullptr, magnitude};
  if (!frequencies.empty()) rope.frequencies = reinterpret_cast<const double*>(put(frequencies.data(), frequencies.size_bytes()));
  assert(axes.empty() || axes.size() == frequencies.size());
  if (!axes.empty()) rope.axes = reinterpret_cast<const uint8_t*>(put(axes.data(), axes.size()));
  return rope;
}

Result<std::byte*> CudaBackend::take(uint64_t bytes) {
  be_current();
  Result<DeviceMemory> memory = DeviceMemory::take(bytes);
  if (!memory) return Error{memory.error()};
  memory_.push_back(std::move(*memory));
  return memory_.back().get();
}

Result<Buffer> CudaBackend::allocate(int64_t floats) {
  const uint64_t bytes = static_cast<uint64_t>(floats) * sizeof(float);
  Result<std::byte*> memory = take(bytes);
  if (!memory) return Error{memory.error()};
  buffer_bytes_ += bytes;
  return Buffer{reinterpret_cast<float*>(*memory), floats};
}

Result<KvCache> CudaBackend::allocate_kv(const KvShape& shape) {
  if (is_quantised(shape.type) && shape.head_dim % 32 != 0) {
    return Error{"a KV cache of type " + std::string(name_of(shape.type)) + " needs heads of a multiple of 32 values, not " +
                 std::to_string(shape.head_dim) + "; use f16"};
  }
  if (shape.head_dim > attention_most_head_dim) {
    return Error{"heads of " + std::to_string(shape.head_dim) + " values are over the " + std::to_string(attention_most_head_dim) +
                 " that the CUDA backend computes; use --backend cpu"};
  }
  Result<std::byte*> memory = take(shape.bytes());
  if (!memory) return Error{"KV cache: " + memory.error()};
  return KvCache{shape, *memory};
}

Result<StateCache> CudaBackend::allocate_states(const StateShape& shape) {
  if (shape.key_dim > delta_most_key_dim) {
    return Error{"recurrent states with keys of " + std::to_string(shape.key_dim) + " values are over the " + std::to_string(delta_most_key_dim) +
                 " that the CUDA backend computes; use --backend cpu"};
  }
  Result<std::byte*> memory = take(shape.slot_bytes() * static_cast<uint64_t>(shape.slots));
  if (!memory) return Error{"recurrent state: " + memory.error()};
  return StateCache{shape, reinterpret_cast<float*>(*memory)};
}

uint64_t CudaBackend::bytes_kept(gguf::TensorType type, int64_t rows, int64_t cols, WeightUse use) const {
  return weights_.bytes_kept(type, rows, cols, use);
}

std::optional<uint64_t> CudaBackend::own_memory() {
  be_current();
  size_t free_bytes = 0, all = 0;
  need(cudaMemGetInfo(&free_bytes, &all), "asking for free memory");
  return free_bytes + weights_.file_bytes() + buffer_bytes_;
}

Result<void> CudaBackend::Scratch::grow(uint64_t bytes) {
  if (bytes <= memory.bytes()) return {};
  memory = DeviceMemory();  // the old one goes first
  Result<DeviceMemory> taken = DeviceMemory::take(bytes);
  if (!taken) return Error{"scratch of the largest step: " + taken.error()};
  memory = std::move(*taken);
  return {};
}

Result<void> CudaBackend::reserve(const std::function<void(Ops&)>& forward) {
  be_current();
  ScratchNeed need_of_step;
  CudaOps rehearsal(*this, need_of_step);
  forward(rehearsal);
  if (Result<void> grown = products_.grow(need_of_step.products); !grown) return grown;
  return attention_.grow(need_of_step.attention);
}

bool CudaBackend::copy_block(const KvCache& cache, int32_t from, int32_t to) {
  be_current();
  const size_t bytes = cache.shape.block_bytes();
  need(cudaMemcpyAsync(cache.address + static_cast<size_t>(to) * bytes, cache.address + static_cast<size_t>(from) * bytes, bytes, cudaMemcpyDeviceToDevice,
                       stream_.get()),
       "copying a KV block");
  return true;  // on the stream: later steps find it done
}

void CudaBackend::upload(StepData& step) {
  be_current();
  const std::span<const int32_t> words = step.words();
  if (words.size_bytes() > step_words_.bytes()) {
    Result<DeviceMemory> taken = DeviceMemory::take(words.size_bytes());
    if (!taken) throw DeviceLost("words of a step: " + taken.error());
    step_words_ = std::move(*taken);
  }
  copy_in(step_words_.get(), words.data(), words.size_bytes());
  const auto at = [&](std::span<int32_t> part) { return step_words_.as<const int32_t>() + (part.data() - words.data()); };
  step_.ids = at(step.ids());
  step_.positions = at(step.positions());
  step_.sequences = at(step.sequences());
  step_.sources = at(step.sources());
  step_.ahead = at(step.ahead());
  for (int64_t axis = 0; axis < rope_axes; ++axis) step_.shifts[axis] = at(step.shifts(axis));
  step_.outputs = at(step.outputs());
  step_.states = at(step.states(0));
  step_.blocks = at(step.blocks(0));
  step_.sequence_count = static_cast<int32_t>(step.limits().sequences);
  step_.blocks_per_sequence = static_cast<int32_t>(step.limits().blocks_per_sequence);
}

RunOutcome CudaBackend::run(const std::function<void(Ops&)>& forward, const RunKind& kind) {
  const RunOutcome outcome = start(forward, kind);
  progress_.finish();  // an abort too: what was issued still writes
  return outcome;
}

RunOutcome CudaBackend::start(const std::function<void(Ops&)>& forward, const RunKind& kind) {
  be_current();
  if (const StepGraph* graph = graph_of(forward, kind)) return replay(*graph);
  CudaOps ops(*this);
  forward(ops);
  return ops.saw_abort() ? RunOutcome::aborted : RunOutcome::finished;
}

void CudaBackend::finish() {
  be_current();
  progress_.finish();
}

const StepGraph* CudaBackend::graph_of(const std::function<void(Ops&)>& forward, const RunKind& kind) {
  const StepGraphs::Choice choice = graphs_.choose(kind, {step_, products_.memory.get(), attention_.memory.get()});
  if (choice.way != StepGraphs::Way::record) return choice.graph;
  GraphRecorder recorder(stream_);
  CudaOps ops(*this, recorder);
  forward(ops);
  if (ops.saw_abort()) return nullptr;  // and only a part was recorded
  Result<StepGraph> recorded = recorder.finish();
  if (recorded) return graphs_.keep(kind, std::move(*recorded));
  graphs_.give_up();
  add_note("steps are launched op by op, not as CUDA graphs: " + recorded.error());
  return nullptr;
}

RunOutcome CudaBackend::replay(const StepGraph& graph) {
  bool aborted = false;
  for (const StepGraph::Piece& piece : graph.pieces) {
    if ((aborted = control_->abort.load(std::memory_order_relaxed))) break;
    piece.graph.launch(stream_);
    progress_.issued(piece.ops);
  }
  return aborted ? RunOutcome::aborted : RunOutcome::finished;
}

void CudaBackend::copy_in(void* to, const void* from, size_t bytes) {
  for (size_t done = 0; done < bytes; done += pinned_.bytes()) {
    const size_t count = std::min(bytes - done, pinned_.bytes());
    std::memcpy(pinned_.get(), static_cast<const std::byte*>(from) + done, count);
    need(cudaMemcpyAsync(static_cast<std::byte*>(to) + done, pinned_.get(), count, cudaMemcpyHostToDevice, stream_.get()), "copying to the device");
    progress_.finish();
  }
}

void CudaBackend::copy_out(void* to, const void* from, size_t bytes) {
  for (size_t done = 0; done < bytes; done += pinned_.bytes()) {
    const size_t count = std::min(bytes - done, pinned_.bytes());
    need(cudaMemcpyAsync(pinned_.get(), static_cast<const std::byte*>(from) + done, count, cudaMemcpyDeviceToHost, stream_.get()), "copying from the device");
    progress_.finish();
    std::memcpy(static_cast<std::byte*>(to) + done, pinned_.get(), count);
  }
}

void CudaBackend::read(Buffer from, int64_t offset, std::span<float> out) {
  assert(offset + static_cast<int64_t>(out.size()) <= from.floats);
  be_current();
  copy_out(out.data(), from.address + offset, out.size_bytes());
}

void CudaBackend::write(Buffer to, int64_t offset, std::span<const float> values) {
  assert(offset + static_cast<int64_t>(values.size()) <= to.floats);
  be_current();
  copy_in(to.address + offset, values.data(), values.size_bytes());
}

// Rows that are next to each other are one copy, and one wait is for as many as pinned memory holds.
void CudaBackend::write_rows(Buffer to, int64_t cols, std::span<const int64_t> rows, std::span<const float> values) {
  be_current();
  const size_t row_bytes = static_cast<size_t>(cols) * sizeof(float), at_once = pinned_.bytes() / row_bytes;
  if (at_once == 0) return Backend::write_rows(to, cols, rows, values);
  for (size_t done = 0; done < rows.size(); done += at_once) {
    const std::span<const int64_t> some = rows.subspan(done, std::min(at_once, rows.size() - done));
    std::memcpy(pinned_.get(), values.data() + done * static_cast<size_t>(cols), some.size() * row_bytes);
    for (size_t first = 0, end; first < some.size(); first = end) {
      for (end = first + 1; end < some.size() && some[end] == some[end - 1] + 1;) ++end;
      need(cudaMemcpyAsync(to.address + some[first] * cols, pinned_.get() + first * row_bytes, (end - first) * row_bytes, cudaMemcpyHostToDevice, stream_.get()),
           "copying rows to the device");
    }
    progress_.finish();
  }
}

}  // namespace vigil::compute::cuda
