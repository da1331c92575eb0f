// See loop.hpp.
#include "server/loop.hpp"

#include <csignal>
#include <future>
#include <string>

#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

namespace vigil {
namespace {

constexpr auto limit = std::chrono::seconds(5);  // of patience with a busy machine; mostly it takes a millisecond

}  // namespace

Result<void> check_loop(boost::asio::io_context& io) {
  bool timer_works = false, signals_work = false, wakes = false;
  boost::asio::steady_timer timer(io, std::chrono::milliseconds(1));
  timer.async_wait([&](const boost::system::error_code& error) { timer_works = !error; });
  boost::asio::signal_set signals(io, SIGCHLD);
  signals.async_wait([&](const boost::system::error_code& error, int) { signals_work = !error; });
  ::raise(SIGCHLD);
  const auto end = std::chrono::steady_clock::now() + limit;
  const auto turn_until = [&](const bool& reached) {
    while (!reached && std::chrono::steady_clock::now() < end) io.run_one_until(end);
    return reached;
  };
  std::string missing;
  if (!turn_until(signals_work)) missing = "no signal";
  else if (!turn_until(timer_works)) missing = "no timer";
  else {
    // From another thread, and not before the loop waits: only a wake-up can tell it then.
    const auto other = std::async(std::launch::async, [&] { boost::asio::post(io, [&] { wakes = true; }); });
    if (!turn_until(wakes)) missing = "no wake-up";
  }
  signals.cancel();
  timer.cancel();
  io.restart();
  io.poll();  // what was cancelled looks at our variables
  io.restart();
  if (missing.empty()) return {};
  return Error{"the event loop gets " + missing + ": the system refused it a descriptor or memory (fs.epoll.max_user_watches)"};
}

void mask_signals(Signals what) {
  sigset_t ours;
  sigemptyset(&ours);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&ours, number);
  pthread_sigmask(what == Signals::taken ? SIG_UNBLOCK : SIG_BLOCK, &ours, nullptr);
}

}  // namespace vigil
