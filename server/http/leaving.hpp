// Has the client left? Judges the end of its input: leaving for a plain answer, perhaps a half-close for a stream, which probes settle
// (contract, "Leaving"). Pure. Not here: reading, the probe's bytes.
#pragma once

#include <chrono>
#include <cstdint>

#include "protocol/time.hpp"

namespace vigil::http {

class LeavingWatch {
 public:
  static constexpr int kProbes = 3;
  static constexpr Duration kProbeEvery = std::chrono::milliseconds(100);

  enum class Answering : uint8_t { nothing, plain, stream, finished };  // nothing: or not yet known what; finished: whole, only being written
  enum class Advice : uint8_t { stay, probe, left };

  // The input has ended, or the kind of the answer became known after it had.
  Advice input_ended(Answering answering) {
    if (answering == Answering::finished || answering == Answering::nothing) return Advice::stay;
    if (answering == Answering::plain) return Advice::left;
    return next_probe();
  }
  // kProbeEvery after a probe. A reset in the meantime has ended the session; silence means that somebody still reads.
  Advice probe_due(Answering answering) { return answering == Answering::stream ? next_probe() : Advice::stay; }
  void next_request() { probes_ = 0; }

 private:
  Advice next_probe() {
    if (probes_ >= kProbes) return Advice::stay;
    ++probes_;
    return Advice::probe;
  }
  int probes_ = 0;
};

}  // namespace vigil::http
