// CUDA C++ Programming Guide, "CUDA Graphs": stream capture, instantiation, launch.
#include "engine/compute/cuda/step_graphs.hpp"

#include <algorithm>

namespace vigil::compute::cuda {

GraphRecorder::~GraphRecorder() {
  if (!recording_) return;
  cudaGraph_t recorded = nullptr;
  static_cast<void>(cudaStreamEndCapture(stream_.get(), &recorded));
  if (recorded != nullptr) static_cast<void>(cudaGraphDestroy(recorded));
  static_cast<void>(cudaGetLastError());
}

void GraphRecorder::fail(cudaError_t outcome, const char* what) {
  if (failure_.empty()) failure_ = std::string(what) + " failed: " + words_of(outcome);
  static_cast<void>(cudaGetLastError());  // a device that is lost says so again
}

bool GraphRecorder::begin_op() {
  if (!failure_.empty()) return false;
  if (recording_) return true;
  // Only what this thread does: another one may be at another device.
  if (const cudaError_t outcome = cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal); outcome != cudaSuccess) {
    fail(outcome, "beginning a graph");
    return false;
  }
  return recording_ = true;
}

void GraphRecorder::end_op() {
  if (const cudaError_t outcome = cudaGetLastError(); outcome != cudaSuccess) return fail(outcome, "recording an op");
  if (++ops_ == graph_ops) end_piece();
}

void GraphRecorder::end_piece() {
  recording_ = false;
  cudaGraph_t recorded = nullptr;
  if (const cudaError_t outcome = cudaStreamEndCapture(stream_.get(), &recorded); outcome != cudaSuccess || recorded == nullptr) {
    return fail(outcome, "ending a graph");
  }
  Result<Graph> graph = Graph::make(recorded);
  static_cast<void>(cudaGraphDestroy(recorded));
  if (!graph) {
    if (failure_.empty()) failure_ = graph.error();
    return;
  }
  made_.pieces.push_back({std::move(*graph), std::exchange(ops_, 0)});
}

Result<StepGraph> GraphRecorder::finish() {
  if (failure_.empty() && recording_) end_piece();
  if (!failure_.empty()) return Error{failure_};
  return std::move(made_);
}

StepGraphs::Choice StepGraphs::choose(const RunKind& kind, const StepPlaces& places) {
  if (!wanted_ || kind.model == nullptr || kind.rows > most_graph_rows) return {};
  RunKind step = kind;
  step.first_op = step.ops = 0;
  const auto found = std::find_if(steps_.begin(), steps_.end(), [&](const Step& known) { return known.kind == step; });
  if (found != steps_.end()) {
    steps_.splice(steps_.begin(), steps_, found);
  } else {
    if (steps_.size() == most_graph_kinds) steps_.pop_back();
    steps_.push_front({step, {}});
  }
  const auto [known, is_new] = steps_.front().runs.try_emplace({kind.first_op, kind.ops}, Known{places, std::nullopt});
  if (is_new) return {};
  if (known->second.places != places) {
    known->second = {places, std::nullopt};
    return {};
  }
  if (known->second.graph) return {Way::replay, &*known->second.graph};
  return {Way::record, nullptr};
}

const StepGraph* StepGraphs::keep(const RunKind& kind, StepGraph graph) {
  const auto known = steps_.front().runs.find({kind.first_op, kind.ops});
  return known == steps_.front().runs.end() ? nullptr : &known->second.graph.emplace(std::move(graph));
}

}  // namespace vigil::compute::cuda
