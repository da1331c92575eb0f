// See disk.hpp. Records and embeddings own their files, as the real ones do.
#include "tests/sim/disk.hpp"

#include <algorithm>
#include <utility>

namespace vigil::sim {

using std::chrono::milliseconds;

namespace {

std::string path_of(uint64_t number, const char* ending) { return "/pictures/" + std::to_string(number) + ending; }

struct Record final : process::EncodedPicture {
  Record(std::shared_ptr<Files> all, std::string place) : files(std::move(all)), path(std::move(place)) {}
  ~Record() override { files->erase(path); }
  std::shared_ptr<Files> files;
  std::string path;
};

struct Shared final : turn::Embeddings {
  std::shared_ptr<const process::EncodedPicture> record;
};

struct Joined final : turn::Embeddings {
  explicit Joined(std::shared_ptr<Files> all) : files(std::move(all)) {}
  ~Joined() override { files->erase(path); }
  std::shared_ptr<Files> files;
};

const std::string& path_of(const std::shared_ptr<const process::EncodedPicture>& picture) { return static_cast<const Record&>(*picture).path; }

}  // namespace

Disk::Disk(Scheduler& clock, Random& dice, FaultPlan& plan, FileWatch& watch, World world)
    : clock_(clock), dice_(dice), plan_(plan), watch_(watch), world_(std::move(world)) {
  if (dice_.chance(40)) {
    slow_percent_ = static_cast<int>(dice_.between(1, 25));
    in_vain_percent_ = static_cast<int>(dice_.between(0, 10));
  }
}

const File* Disk::find(const std::string& path) const {
  const auto found = files_->find(path);
  return found == files_->end() ? nullptr : &found->second;
}

// What a child writes after it has said that it is done goes with the folder only: nobody could know of it.
void Disk::write_record(const std::string& path, Part record) {
  if (discarded_.count(path) == 0) (*files_)[path] = {std::move(record)};
}

Disk::Fate Disk::draw(Point point, Duration& delay) {
  delay = milliseconds(dice_.chance(50) ? 0 : dice_.between(1, 40));
  Fate fate = Fate::well;
  if (!world_.calm()) {
    if (dice_.chance(slow_percent_)) delay = milliseconds(dice_.chance(60) ? dice_.between(50, 2500) : dice_.between(2500, 20000));
    if (dice_.chance(in_vain_percent_)) fate = Fate::in_vain;
  }
  if (plan_.at(point)) {
    world_.note("FAULT: " + std::string(to_string(point)));
    fate = plan_.lost() ? Fate::never : Fate::in_vain;
  }
  return fate;
}

void Disk::later(Duration delay, std::function<void()> work) {
  ++pending_;
  clock_.in(delay, [this, work = std::move(work)] {
    work();
    --pending_;
  });
}

void Disk::store(process::JobId job, std::shared_ptr<const std::string> bytes) {
  watch_.store_ordered(job, *bytes);
  Duration delay;
  const Fate fate = draw(Point::store, delay);
  if (fate == Fate::never) return;
  later(delay, [this, job, fate, bytes = std::move(bytes)] {
    const std::string image = path_of(job, ".picture");
    (*files_)[image] = {Part{*bytes, 0, 0, 0, fate == Fate::well}};  // half of it when the disk is full
    ++pending_;
    world_.report([this, job, fate, image] {
      --pending_;
      watch_.was_stored(job, fate == Fate::well);
      if (fate == Fate::well) conductor_->stored(job, protocol::Encode{image, path_of(job, ".sve")});
      else conductor_->stored(job, Error{"No space left on device"});
    });
  });
}

void Disk::read(process::JobId job, const process::RecordShape& promised) {
  watch_.read_ordered(job, promised);
  Duration delay;
  const Fate fate = draw(Point::read, delay);
  if (fate == Fate::never) return;
  later(delay, [this, job, fate, promised] {
    using Picture = Result<std::shared_ptr<const process::EncodedPicture>>;
    Picture result = Error{"it is not what was promised"};
    const auto found = files_->find(path_of(job, ".sve"));
    const Part* part = found == files_->end() ? nullptr : &found->second.front();
    if (part && part->whole && part->rows == promised.rows && part->width == promised.width && fate == Fate::well) {
      auto record = std::make_shared<Record>(files_, path_of(job, ".record"));
      record->rows = part->rows;
      record->bytes = 100;
      (*files_)[record->path] = found->second;
      files_->erase(found);
      result = std::shared_ptr<const process::EncodedPicture>(std::move(record));
    }
    ++pending_;
    world_.report([this, job, result = std::move(result)] {
      --pending_;
      watch_.was_read(job, result ? &files_->at(path_of(*result)).front() : nullptr);
      conductor_->was_read(job, result);
    });
  });
}

void Disk::discard(process::JobId job) {
  watch_.discard_ordered(job);
  discarded_.insert(path_of(job, ".sve"));
  if (plan_.at(Point::discard)) {
    world_.note("FAULT: discard");
    watch_.files_may_stay();
    if (plan_.lost()) return;
  }
  later(milliseconds(dice_.chance(70) ? 0 : dice_.between(1, 50)), [this, job] {
    files_->erase(path_of(job, ".picture"));
    files_->erase(path_of(job, ".sve"));
  });
}

void Disk::join(turn::RequestKey key, std::vector<std::shared_ptr<const process::EncodedPicture>> pictures) {
  std::vector<const Part*> parts;
  for (const auto& picture : pictures) parts.push_back(picture ? &files_->at(path_of(picture)).front() : nullptr);
  watch_.join_ordered(key, parts);
  if (std::find(parts.begin(), parts.end(), nullptr) != parts.end()) return;  // the watch has said so
  Duration delay;
  Fate fate = draw(Point::join, delay);
  if (fate == Fate::never) return;
  if (!world_.joins) fate = Fate::in_vain;
  later(delay, [this, key, fate, pictures = std::move(pictures)] {
    using Embeddings = Result<std::shared_ptr<const turn::Embeddings>>;
    Embeddings result = Error{"No space left on device"};
    if (fate == Fate::well && pictures.size() == 1) {
      auto shared = std::make_shared<Shared>();
      shared->path = path_of(pictures.front());
      shared->rows = {pictures.front()->rows};
      shared->record = pictures.front();
      result = std::shared_ptr<const turn::Embeddings>(std::move(shared));
    } else if (fate == Fate::well) {
      auto joined = std::make_shared<Joined>(files_);
      joined->path = path_of(key, ".embeddings");
      File& file = (*files_)[joined->path];
      for (const auto& picture : pictures) {
        file.push_back(files_->at(path_of(picture)).front());
        joined->rows.push_back(picture->rows);
      }
      result = std::shared_ptr<const turn::Embeddings>(std::move(joined));
    }
    ++pending_;
    world_.report([this, key, result = std::move(result)] {
      --pending_;
      watch_.was_joined(key, result ? result->get() : nullptr);
      conductor_->joined(key, result);
    });
  });
}

}  // namespace vigil::sim
