// The pictures' files in the simulation: PictureFiles whose answers come later, in any order, too late, in vain, or never. What a file holds is
// known, so that embeddings can be told apart.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "server/process/vision_conductor.hpp"
#include "tests/sim/fault.hpp"
#include "tests/sim/random.hpp"
#include "tests/sim/scheduler.hpp"

namespace vigil::sim {

// One picture, or what one program made of it. A file of embeddings holds several.
struct Part {
  std::string picture;
  uint64_t program = 0;                                 // 0 = the picture itself
  int64_t rows = 0, width = 0;
  bool whole = true;
};
using File = std::vector<Part>;
using Files = std::map<std::string, File>;              // by path

// What a disk tells of: orders before they are carried out, answers before the mind hears them.
class FileWatch {
 public:
  virtual ~FileWatch() = default;
  virtual void store_ordered(process::JobId job, const std::string& bytes) = 0;
  virtual void was_stored(process::JobId job, bool well) = 0;
  virtual void read_ordered(process::JobId job, const process::RecordShape& promised) = 0;
  virtual void was_read(process::JobId job, const Part* record) = 0;  // null: it is wrong
  virtual void discard_ordered(process::JobId job) = 0;
  virtual void join_ordered(turn::RequestKey key, const std::vector<const Part*>& pictures) = 0;
  virtual void was_joined(turn::RequestKey key, const turn::Embeddings* embeddings) = 0;  // null: in vain
  virtual void files_may_stay() = 0;                    // a removal failed
};

class Disk final : public process::PictureFiles {
 public:
  struct World {
    std::function<void(std::function<void()>)> report;  // from the loop, when the daemon turns
    std::function<void(const std::string&)> note;
    std::function<bool()> calm;                         // nothing goes wrong any more
    bool joins = true;                                  // false: every join is in vain
  };
  Disk(Scheduler& clock, Random& dice, FaultPlan& plan, FileWatch& watch, World world);
  void attach(process::VisionConductor& conductor) { conductor_ = &conductor; }

  const File* find(const std::string& path) const;
  void write_record(const std::string& path, Part record);  // by a child
  bool quiet() const { return pending_ == 0; }          // no order is open
  std::shared_ptr<const Files> files() const { return files_; }

  // ---- process::PictureFiles
  void store(process::JobId job, std::shared_ptr<const std::string> bytes) override;
  void read(process::JobId job, const process::RecordShape& promised) override;
  void discard(process::JobId job) override;
  void join(turn::RequestKey key, std::vector<std::shared_ptr<const process::EncodedPicture>> pictures) override;

 private:
  enum class Fate : uint8_t { well, in_vain, never };
  Fate draw(Point point, Duration& delay);
  void later(Duration delay, std::function<void()> work);

  Scheduler& clock_;
  Random& dice_;
  FaultPlan& plan_;
  FileWatch& watch_;
  World world_;
  process::VisionConductor* conductor_ = nullptr;
  std::shared_ptr<Files> files_ = std::make_shared<Files>();  // whatever owns one may outlive us
  std::set<std::string> discarded_;
  size_t pending_ = 0;
  int slow_percent_ = 0, in_vain_percent_ = 0;
};

}  // namespace vigil::sim
