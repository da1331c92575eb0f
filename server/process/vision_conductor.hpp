// The pure half of the vision child's driver: joins one supervise::Child, the pictures that requests wait for, and the desk. Pictures are
// encoded one at a time, round-robin over clients and a client's requests: its file is written, the child is sent ENC, its record is read. No Asio, no clock,
// no files: the simulation can run this very code. The impure half is vision_driver.cpp.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "server/process/embeddings_file.hpp"
#include "server/process/child_mind.hpp"
#include "server/process/picture_cache.hpp"
#include "server/supervise/child.hpp"
#include "server/turn/desk.hpp"
#include "server/turn/queue.hpp"

namespace vigil::process {

using JobId = supervise::LeaseId;  // one picture of one request; also the lease of its ENC. Never used again

// What only the driver can do with files. Each order but discard() is answered once, later, from the event loop.
class PictureFiles {
 public:
  virtual ~PictureFiles() = default;
  virtual void store(JobId job, std::shared_ptr<const std::string> bytes) = 0;  // writes the picture's file; then stored()
  virtual void read(JobId job, const RecordShape& promised) = 0;                // checks and keeps the record; then was_read()
  virtual void discard(JobId job) = 0;                                          // removes whatever files the job has left
  virtual void join(turn::RequestKey key, std::vector<std::shared_ptr<const EncodedPicture>> pictures) = 0;  // then joined()
};

struct VisionLimits {
  supervise::ChildLimits child;                                // ready, silence (vision.encode_s), stop and the back-off; texts name them after its name and silence_key
  int64_t cache_bytes = 0;                                     // vision.cache_bytes
  Duration queue_wait{};                                       // queue.wait_s: until a request's first picture has its turn; 0 = no limit
};

class VisionConductor final : public turn::EncoderPort, public ChildMind {
 public:
  VisionConductor(VisionLimits limits, Hands& hands, PictureFiles& files);
  void attach(turn::Desk& desk) { desk_ = &desk; }

  // ---- what the daemon orders
  void load();
  void unload(supervise::Trouble why, bool at_once);  // ends every request that waits for a picture; over when child().state() is unloaded
  void switch_off();                                   // by the configuration: unload, and no picture starts it again
  void switch_on() { off_ = false; }
  void set_limits(const VisionLimits& limits);
  void settings_changed();                             // the next start will be another program: it comes as soon as no picture is with this one

  // ---- what became of files
  void stored(JobId job, const Result<protocol::Encode>& paths);
  void was_read(JobId job, const Result<std::shared_ptr<const EncodedPicture>>& picture);
  void joined(turn::RequestKey key, const Result<std::shared_ptr<const turn::Embeddings>>& embeddings);

  // ---- Mind
  void stdout_line(std::string_view line, bool overlong) override;
  void tree_empty() override;
  void late(Duration by) override;
  void due() override;
  std::optional<TimePoint> deadline() const override;

  // ---- turn::EncoderPort: called from inside the desk
  void encode(turn::RequestKey key, const std::vector<turn::Picture>& pictures) override;
  void abandon(turn::RequestKey key) override;

  size_t waiting() const;                                      // pictures whose turn has not come
  size_t orders() const { return orders_.size(); }             // requests that wait for theirs

 private:
  struct Encoded {
    std::shared_ptr<const EncodedPicture> picture;
    uint64_t program = 0;                                      // whose work it is
  };
  struct Order {                                               // one request
    std::string client;
    std::vector<turn::Picture> pictures;
    std::vector<Encoded> encoded;
    std::set<size_t> waiting;                                  // pictures whose turn has not come; while there are any, the request is in turns_
    size_t missing = 0;
    TimePoint came{};
    std::optional<TimePoint> turn_by;                          // queue.wait_s; none once its first turn has come. Runs only while a child is ready
    bool joining = false;
    std::optional<turn::RequestError> refused;                 // at once, by what is known of its pictures
    std::optional<TimePoint> until;                            // while joining
  };
  struct Job {
    JobId id = 0;
    turn::RequestKey key = 0;                                  // 0 once its request has ended
    size_t picture = 0;
  };
  // storing -> stored -> sent -> reading; sent -> refused (it said ERR, and its exit is awaited for a moment)
  enum class Step { storing, stored, sent, refused, reading };
  struct Current : Job {
    Step step = Step::storing;
    protocol::Encode paths;
    turn::Picture shown;
    std::string refusal;
    uint64_t program = 0;                                      // sent and later: to whom
    supervise::Generation generation = 0;
    std::optional<TimePoint> until;                            // storing, reading, refused
  };

  void before_spawn() override { restart_wanted_ = false; }
  void load_failed(const supervise::effect::LoadFailed& failed) override;
  void lost(const supervise::effect::Lost& lost) override;
  void settle() override;                                      // brings jobs on; everything here can be asked again without harm
  void begin_next();
  bool take_turn(turn::RequestKey key, Order& order);          // false when it has no picture for the child after all
  void wait(turn::RequestKey key, Order& order, size_t picture);
  void take(Order& order, size_t picture, Encoded encoded);
  void tell_rows(turn::RequestKey key);                        // its desk may know by them that the rest is in vain
  bool encode_anew(turn::RequestKey key, Order& order);        // what an older program has encoded; false when there is nothing of it
  void count_waiting();                                        // queue.wait_s stands still while no child is ready: a load has limits of its own
  std::optional<turn::RequestError> refusal_of(const turn::Picture& picture) const;
  void send();
  void line(const protocol::VisionEvent& event, std::string_view text);
  void said_ok(const protocol::VisionOk& ok);
  void end_current();                                          // its files go, the next may begin
  void refuse(const std::string& detail);                      // the request of the current picture gets the child's ERR
  void fail(turn::RequestKey key, const turn::RequestError& error);
  void fail_unfinished(const turn::RequestError& error);       // every request that still needs the child
  void stray(std::string_view line);
  std::optional<TimePoint> file_limit() const;
  static constexpr double retry_soon_s = 1, retry_later_s = 5;
  turn::RequestError error_for(supervise::Trouble why, const std::string& text, const std::string& part) const;

  PictureFiles& files_;
  turn::Desk* desk_ = nullptr;
  PictureCache cache_;
  PictureDeaths deaths_;
  Duration queue_wait_{};
  bool shutting_down_ = false, restart_wanted_ = false, off_ = false;
  std::map<turn::RequestKey, Order> orders_;
  turn::FairQueue turns_;                                      // requests with pictures that wait
  std::optional<TimePoint> unready_since_ = TimePoint{};       // none while a child is ready
  std::optional<Current> current_;
  std::vector<JobId> left_by_dying_;                           // their files go when the child can write no more
  JobId next_job_ = 1;
  int64_t width_ = 0;                                          // of the last READY
  uint64_t program_ = 1;                                       // the newest: changes with the settings, and with the width of its rows
  uint64_t strays_ = 0, bad_lines_ = 0;
};

}  // namespace vigil::process
