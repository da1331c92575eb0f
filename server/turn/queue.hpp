// Whose turn it is: round-robin over clients, first in first out within one. Keys only; the desk holds the requests.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>

namespace vigil::turn {

class FairQueue {
 public:
  void push(const std::string& client, uint64_t key);
  std::optional<uint64_t> front() const;     // the next in turn, without taking it
  std::optional<uint64_t> pop();             // takes it; its client goes to the end of the round
  void give_back(const std::string& client); // its last turn was none after all: it is first again, if it still waits
  bool remove(uint64_t key);                 // a request that left; false when it is not here
  size_t size() const { return where_.size(); }
  bool empty() const { return where_.empty(); }

 private:
  struct Client {
    std::string name;
    std::deque<uint64_t> keys;
  };
  std::list<Client> round_;                                          // only clients that wait
  std::unordered_map<std::string, std::list<Client>::iterator> by_name_;
  std::unordered_map<uint64_t, std::string> where_;
};

}  // namespace vigil::turn
