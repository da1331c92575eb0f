// What a host tells of its child, for whoever judges it: what the daemon saw, did and was told, in the order in which it happened.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/supervise/child.hpp"

namespace vigil::sim {

// A moment, and how long the daemon had stood still and had been paused by then.
struct Mark {
  TimePoint at{};
  Duration still{}, paused{};
};

class Judge {
 public:
  virtual ~Judge() = default;
  virtual void settings(uint64_t number) = 0;           // the process that runs, or the next one, has these
  virtual void executed() = 0;
  virtual void not_executed() = 0;
  virtual void output_closed() = 0;
  virtual void line(std::string_view text, bool overlong) = 0;  // before the mind reads it
  virtual void error_output() = 0;
  virtual void exit_told() = 0;
  virtual void paused(bool paused) = 0;
  virtual void state(supervise::ChildState state, const supervise::Child& child) = 0;
  virtual void killed(supervise::Trouble why, const std::string& reason) = 0;
  virtual void forgive_from_now(Duration delay) = 0;    // something of the world's makes the daemon late for so long from now on; once a world
  // A failure of the world's own makes some judgement impossible; each use says which.
  struct Excused {
    bool accusations = false;                           // what the daemon saw of this child is not what it did
    bool tokens = false;                                // lines may be missing
    bool stop_time = false;                             // stopping takes longer than the limits say
    bool files = false;                                 // a file may be left over
  } excused;
};

}  // namespace vigil::sim
