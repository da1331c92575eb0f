// Names to addresses, on threads of their own: a resolver that hangs holds up nobody but who asked, and no more threads than the limit. Calls
// come and are answered on the io_context's thread. Not here: which addresses may be dialled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>

namespace vigil::fetch {

using Addresses = std::vector<boost::asio::ip::address>;
using Lookup = std::function<Addresses(const std::string& host)>;  // on any thread; empty when the name gives none

Addresses system_lookup(const std::string& host);  // getaddrinfo

class Resolver {
 public:
  explicit Resolver(boost::asio::io_context& io, Lookup lookup = system_lookup);
  ~Resolver();                                   // waits for no thread; what still runs comes back to nobody
  void set_limit(size_t threads) { limit_ = threads; }

  // `done` is called once, later; never after cancel(). While all threads are busy, or stuck, it waits for one.
  uint64_t resolve(const std::string& host, std::function<void(Addresses)> done);
  void cancel(uint64_t id);
  size_t busy() const { return busy_; }          // threads that run, those included whose answer nobody awaits any more

 private:
  struct Door;                                   // through which threads come back, or find it closed
  struct Pending {
    uint64_t id;
    std::string host;
  };
  void pump();
  void start(uint64_t id, const std::string& host);
  void came(uint64_t id, Addresses addresses);

  Lookup lookup_;
  std::shared_ptr<Door> door_;
  size_t limit_ = 1, busy_ = 0;
  uint64_t last_id_ = 0;
  std::deque<Pending> pending_;
  std::map<uint64_t, std::function<void(Addresses)>> awaited_;
};

}  // namespace vigil::fetch
