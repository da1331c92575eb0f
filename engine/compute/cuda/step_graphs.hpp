// Steps that come again and again, kept as CUDA graphs: what a step's launches were is recorded once and given to the device in a few calls from then on.
// Not here: what is launched, and when a step may be repeated so (backend.cpp).
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/compute/backend.hpp"
#include "engine/compute/cuda/device.hpp"
#include "engine/compute/cuda/step_view.hpp"

namespace vigil::compute::cuda {

// Larger steps compute for so long that their launches cost nothing.
inline constexpr int64_t most_graph_rows = 64;
// Kinds of steps that are remembered, each with all the runs that it is cut into; the one not used longest goes first.
inline constexpr size_t most_graph_kinds = 32;
// Ops in a graph: between two of them the abort flag is looked at, and an event tells how far the device is.
inline constexpr uint64_t graph_ops = 64;

// Memory that a step's launches use and that is no model's: a graph that was recorded with other places is of no use any more.
struct StepPlaces {
  StepView step;
  const void* products = nullptr;
  const void* attention = nullptr;
  bool operator==(const StepPlaces&) const = default;
};

// A step's launches, in pieces of graph_ops.
struct StepGraph {
  struct Piece {
    Graph graph;
    uint64_t ops = 0;
  };
  std::vector<Piece> pieces;
};

// Records ops instead of having them computed. A failure is kept and ends the recording; it is none of the device's.
class GraphRecorder {
 public:
  explicit GraphRecorder(const Stream& stream) : stream_(stream) {}
  GraphRecorder(const GraphRecorder&) = delete;
  GraphRecorder& operator=(const GraphRecorder&) = delete;
  ~GraphRecorder();  // ends a recording that was given up

  template <typename Launches>
  void op(Launches&& launches) {
    if (!begin_op()) return;
    launches(stream_.get());
    end_op();
  }
  // What was recorded; an error says what failed.
  Result<StepGraph> finish();

 private:
  bool begin_op();
  void end_op();
  void end_piece();
  void fail(cudaError_t outcome, const char* what);

  const Stream& stream_;
  StepGraph made_;
  uint64_t ops_ = 0;       // in the piece that is being recorded
  bool recording_ = false;
  std::string failure_;
};

// Which kinds of steps have been seen, and the graphs of those that came twice.
class StepGraphs {
 public:
  explicit StepGraphs(bool wanted) : wanted_(wanted) {}

  // What a step of this kind is to do now. The first of its kind runs as it is: what it lacks (scratch, a kernel's code) comes then and not during a recording.
  enum class Way { plain, record, replay };
  struct Choice {
    Way way = Way::plain;
    const StepGraph* graph = nullptr;  // to be replayed
  };
  Choice choose(const RunKind& kind, const StepPlaces& places);
  const StepGraph* keep(const RunKind& kind, StepGraph graph);  // after Way::record, unless that failed
  void give_up() { wanted_ = false, steps_.clear(); }           // no graphs from now on

 private:
  struct Known {
    StepPlaces places;
    std::optional<StepGraph> graph;
  };
  struct Step {
    RunKind kind;                                       // without the part
    std::map<std::pair<int64_t, int64_t>, Known> runs;  // by where it begins and how long it is
  };
  bool wanted_;
  std::list<Step> steps_;  // the latest first
};

}  // namespace vigil::compute::cuda
