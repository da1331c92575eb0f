// The Conductor of one engine on a ChildHost. Decides nothing.
#include "server/process/driver.hpp"

#include <utility>

#include "server/process/conductor.hpp"

namespace vigil::process {

struct EngineDriver::Impl {
  Impl(boost::asio::io_context& io, DriverOptions options, supervise::ChildLimits limits, DriverObserver observer)
      : host(io, std::move(options), std::move(observer), conductor), conductor(std::move(limits), host) {}

  ChildHost host;
  Conductor conductor;
};

EngineDriver::EngineDriver(boost::asio::io_context& io, DriverOptions options, supervise::ChildLimits limits, DriverObserver observer)
    : impl_(std::make_unique<Impl>(io, std::move(options), std::move(limits), std::move(observer))) {}

EngineDriver::~EngineDriver() = default;

void EngineDriver::attach(turn::Desk& desk) { impl_->conductor.attach(desk); }

void EngineDriver::load() {
  impl_->host.order([this] { impl_->conductor.load(true); });
}

void EngineDriver::stop(supervise::Trouble why, bool at_once, std::function<void()> done) {
  impl_->host.order([&] { impl_->conductor.unload(why, at_once); });
  impl_->host.when_gone(std::move(done));
}

void EngineDriver::load_and_tell(LoadDone done) {
  impl_->host.order([&] { impl_->conductor.load_and_tell(std::move(done)); });
}

void EngineDriver::unload_when_idle(std::function<void()> done) {
  impl_->host.order([&] { impl_->conductor.unload_when_idle(std::move(done)); });
}

void EngineDriver::set_options(DriverOptions options) {
  impl_->host.set_options(std::move(options));
  impl_->host.order([&] { impl_->conductor.settings_changed(); });
}

void EngineDriver::set_limits(const supervise::ChildLimits& limits) {
  impl_->host.order([&] { impl_->conductor.set_limits(limits); });
}

void EngineDriver::need_engine() { impl_->conductor.need_engine(); }
void EngineDriver::start(turn::LeaseId lease, const turn::Request& request, int64_t max_new) { impl_->conductor.start(lease, request, max_new); }
void EngineDriver::cancel(turn::LeaseId lease) { impl_->conductor.cancel(lease); }
void EngineDriver::answered(turn::LeaseId lease) { impl_->conductor.answered(lease); }
void EngineDriver::release(turn::LeaseId lease) { impl_->conductor.release(lease); }
void EngineDriver::pause_output(bool paused) { impl_->conductor.pause_output(paused); }

const supervise::Child& EngineDriver::child() const { return impl_->conductor.child(); }

}  // namespace vigil::process
