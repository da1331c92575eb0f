// Adopted orphans: as a subreaper the daemon becomes the parent of its children's orphans and must reap them, without taking the exit
// status of the children it started itself. Not here: killing anybody.
#pragma once

#include <sys/types.h>

#include <memory>

namespace boost::asio {
class io_context;
}

namespace vigil::process {

// Orphans below us become our children instead of init's. False when the kernel refuses.
bool become_subreaper();

// The children that somebody here started and will reap by pid. One list for the process, as the kernel's child table is one.
// Main thread only.
void register_child(pid_t pid);
void forget_child(pid_t pid);

// Reaps every dead child that is not registered; returns how many.
int reap_adopted();

// Calls reap_adopted() whenever a child has died, as long as it lives. Waits for SIGCHLD on the context, which keeps run() from returning.
class AdoptedReaper {
 public:
  explicit AdoptedReaper(boost::asio::io_context& io);
  ~AdoptedReaper();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace vigil::process
