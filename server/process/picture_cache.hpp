// Encoded pictures by content, so that a conversation that sends its pictures anew with every turn has them encoded once. Bounded in bytes,
// the least recently used go first. Pictures are compared byte by byte: no hash is trusted. Not here: files (an entry owns its record).
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <utility>

#include "server/turn/request.hpp"

namespace vigil::process {

// One picture as the child encoded it: a record file, which is removed with its last owner.
struct EncodedPicture {
  virtual ~EncodedPicture() = default;
  int64_t rows = 0;
  int64_t bytes = 0;                     // of the record
};

class PictureCache {
 public:
  explicit PictureCache(int64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  std::shared_ptr<const EncodedPicture> find(const turn::Picture& picture) {
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (entry->picture.hash != picture.hash || *entry->picture.bytes != *picture.bytes) continue;
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

}  // namespace vigil::process
