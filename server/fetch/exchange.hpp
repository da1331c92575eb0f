// One fetch from its first URL through redirects to the bytes: check, resolve, check, dial, TLS, ask, read; and one deadline over all of it.
// Private to the room. Not here: how many run at once (client.hpp).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>

#include "server/fetch/client.hpp"

namespace vigil::fetch {

// TLS 1.2 or newer, certificates verified against the system's store (SSL_CERT_FILE and SSL_CERT_DIR name another one).
class TlsContext {
 public:
  TlsContext();
  boost::asio::ssl::context& get() { return context_; }

 private:
  boost::asio::ssl::context context_;
};

// Bytes that count against vision.url_total_bytes for as long as this lives.
class Reserved {
 public:
  explicit Reserved(std::shared_ptr<std::atomic<int64_t>> held) : held_(std::move(held)) {}
  Reserved(const Reserved&) = delete;
  Reserved& operator=(const Reserved&) = delete;
  ~Reserved() { *held_ -= mine_; }
  bool add(int64_t bytes, int64_t limit);

 private:
  std::shared_ptr<std::atomic<int64_t>> held_;
  int64_t mine_ = 0;
};

struct Surroundings {
  boost::asio::io_context& io;
  Resolver& resolver;
  std::shared_ptr<const ClientOptions> options;
  std::shared_ptr<TlsContext> tls;
  std::shared_ptr<std::atomic<int64_t>> held_bytes;
};

class Exchange final : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(Surroundings around, url::Url url, TimePoint deadline, std::function<void(Outcome)> done);
  void arm();    // from now on the deadline holds
  void begin();  // there is a place for it
  void stop();   // `done` is not called any more; everything of it is closed

 private:
  using Tcp = boost::asio::ip::tcp;
  using ErrorCode = boost::system::error_code;
  struct Body;

  void hop(url::Url url);
  void resolved(const Addresses& addresses);
  void dial();
  void connected();
  void ask();
  void read_head();
  void head_came();
  void redirected();
  void read_body();
  void body_came(const ErrorCode& error);
  void fail(std::string reason, Failure::Kind kind = Failure::Kind::failed);
  void finish(Outcome outcome);
  void close();
  template <typename Use>
  void with_stream(const Use& use) {
    if (tls_) use(*tls_);
    else use(socket_);
  }
  // A handler that does nothing once the fetch is over.
  template <typename Act>
  auto guarded(Act act) {
    return [self = shared_from_this(), act = std::move(act)](const ErrorCode& error, auto...) {
      if (!self->over_) act(error);
    };
  }

  Surroundings around_;
  url::Url url_;
  TimePoint deadline_;
  std::function<void(Outcome)> done_;
  bool over_ = false, begun_ = false;
  int64_t hops_ = 0;
  int informational_ = 0;
  uint64_t resolve_id_ = 0;
  uint64_t attempts_ = 0;                  // dials begun and ended: a late timer is of none that runs
  std::vector<Tcp::endpoint> endpoints_;   // checked, not yet dialled
  boost::asio::steady_timer timer_, dial_timer_;
  Tcp::socket socket_;
  std::unique_ptr<boost::asio::ssl::stream<Tcp::socket&>> tls_;
  std::string request_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::response_parser<boost::beast::http::buffer_body>> parser_;
  std::vector<char> chunk_;
  std::shared_ptr<Body> body_;
};

}  // namespace vigil::fetch
