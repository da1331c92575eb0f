// Round-robin over clients by a list that is rotated at every pop.
#include "server/turn/queue.hpp"

#include <algorithm>

namespace vigil::turn {

void FairQueue::push(const std::string& client, uint64_t key) {
  auto [found, fresh] = by_name_.try_emplace(client);
  if (fresh) found->second = round_.insert(round_.end(), Client{client, {}});
  found->second->keys.push_back(key);
  where_.emplace(key, client);
}

std::optional<uint64_t> FairQueue::front() const {
  if (round_.empty()) return std::nullopt;
  return round_.front().keys.front();
}

std::optional<uint64_t> FairQueue::pop() {
  if (round_.empty()) return std::nullopt;
  const auto client = round_.begin();
  const uint64_t key = client->keys.front();
  client->keys.pop_front();
  where_.erase(key);
  if (client->keys.empty()) {
    by_name_.erase(client->name);
    round_.erase(client);
  } else {
    round_.splice(round_.end(), round_, client);
  }
  return key;
}

void FairQueue::give_back(const std::string& client) {
  const auto named = by_name_.find(client);
  if (named != by_name_.end()) round_.splice(round_.begin(), round_, named->second);
}

bool FairQueue::remove(uint64_t key) {
  const auto place = where_.find(key);
  if (place == where_.end()) return false;
  const auto named = by_name_.find(place->second);
  auto& keys = named->second->keys;
  keys.erase(std::find(keys.begin(), keys.end(), key));
  if (keys.empty()) {
    round_.erase(named->second);
    by_name_.erase(named);
  }
  where_.erase(place);
  return true;
}

}  // namespace vigil::turn
