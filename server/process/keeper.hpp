// The keeper: a small process that outlives a killed daemon and then kills what the parent-death signal cannot reach (grandchildren). It
// blocks in one read until the daemon's end of a pipe closes. Not here: anything about living daemons.
#pragma once

#include <sys/types.h>

#include <string>

#include "protocol/result.hpp"
#include "server/process/unique_fd.hpp"

namespace vigil::process {

// Names this daemon among all others on the machine, now and before: "<pid>-<start time>-<random>".
std::string make_instance();

class Keeper {
 public:
  Keeper(Keeper&& other) noexcept;
  Keeper& operator=(Keeper&&) = delete;
  ~Keeper();                        // stop()

  pid_t pid() const { return pid_; }
  // For one that has died (it was killed from outside): reaps it and starts another.
  Result<void> replace(const std::string& instance);
  // A clean end: closes the pipe, so that it looks once more for what is left, and reaps it; at most about two seconds, then KILL.
  void stop();

 private:
  friend Result<Keeper> start_keeper(const std::string& instance);
  Keeper(pid_t pid, UniqueFd pipe) : pid_(pid), pipe_(std::move(pipe)) {}
  pid_t pid_ = -1;
  UniqueFd pipe_;
};

// Kills every VIGIL_CHILD=<instance>.* once we are gone. To be called before there are threads and sockets; a later call (replace) works
// too, since the keeper closes what it inherits and needs no lock that another thread could hold.
Result<Keeper> start_keeper(const std::string& instance);

}  // namespace vigil::process
