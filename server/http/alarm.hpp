// One named deadline on the loop: set replaces, clear forgets, and a handler that was already on its way does nothing.
#pragma once

#include <cstdint>
#include <utility>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "protocol/time.hpp"

namespace vigil::http {

class Alarm {
 public:
  explicit Alarm(const boost::asio::any_io_executor& executor) : timer_(executor) {}

  // `ring` must keep alive whatever holds this alarm.
  template <typename Ring>
  void set(Duration after, Ring ring) {
    const uint64_t mine = ++setting_;
    timer_.expires_after(after);
    timer_.async_wait([this, mine, ring = std::move(ring)](const boost::system::error_code&) mutable {
      if (mine == setting_) ring();
    });
  }
  void clear() {
    ++setting_;
    timer_.cancel();
  }

 private:
  boost::asio::steady_timer timer_;
  uint64_t setting_ = 0;
};

}  // namespace vigil::http
