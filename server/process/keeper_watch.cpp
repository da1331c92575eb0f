// See keeper_watch.hpp.
#include "server/process/keeper_watch.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <cstring>

namespace vigil::process {
namespace {

constexpr int replacements = 16;  // what kills a keeper again and again is not fought for ever

}  // namespace

struct KeeperWatch::Impl {
  Impl(boost::asio::io_context& io, Keeper& watched, std::string name, std::function<void(const std::string&)> say)
      : keeper(watched), instance(std::move(name)), log(std::move(say)), pidfd(io) {}

  Keeper& keeper;
  std::string instance;
  std::function<void(const std::string&)> log;
  boost::asio::posix::stream_descriptor pidfd;
  int replaced = 0;

  static void wait(const std::shared_ptr<Impl>& self) {
    const int opened = static_cast<int>(::syscall(SYS_pidfd_open, self->keeper.pid(), 0));
    if (opened < 0) {
      self->log(std::string("the keeper cannot be watched: ") + std::strerror(errno));
      return;
    }
    boost::system::error_code refused;
    self->pidfd.assign(opened, refused);
    if (refused) {
      ::close(opened);
      self->log("the keeper cannot be watched: " + refused.message());
      return;
    }
    self->pidfd.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                           [weak = std::weak_ptr<Impl>(self)](const boost::system::error_code& error) {
                             const auto alive = weak.lock();
                             if (!error && alive) died(alive);
                           });
  }

  static void died(const std::shared_ptr<Impl>& self) {
    boost::system::error_code ignored;
    self->pidfd.close(ignored);
    const std::string what = "the keeper (pid " + std::to_string(self->keeper.pid()) + ") was killed";
    if (++self->replaced > replacements) {
      self->log(what + " once more and is not started again; if this daemon is killed, grandchildren of its engine may live on");
      return;
    }
    if (const auto started = self->keeper.replace(self->instance); !started) {
      self->log(what + ", and " + started.error());
      return;
    }
    self->log(what + "; started another, pid " + std::to_string(self->keeper.pid()));
    wait(self);
  }
};

KeeperWatch::KeeperWatch(boost::asio::io_context& io, Keeper& keeper, std::string instance, std::function<void(const std::string&)> log)
    : impl_(std::make_shared<Impl>(io, keeper, std::move(instance), std::move(log))) {
  Impl::wait(impl_);
}

KeeperWatch::~KeeperWatch() {
  boost::system::error_code ignored;
  impl_->pidfd.close(ignored);
}

}  // namespace vigil::process
