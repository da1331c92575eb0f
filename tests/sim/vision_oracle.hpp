// The judge of the vision child: books of its own about pictures, files and the child's life, by the contract's words alone. It says which
// request may end for its pictures, that each does within what the limits add up to, and that nothing is kept of what is over. Not here: what
// becomes of a request once its pictures are encoded (oracle.hpp).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/turn/desk.hpp"
#include "tests/sim/disk.hpp"
#include "tests/sim/judge.hpp"
#include "tests/sim/process.hpp"
#include "tests/sim/scheduler.hpp"

namespace vigil::sim {

class VisionOracle final : public Judge, public FileWatch {
 public:
  // `encoded`: a request's pictures are in the engine's file now, as its desk will hear next.
  using Told = std::function<void(size_t call, const turn::Embeddings& embeddings)>;
  VisionOracle(Scheduler& clock, std::function<void(const std::string&)> violation, Told encoded)
      : clock_(clock), violation_(std::move(violation)), encoded_(std::move(encoded)) {}

  // ---- what the world does
  void limits(const process::VisionLimits& limits);
  void load_ordered() { load_ordered_ = true; }
  void unload_ordered(supervise::Trouble why);
  void settings_changed(uint64_t number);               // the next process is another program
  void forgive(Duration stood_still);                   // the daemon stood still for so long, until now

  // ---- the desk
  void asked(turn::RequestKey key, size_t call, const std::string& client, const std::vector<turn::Picture>& pictures);
  void over(turn::RequestKey key);                      // whatever its pictures' state: encoded, failed or left
  void failed(size_t call, const turn::RequestError& error);  // right after over()

  // ---- the process
  void spawn(supervise::Generation generation, const Process& process, uint64_t program);
  void command(const protocol::Encode& order, const Disk& disk);
  void settings(uint64_t) override {}
  void executed() override {}
  void not_executed() override { not_executed_ = true; }
  void output_closed() override;
  void line(std::string_view text, bool overlong) override;
  void error_output() override {}
  void exit_told() override { exit_told_ = true; }
  void paused(bool) override { fail("nobody reads slowly from a vision child"); }
  void state(supervise::ChildState state, const supervise::Child& child) override;
  void killed(supervise::Trouble why, const std::string& reason) override;
  void forgive_from_now(Duration delay) override;

  // ---- FileWatch
  void store_ordered(process::JobId job, const std::string& bytes) override;
  void was_stored(process::JobId job, bool well) override;
  void read_ordered(process::JobId job, const process::RecordShape& promised) override;
  void was_read(process::JobId job, const Part* record) override;
  void discard_ordered(process::JobId job) override;
  void join_ordered(turn::RequestKey key, const std::vector<const Part*>& pictures) override;
  void was_joined(turn::RequestKey key, const turn::Embeddings* embeddings) override;
  void files_may_stay() override { excused.files = true; }

  // Whose pictures `key` are; and whether that request still waits for them.
  std::optional<size_t> call_of(turn::RequestKey key) const;

  // After every step in which the daemon is not in the middle of something.
  struct Seen {
    size_t orders = 0, waiting = 0;                     // as the conductor counts them
    bool bounded = false, armed = false;                // it has a deadline; its host has a timer
  };
  void check(const turn::Snapshot& view, const supervise::Child& child, const Seen& seen);
  bool quiet() const { return live_.empty() && jobs_.empty(); }  // no picture is on its way
  void check_end(const Disk& disk, const Seen& seen) const;

 private:
  struct Encoded {
    uint64_t program = 0;                               // who encoded it
    int64_t width = 0;
  };
  struct Order {
    size_t call = 0;
    std::string client;
    std::vector<std::string> pictures;
    std::vector<const std::string*> bytes;              // whose address tells a picture from its copies
    std::vector<std::optional<Encoded>> encoded;
    uint64_t program = 0;                               // the oldest that may have encoded them
    Mark came;
    Duration bound{};
    bool had_turn = false;                              // its first one: queue.wait_s is over for it
    Duration ready_before{};                            // ready_time() when it came
    std::map<turn::RequestKey, int> passed;             // turns of other requests of its client since it waits, or since its last
    std::optional<Mark> joining;
    bool file_failed = false, record_wrong = false, refused = false;
    bool unfinished() const { return !joining; }
    bool needs(size_t picture, uint64_t newest, int64_t width) const;
  };
  enum class Step : uint8_t { storing, stored, sent, answered, refused, reading, read, dying };
  struct Job {
    turn::RequestKey key = 0;
    size_t picture = 0;
    std::string content;
    Step step = Step::storing;
    Mark since;
    supervise::Generation generation = 0;
    uint64_t program = 0;
    int64_t rows = 0;
  };
  using Jobs = std::map<process::JobId, Job>;

  Mark mark() const { return {clock_.now(), still_total(), {}}; }
  Duration still_total() const { return still_ + (late_from_ ? std::min(clock_.now() - *late_from_, late_for_) : Duration::zero()); }
  Duration lived(const Mark& since) const { return clock_.now() - since.at - (still_total() - since.still); }
  Duration by_the_clock(const Mark& since) const { return clock_.now() - since.at; }
  bool settled() const {
    if (clock_.now() == disturbed_) return false;
    if (!late_from_ || clock_.now() > *late_from_ + late_for_) return true;
    return clock_.now() != *late_from_ + late_for_ && disturbed_ < *late_from_;  // what is due now is due to a timer that is late
  }
  void fail(const std::string& what) const { violation_("vision: " + what); }
  static std::string name(const Order& order) { return "request " + std::to_string(order.call); }
  static std::string name(process::JobId job) { return "picture " + std::to_string(job); }
  void step(Job& job, Step step);
  Jobs::iterator at(Step step);
  bool loads_in_vain() const;
  void run_over(supervise::ChildState before);
  void pictures_anew();
  bool waits(turn::RequestKey key, const Order& order) const;  // for a turn that cannot be passed over
  void take_turn(turn::RequestKey key, Order& order);
  Duration ready_time() const;                          // in which a child was ready, since the world began
  std::ptrdiff_t deaths(const std::string& picture) const;  // of children, while they encoded it, within the time that counts
  bool poisoned(const Order& order) const;              // has a picture that has killed the child often enough to be refused
  Duration a_picture() const;                           // the longest that one picture can hold up the others
  void check_orders(const Seen& seen);
  void check_jobs(const Seen& seen);
  void check_limits();

  static constexpr Duration stop_extra = std::chrono::seconds(15);  // KILL every 5 s, and how long a script may sleep uninterruptibly
  Scheduler& clock_;
  std::function<void(const std::string&)> violation_;
  Told encoded_;
  supervise::ChildLimits limits_, least_, most_;        // as they are; and the least and the most that a limit has been since the world began
  Duration least_wait_{}, most_wait_{};                 // queue.wait_s; most_wait_ 0: it has been none
  Duration ready_time_{};                               // of the children before
  bool closed_ = false, load_ordered_ = false;
  TimePoint disturbed_{}, unload_at_{};
  bool unload_asked_ = false;                           // while it stops: it shall be unloaded
  Duration still_{}, late_for_{};
  std::optional<TimePoint> late_from_;
  Mark forgiven_;                                       // when the daemon stood still last

  std::map<turn::RequestKey, Order> live_;
  std::map<std::string, std::map<std::string, int>> passed_;  // by client: turns of other clients since it waits, or since its last
  std::optional<std::pair<turn::RequestKey, Order>> last_over_;
  turn::RequestKey joined_ = 0;                         // whose embeddings the desk got last
  Jobs jobs_;                                           // until their files are discarded
  std::set<std::pair<std::string, uint64_t>> known_;    // right records, by picture and program
  std::map<std::string, std::vector<TimePoint>> deaths_;  // of children, by picture

  supervise::ChildState state_ = supervise::ChildState::unloaded;
  const Process* process_ = nullptr;
  supervise::Generation generation_ = 0;
  uint64_t program_ = 1, wanted_program_ = 1;           // of the process; of the next one
  bool exit_told_ = false, not_executed_ = false, said_error_ = false, accused_ = false, restart_ = false;
  std::optional<Mark> output_closed_;
  Mark state_since_;
  int64_t width_ = 0;
  int failures_ = 0;
  Duration backoff_least_{}, backoff_most_{};
};

}  // namespace vigil::sim
