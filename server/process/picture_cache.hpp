// What is known of pictures by content: the encoded ones, so that a conversation that sends its pictures anew with every turn has them encoded
// once, and those on which the child died. Bounded in bytes, the least recently used go first. Pictures are compared byte by byte: a hash only
// tells them apart quickly, since whoever can make two of one hash could have another's picture refused. Not here: files (an entry owns its record).
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "server/turn/request.hpp"

namespace vigil::process {

// One picture as the child encoded it: a record file, which is removed with its last owner.
struct EncodedPicture {
  virtual ~EncodedPicture() = default;
  int64_t rows = 0;
  int64_t bytes = 0;                     // of the record
};

inline bool same(const turn::Picture& a, const turn::Picture& b) { return a.hash == b.hash && *a.bytes == *b.bytes; }

class PictureCache {
 public:
  explicit PictureCache(int64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  std::shared_ptr<const EncodedPicture> find(const turn::Picture& picture) {
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (!same(entry->picture, picture)) continue;
      entries_.splice(entries_.begin(), entries_, entry);
      return entry->encoded;
    }
    return nullptr;
  }

  void add(const turn::Picture& picture, std::shared_ptr<const EncodedPicture> encoded) {
    const int64_t bytes = static_cast<int64_t>(picture.bytes->size()) + encoded->bytes;
    if (bytes > limit_bytes_ || find(picture)) return;
    entries_.push_front({picture, bytes, std::move(encoded)});
    bytes_ += bytes;
    trim();
  }

  void set_limit(int64_t limit_bytes) {
    limit_bytes_ = limit_bytes;
    trim();
  }
  void clear() {
    entries_.clear();
    bytes_ = 0;
  }
  int64_t bytes() const { return bytes_; }

 private:
  struct Entry {
    turn::Picture picture;
    int64_t bytes;
    std::shared_ptr<const EncodedPicture> encoded;
  };
  void trim() {
    while (bytes_ > limit_bytes_) {
      bytes_ -= entries_.back().bytes;
      entries_.pop_back();
    }
  }

  int64_t limit_bytes_, bytes_ = 0;
  std::list<Entry> entries_;             // the most recently used first
};

class PictureDeaths {
 public:
  static constexpr size_t most_bytes = 64u << 20;  // of pictures that are kept; the last one is, whatever its size

  void remember(const turn::Picture& picture, Duration memory, TimePoint now) {
    for (Entry& entry : entries_) std::erase_if(entry.deaths, [&](TimePoint at) { return now - at >= memory; });
    std::erase_if(entries_, [](const Entry& entry) { return entry.deaths.empty(); });
    auto known = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return same(entry.picture, picture); });
    if (known == entries_.end()) known = entries_.insert(entries_.end(), {picture, {}});
    known->deaths.push_back(now);
    entries_.splice(entries_.end(), entries_, known);
    while (entries_.size() > 1 && bytes() > most_bytes) entries_.pop_front();
  }
  bool refuses(const turn::Picture& picture, int deaths, Duration memory, TimePoint now) const {
    const auto known = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return same(entry.picture, picture); });
    if (known == entries_.end()) return false;
    return std::count_if(known->deaths.begin(), known->deaths.end(), [&](TimePoint at) { return now - at < memory; }) >= deaths;
  }
  size_t bytes() const {
    size_t all = 0;
    for (const Entry& entry : entries_) all += entry.picture.bytes->size();
    return all;
  }

 private:
  struct Entry {
    turn::Picture picture;
    std::vector<TimePoint> deaths;
  };
  std::list<Entry> entries_;             // the one that died last is the last
};

}  // namespace vigil::process
