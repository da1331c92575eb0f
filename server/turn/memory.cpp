// See memory.hpp.
#include "server/turn/memory.hpp"

#include <algorithm>
#include <iterator>

namespace vigil::turn {

void CrashMemory::remember(uint64_t fingerprint, Duration memory, TimePoint now) {
  for (auto entry = crashes_.begin(); entry != crashes_.end();) {
    std::erase_if(entry->second, [&](TimePoint at) { return now - at >= memory; });
    entry = entry->second.empty() ? crashes_.erase(entry) : std::next(entry);
  }
  crashes_[fingerprint].push_back(now);
}

bool CrashMemory::refuses(uint64_t fingerprint, int crashes, Duration memory, TimePoint now) const {
  const auto found = crashes_.find(fingerprint);
  if (found == crashes_.end()) return false;
  return std::count_if(found->second.begin(), found->second.end(), [&](TimePoint at) { return now - at < memory; }) >= crashes;
}

void CancelMemory::cancelled_unseen(const std::string& id, TimePoint now) {
  if (ended_ids_.count(id) != 0) return;
  early_.push_back({id, now});
  if (early_.size() > most_ids) early_.pop_front();
}

void CancelMemory::ended(const std::string& id) {
  if (id.empty() || !ended_ids_.insert(id).second) return;
  ended_.push_back(id);
  if (ended_.size() <= most_ids) return;
  ended_ids_.erase(ended_.front());
  ended_.pop_front();
}

bool CancelMemory::take(const std::string& id, Duration memory, TimePoint now) {
  while (!early_.empty() && now - early_.front().at >= memory) early_.pop_front();
  const auto found = std::find_if(early_.begin(), early_.end(), [&](const Early& early) { return early.id == id; });
  if (found == early_.end()) return false;
  early_.erase(found);
  return true;
}

}  // namespace vigil::turn
