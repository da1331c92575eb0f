// See reaper.hpp.
#include "server/process/reaper.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <set>

#include "server/process/proc.hpp"

namespace vigil::process {
namespace {

std::set<pid_t>& own_children() {
  static std::set<pid_t> children;
  return children;
}

}  // namespace

bool become_subreaper() { return ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0; }

void register_child(pid_t pid) { own_children().insert(pid); }
void forget_child(pid_t pid) { own_children().erase(pid); }

// waitid(P_ALL, WNOWAIT) would show the same registered zombie again and again and hide the others behind it: look, then reap by pid.
int reap_adopted() {
  int reaped = 0;
  const pid_t self = ::getpid();
  for (const ProcessInfo& process : list_processes())
    if (process.parent == self && !process.alive && !own_children().contains(process.pid))
      if (::waitpid(process.pid, nullptr, WNOHANG) == process.pid) ++reaped;
  return reaped;
}

struct AdoptedReaper::Impl {
  explicit Impl(boost::asio::io_context& io) : signals(io, SIGCHLD) {}
  boost::asio::signal_set signals;

  static void wait(const std::shared_ptr<Impl>& self) {
    self->signals.async_wait([weak = std::weak_ptr<Impl>(self)](const boost::system::error_code& error, int) {
      const auto alive = weak.lock();
      if (error || !alive) return;
      reap_adopted();
      wait(alive);
    });
  }
};

AdoptedReaper::AdoptedReaper(boost::asio::io_context& io) : impl_(std::make_shared<Impl>(io)) {
  Impl::wait(impl_);
  reap_adopted();
}

AdoptedReaper::~AdoptedReaper() {
  boost::system::error_code ignored;
  impl_->signals.cancel(ignored);
}

}  // namespace vigil::process
