// Judges a loaded child while requests are open: stalled, silent, beats missing, a cancel not answered. Contract, "Children", word for word.
// Pure; a part of Child, separate because these rules are its longest.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "protocol/lines.hpp"
#include "server/supervise/limits.hpp"

namespace vigil::supervise {

// Totals over the child and all its descendants, never decreasing.
struct TreeUsage {
  Duration cpu{};
  uint64_t major_faults = 0;
  uint64_t io_bytes = 0;                            // read from and written to storage; pipes do not count
};

class LivenessWatch {
 public:
  struct Verdict {
    Trouble why;
    std::string text;
    std::vector<LeaseId> culprits;                  // empty = the child as a whole
  };

  void started(const protocol::Ready& ready);
  void lease_opened(LeaseId id, TimePoint now);
  void lease_cancelled(LeaseId id, TimePoint now);
  void lease_closed(LeaseId id);
  void line(std::optional<LeaseId> lease, const protocol::EngineEvent& event, const ChildLimits& limits, TimePoint now);
  void output(TimePoint now);                       // any byte on stdout or stderr
  void usage(const TreeUsage& usage, const ChildLimits& limits, TimePoint now);
  void paused(bool paused, TimePoint now);          // while paused nothing is judged, and no clock runs
  void late(Duration by, TimePoint now);            // the daemon was late: every clock moves by as much

  // A lease that the child's own account has left out for long enough while no line came for it; at most one, once.
  struct Forgotten {
    LeaseId lease = 0;
    std::string evidence;
  };
  std::optional<Forgotten> forgotten(TimePoint now);

  std::optional<Verdict> judge(const ChildLimits& limits, TimePoint now) const;
  // When judge() may say something new, or a new usage sample is wanted; nothing while no lease is open.
  std::optional<TimePoint> deadline(const ChildLimits& limits) const;
  bool active() const { return !leases_.empty(); }

 private:
  struct Lease {
    TimePoint last_line{};                          // the last valid line for it
    int64_t prompt_read = -1;
    bool waited = false;                            // its one SWAIT is used
    Duration allowance{};                           // of that SWAIT, until the next line
    std::optional<TimePoint> cancelled_at;
    int accounts_without = 0;                       // accounts of the child in a row that do not name it
    TimePoint last_sign{};                          // the last line of any kind for it
  };
  struct Sample {
    TimePoint at{};
    TreeUsage usage;
  };
  template <typename Function>
  void for_each_clock(Function&& function);
  void account(const std::vector<LeaseId>& active);  // the child's own list of what it works on
  Duration window(const ChildLimits& limits) const;  // over which usage is compared; 0 = usage is not judged
  TimePoint quiet_since() const { return beat_ ? last_step_ : last_output_; }
  TimePoint next_sample(const ChildLimits& limits) const;
  const Sample* sample_before(TimePoint at) const;   // the newest that is not later
  std::optional<Verdict> judge_usage(const ChildLimits& limits, TimePoint now) const;
  std::optional<Verdict> judge_beats(const ChildLimits& limits, TimePoint now) const;

  std::map<LeaseId, Lease> leases_;
  std::optional<Duration> beat_;
  bool gpu_ = false, tagged_ = false;
  TimePoint last_output_{}, last_beat_{}, last_step_{};
  std::optional<uint64_t> step_;
  std::deque<Sample> samples_;
  std::optional<TimePoint> paused_since_;
};

}  // namespace vigil::supervise
