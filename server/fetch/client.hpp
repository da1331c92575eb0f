// An HTTP and HTTPS client that fetches what vision.url_allow allows, and nothing else: every URL on the way is checked against the list, every
// address that a name gives is checked, and the address that was checked is the one that is dialled. No proxy, no cookies, no credentials. All
// calls on the io_context's thread. Not here: one fetch's steps (exchange.hpp), what pictures are.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include <boost/asio/io_context.hpp>

#include "server/fetch/fetching.hpp"
#include "server/fetch/resolver.hpp"
#include "server/url/allow_list.hpp"

namespace vigil::fetch {

struct ClientOptions {
  std::shared_ptr<const url::AllowList> allow = std::make_shared<url::AllowList>();
  int64_t body_bytes = 20971520;     // vision.image_bytes
  int64_t total_bytes = 268435456;   // vision.url_total_bytes: of all bodies that are read or still held
  int64_t redirects = 3;             // vision.url_redirects
  size_t at_once = 16;               // vision.url_fetches; others wait. Threads that resolve names too, stuck ones included
  std::string user_agent = "vigil";
};

class Exchange;
class TlsContext;

class Client final : public Fetching {
 public:
  explicit Client(boost::asio::io_context& io, Lookup lookup = system_lookup);
  ~Client() override;                          // what is open ends without a word
  void set_options(ClientOptions options);     // for fetches from now on

  FetchId fetch(const url::Url& url, TimePoint deadline, std::function<void(Outcome)> done) override;
  void cancel(FetchId id) override;
  TimePoint now() const override { return std::chrono::steady_clock::now(); }

  size_t open() const { return open_.size(); }
  size_t resolving() const { return resolver_.busy(); }  // threads, the stuck ones too
  int64_t held_bytes() const { return *held_bytes_; }

 private:
  struct Open {
    std::shared_ptr<Exchange> exchange;
    std::function<void(Outcome)> done;
  };
  void pump();
  void finished(FetchId id, Outcome outcome);

  boost::asio::io_context& io_;
  Resolver resolver_;
  std::shared_ptr<const ClientOptions> options_ = std::make_shared<ClientOptions>();
  std::shared_ptr<TlsContext> tls_;            // null while no entry of the list needs it: certificates take a while to read
  std::shared_ptr<std::atomic<int64_t>> held_bytes_ = std::make_shared<std::atomic<int64_t>>(0);
  FetchId last_id_ = 0;
  std::map<FetchId, Open> open_;
  std::set<FetchId> running_;
  std::deque<FetchId> waiting_;
  std::shared_ptr<const bool> alive_ = std::make_shared<bool>(true);  // posted calls find it gone
};

}  // namespace vigil::fetch
