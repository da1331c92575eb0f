// A place where ops run, chosen once at start. Owns the memory behind every handle that it gives out.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/compute/ops.hpp"
#include "engine/compute/step.hpp"
#include "protocol/result.hpp"

namespace vigil::compute {

// Shared with other threads: they set `abort` and watch `steps`; only the compute loop writes `steps`, once per op.
struct Control {
  std::atomic<bool> abort{false};
  std::atomic<uint64_t> steps{0};
};

// What a weight is for: a factor of products, which a backend may arrange anew for speed; rows that embed looks up; or, for every other op
// (norms, biases, sinks, convolution kernels), its values one by one.
enum class WeightUse { product, lookup, values };

// The device has failed and will not come back within this process: whoever runs the engine says why and ends it.
class DeviceLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// An aborted run has written nothing that counts: the caller must not advance a committed length.
enum class RunOutcome { finished, aborted };

// Runs of one kind issue the very same ops with the same arguments; what differs is only what was uploaded and what the buffers hold. So a backend may
// keep how such a run is done, and do the next one without asking `forward`.
struct RunKind {
  const void* model = nullptr;  // whose forward pass it is; null = of no kind
  int64_t rows = 0, scores = 0, hidden = 0;
  int64_t first_op = 0, ops = 0;  // of a pass that is cut into several runs: where this one begins, and how long it is
  bool operator==(const RunKind&) const = default;
};

// What a backend of several places has in one of them.
struct MemoryShare {
  std::string name;
  std::optional<uint64_t> own;            // as Backend::own_memory()
  uint64_t weights = 0, buffers = 0;      // bytes: of bound tensors as files have them, of activations
  int64_t kv_layers = 0, window_layers = 0, state_layers = 0;  // whose caches are to be here: of attention that sees everything or a window, of states
};

// A backend with memory of its own throws DeviceLost, from any of its functions, when that device fails.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  virtual bool on_gpu() const { return false; }  // this process's processors rest while it computes
  // Lines for whoever runs the engine: what is not as they may expect.
  const std::vector<std::string>& notes() const { return notes_; }
  void add_note(std::string note) { notes_.push_back(std::move(note)); }

  // `bytes` is the tensor's data, rows * row size long; it must outlive the backend (a CPU backend reads it in place). Nothing is read yet.
  // An error names the tensor and its type when the backend has no kernel for it.
  virtual Result<Weight> bind(std::string_view tensor_name, gguf::TensorType type, int64_t rows, int64_t cols,
                              std::span<const std::byte> bytes, WeightUse use) = 0;
  // Reads every bound weight in, so that the first request waits for no disk, and arranges those that products use. Once, after the last
  // bind and before the first run. `progress` is called with 0 to 1 and returns false to give up: then the result is false. `release` is
  // called with bytes that were arranged anew and will hardly be read again.
  virtual bool prepare(const std::function<bool(double)>& progress, const std::function<void(std::span<const std::byte>)>& release) = 0;
  // A weight of `slots` matrices of [rows, cols], one after the other, whose values come later: fill_slots puts those of neighbouring slots there, from
  // the bytes of as many matrices as a file has them. Between runs, after prepare() too.
  virtual Result<Weight> bind_slots(std::string_view tensor_name, gguf::TensorType type, int64_t slots, int64_t rows, int64_t cols, WeightUse use) {
    (void)type, (void)slots, (void)rows, (void)cols, (void)use;
    return Error{"tensor '" + std::string(tensor_name) + "': " + std::string(name()) + " keeps no part of one"};
  }
  virtual void fill_slots(const Weight& slots, int64_t first_row, std::span<const std::byte> bytes) { (void)slots, (void)first_row, (void)bytes; }
  // `axes`: one for each frequency, or empty.
  virtual Rope bind_rope(RopeKind kind, std::span<const double> frequencies, double magnitude = 1, std::span<const uint8_t> axes = {}) = 0;
  // Bytes that a bound weight takes in memory of the backend's own.
  virtual uint64_t bytes_kept(gguf::TensorType type, int64_t rows, int64_t cols, WeightUse use) const {
    (void)type, (void)rows, (void)cols, (void)use;
    return 0;
  }
  // Not cleared; pages that are never written stay without memory.
  virtual Result<Buffer> allocate(int64_t floats) = 0;
  // Shows the forward pass of the model that was bound, with caches that have shapes alone, before any is allocated: a backend of several places learns
  // from it in which one each layer's caches belong. Computes nothing.
  virtual void learn(const std::function<void(Ops&)>& forward) { (void)forward; }
  virtual Result<KvCache> allocate_kv(const KvShape& shape) = 0;
  virtual Result<StateCache> allocate_states(const StateShape& shape) = 0;

  // Bytes that what is bound and allocated now and caches may take together, when that is not the machine's memory but the backend's own.
  virtual std::optional<uint64_t> own_memory() { return std::nullopt; }
  // The same by places, where a backend has several; empty where it has one.
  virtual std::vector<MemoryShare> memory_shares() { return {}; }
  // Takes the memory that the largest step needs beside its buffers, so that no later run can lack it: `forward` is that step, after an upload() of
  // the largest StepData. Computes nothing.
  virtual Result<void> reserve(const std::function<void(Ops&)>& forward) {
    (void)forward;
    return {};
  }

  // Every layer and head of a block, between runs; false when this backend cannot: the caller then shares whole blocks only.
  virtual bool copy_block(const KvCache& cache, int32_t from, int32_t to) {
    (void)cache, (void)from, (void)to;
    return false;
  }

  virtual void upload(StepData& step) = 0;  // before the run that it is for
  virtual RunOutcome run(const std::function<void(Ops&)>& forward, const RunKind& kind) = 0;
  RunOutcome run(const std::function<void(Ops&)>& forward) { return run(forward, RunKind{}); }
  // As run(), but what it computes may still be on its way: what follows on this backend finds it done, and finish() waits for it.
  virtual RunOutcome start(const std::function<void(Ops&)>& forward, const RunKind& kind) { return run(forward, kind); }
  virtual void finish() {}
  virtual void read(Buffer from, int64_t offset, std::span<float> out) = 0;
  virtual void write(Buffer to, int64_t offset, std::span<const float> values) = 0;  // between runs
  // The named rows of to[any, cols], in ascending order; `values` has them one after the other.
  virtual void write_rows(Buffer to, int64_t cols, std::span<const int64_t> rows, std::span<const float> values) {
    const size_t width = static_cast<size_t>(cols);
    for (size_t i = 0; i < rows.size(); ++i) write(to, rows[i] * cols, values.subspan(i * width, width));
  }
  // How it has fared since the start, as keys and values for whoever runs the engine.
  virtual std::vector<std::pair<std::string, std::string>> figures() const { return {}; }
  // Nothing is being answered: now is the time, a short one, for what changes how later results are rounded.
  virtual void rest() {}
  // How many of a row's best scores it is to pick for the host (Ops::pick_best), which then reads no more where these are enough; 0 where reading all of
  // them costs nothing.
  virtual int64_t picks() const { return 0; }

  Control& control() { return *control_; }
  // From now on it is aborted and counts together with another one, which it computes a part for.
  void count_with(const Backend& whole) { control_ = whole.control_; }

 protected:
  std::shared_ptr<Control> control_ = std::make_shared<Control>();

 private:
  std::vector<std::string> notes_;
};

struct GpuOptions {
  int device = 0;      // of those that can be used
  bool graphs = true;  // steps that come again and again are recorded once and replayed; else every op is launched by itself
};

// Where backends on GPUs come from.
struct GpuSource {
  int count = 0;  // of devices that can be used, at least one
  std::function<Result<std::unique_ptr<Backend>>(const GpuOptions&)> make;
};

// "auto" for the best there is, "cpu", "cuda", or "reference" for the readable one that the others are measured by. `threads` 0 = one for each core
// that this process may use. auto takes the CPU, and notes why, where cuda cannot be had.
struct BackendOptions {
  std::string backend = "auto";
  int threads = 0;
  std::vector<std::string> module_folders = {};  // where the CUDA module is looked for (cuda_module.hpp); none = there is none, which is worth no note
  GpuOptions gpu = {};
  // In place of the CUDA module: how tests have devices of their own.
  std::function<Result<GpuSource>()> gpus = {};
  // In place of the backend that the name stands for: how tests run whole models on a backend of their own.
  std::function<Result<std::unique_ptr<Backend>>()> make = {};
};
Result<std::unique_ptr<Backend>> make_backend(const BackendOptions& options);
// The GPUs of this machine; an error says why there are none.
Result<GpuSource> open_gpus(const BackendOptions& options);

}  // namespace vigil::compute
