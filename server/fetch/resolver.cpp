// See resolver.hpp. Asio's own resolver has one thread, which one name that hangs would hold, and which its destructor waits for.
#include "server/fetch/resolver.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>

#include <csignal>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <boost/asio/post.hpp>

namespace vigil::fetch {

namespace asio = boost::asio;

struct Resolver::Door {
  std::mutex mutex;
  asio::io_context* io;      // null when nobody is at home; under the mutex
  Resolver* owner;           // on the io_context's thread alone
};

Addresses system_lookup(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return {};
  Addresses addresses;
  for (const addrinfo* one = found; one; one = one->ai_next) {
    if (one->ai_family == AF_INET) {
      sockaddr_in from{};
      std::memcpy(&from, one->ai_addr, sizeof from);
      addresses.emplace_back(asio::ip::address_v4(ntohl(from.sin_addr.s_addr)));
    } else if (one->ai_family == AF_INET6) {
      sockaddr_in6 from{};
      std::memcpy(&from, one->ai_addr, sizeof from);
      asio::ip::address_v6::bytes_type bytes{};
      std::memcpy(bytes.data(), &from.sin6_addr, bytes.size());
      addresses.emplace_back(asio::ip::address_v6(bytes, from.sin6_scope_id));
    }
  }
  ::freeaddrinfo(found);
  return addresses;
}

Resolver::Resolver(asio::io_context& io, Lookup lookup) : lookup_(std::move(lookup)), door_(std::make_shared<Door>()) {
  door_->io = &io;
  door_->owner = this;
}

Resolver::~Resolver() {
  door_->owner = nullptr;
  const std::lock_guard lock(door_->mutex);
  door_->io = nullptr;
}

uint64_t Resolver::resolve(const std::string& host, std::function<void(Addresses)> done) {
  const uint64_t id = ++last_id_;
  awaited_[id] = std::move(done);
  pending_.push_back({id, host});
  pump();
  return id;
}

void Resolver::cancel(uint64_t id) {
  awaited_.erase(id);
  std::erase_if(pending_, [&](const Pending& pending) { return pending.id == id; });
}

void Resolver::pump() {
  while (!pending_.empty() && busy_ < limit_) {
    const Pending next = std::move(pending_.front());
    pending_.pop_front();
    start(next.id, next.host);
  }
}

void Resolver::start(uint64_t id, const std::string& host) {
  ++busy_;
  const auto come_back = [id, door = door_](Addresses addresses) {
    const std::lock_guard lock(door->mutex);
    if (!door->io) return;
    asio::post(*door->io, [id, door, addresses = std::move(addresses)]() mutable {
      if (door->owner) door->owner->came(id, std::move(addresses));
    });
  };
  // Signals are the loop's: a thread that outlives it must not take one.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([host, lookup = lookup_, come_back] {
      Addresses addresses;
      try {
        addresses = lookup(host);
      } catch (...) {  // memory: as if the name gave nothing
      }
      come_back(std::move(addresses));
    }).detach();
  } catch (const std::system_error&) {
    come_back({});
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Resolver::came(uint64_t id, Addresses addresses) {
  --busy_;
  const auto found = awaited_.find(id);
  if (found != awaited_.end()) {
    const auto done = std::move(found->second);
    awaited_.erase(found);
    done(std::move(addresses));
  }
  pump();
}

}  // namespace vigil::fetch
