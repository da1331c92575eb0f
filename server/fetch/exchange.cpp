// See exchange.hpp.
#include "server/fetch/exchange.hpp"

#include <fcntl.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <utility>

#include <boost/asio/connect.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>

#include "server/url/address.hpp"

namespace vigil::fetch {

namespace asio = boost::asio;
namespace http = boost::beast::http;

namespace {

constexpr uint32_t max_response_header_bytes = 16384;
constexpr int max_informational = 8;            // answers of the kind 1xx before the real one
constexpr size_t max_addresses = 8;             // of one name that are dialled, one after another
constexpr size_t chunk_bytes = 65536;

bool is_public(const asio::ip::address& address) {
  return address.is_v4() ? url::is_public(address.to_v4().to_bytes()) : url::is_public(address.to_v6().to_bytes());
}

bool is_loopback(const asio::ip::address& address) {
  return address.is_v4() ? url::is_loopback(address.to_v4().to_bytes()) : url::is_loopback(address.to_v6().to_bytes());
}

// The name localhost was written into the list by the operator, and must then mean this machine; any other name must lead out.
bool may_be_dialled(const std::string& host, const asio::ip::address& address) {
  return host == "localhost" ? is_loopback(address) : is_public(address);
}

bool is_redirect(unsigned status) { return status == 301 || status == 302 || status == 303 || status == 307 || status == 308; }

}  // namespace

TlsContext::TlsContext() : context_(asio::ssl::context::tls_client) {
  SSL_CTX_set_min_proto_version(context_.native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_options(context_.native_handle(), SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_session_cache_mode(context_.native_handle(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_verify(context_.native_handle(), SSL_VERIFY_PEER, nullptr);
  boost::system::error_code none_found;  // then no certificate is good, and every fetch says so
  context_.set_default_verify_paths(none_found);
}

bool Reserved::add(int64_t bytes, int64_t limit) {
  mine_ += bytes;
  return (*held_ += bytes) <= limit;
}

struct Exchange::Body {
  Reserved reserved;
  std::string bytes;
  explicit Body(std::shared_ptr<std::atomic<int64_t>> held) : reserved(std::move(held)) {}
};

Exchange::Exchange(Surroundings around, url::Url url, TimePoint deadline, std::function<void(Outcome)> done)
    : around_(std::move(around)), url_(std::move(url)), deadline_(deadline), done_(std::move(done)), timer_(around_.io), dial_timer_(around_.io),
      socket_(around_.io) {}

void Exchange::arm() {
  timer_.expires_at(deadline_);
  timer_.async_wait(guarded([this](const ErrorCode& error) {
    if (!error) fail(begun_ ? "it took longer than vision.url_s" : "no place was free within vision.url_s (vision.url_fetches)");
  }));
}

void Exchange::begin() {
  if (over_) return;
  begun_ = true;
  hop(url_);
}

void Exchange::stop() {
  over_ = true;
  done_ = nullptr;
  close();
}

// ---- where to

void Exchange::hop(url::Url url) {
  if (!around_.options->allow->allows(url)) return fail("vision.url_allow does not allow " + url.origin());
  url_ = std::move(url);
  endpoints_.clear();
  if (url_.kind != url::HostKind::name) {  // written so in the list: the operator means this very address
    endpoints_.emplace_back(asio::ip::make_address(url_.host), url_.port);
    return dial();
  }
  resolve_id_ = around_.resolver.resolve(url_.host, [self = shared_from_this()](const Addresses& addresses) {
    self->resolve_id_ = 0;
    if (!self->over_) self->resolved(addresses);
  });
}

void Exchange::resolved(const Addresses& addresses) {
  if (addresses.empty()) return fail("its host name gives no address");
  for (const auto& address : addresses) {
    // One that may not be dialled spoils the name: it is set up by mistake, or to get in here.
    if (!may_be_dialled(url_.host, address)) return fail("its host name gives an address that is not public: " + address.to_string());
    if (endpoints_.size() < max_addresses) endpoints_.emplace_back(address, url_.port);
  }
  std::reverse(endpoints_.begin(), endpoints_.end());  // dialled from the back
  dial();
}

// ---- connection

void Exchange::dial() {
  if (endpoints_.empty()) return fail("no connection could be made");
  const auto now = std::chrono::steady_clock::now();
  // One that is silent leaves time for the others.
  dial_timer_.expires_at(now + (deadline_ - now) / static_cast<int64_t>(endpoints_.size()));
  const Tcp::endpoint endpoint = endpoints_.back();
  endpoints_.pop_back();
  ErrorCode error;
  socket_ = Tcp::socket(around_.io);
  socket_.open(endpoint.protocol(), error);
  if (error) return dial();  // no descriptor, or no such family here
  ::fcntl(socket_.native_handle(), F_SETFD, FD_CLOEXEC);
  const uint64_t attempt = ++attempts_;
  if (!endpoints_.empty()) {
    dial_timer_.async_wait(guarded([this, attempt](const ErrorCode& cancelled) {
      ErrorCode ignored;
      if (!cancelled && attempt == attempts_) socket_.close(ignored);
    }));
  }
  socket_.async_connect(endpoint, guarded([this](const ErrorCode& failed) {
    ++attempts_;
    dial_timer_.cancel();
    // The timer may have closed it with the connection just made.
    if (failed || !socket_.is_open()) return dial();
    connected();
  }));
}

void Exchange::connected() {
  ErrorCode ignored;
  socket_.set_option(Tcp::no_delay(true), ignored);
  if (url_.scheme == url::Scheme::http) return ask();
  if (!around_.tls) return fail("there is no TLS");
  tls_ = std::make_unique<asio::ssl::stream<Tcp::socket&>>(socket_, around_.tls->get());
  SSL* ssl = tls_->native_handle();
  bool set = true;
  if (url_.kind == url::HostKind::name) {
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    set = SSL_set_tlsext_host_name(ssl, url_.host.c_str()) == 1 && SSL_set1_host(ssl, url_.host.c_str()) == 1;
  } else {
    set = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), url_.host.c_str()) == 1;
  }
  if (!set) return fail("TLS could not be set up");
  tls_->async_handshake(asio::ssl::stream_base::client, guarded([this](const ErrorCode& error) {
    if (!error) return ask();
    const long verdict = SSL_get_verify_result(tls_->native_handle());
    fail("TLS failed: " + (verdict == X509_V_OK ? error.message() : std::string("its certificate: ") + X509_verify_cert_error_string(verdict)));
  }));
}

// ---- question and answer

void Exchange::ask() {
  request_ = "GET " + url_.target() + " HTTP/1.1\r\nHost: " + url_.authority() + "\r\nUser-Agent: " + around_.options->user_agent +
             "\r\nAccept: image/*\r\nAccept-Encoding: identity\r\nConnection: close\r\n\r\n";
  buffer_ = boost::beast::flat_buffer(chunk_bytes);
  informational_ = 0;
  with_stream([this](auto& stream) {
    asio::async_write(stream, asio::buffer(request_), guarded([this](const ErrorCode& error) {
      if (error) return fail("the request could not be sent: " + error.message());
      read_head();
    }));
  });
}

void Exchange::read_head() {
  parser_.emplace();
  parser_->header_limit(max_response_header_bytes);
  parser_->body_limit(boost::none);  // counted here, also when its length is told
  with_stream([this](auto& stream) {
    http::async_read_header(stream, buffer_, *parser_, guarded([this](const ErrorCode& error) {
      if (error) return fail("no good answer came: " + error.message());
      head_came();
    }));
  });
}

void Exchange::head_came() {
  const auto& head = parser_->get();
  const unsigned status = head.result_int();
  if (status >= 100 && status < 200 && status != 101) {
    if (++informational_ > max_informational) return fail("its answer has no end of informational heads");
    return read_head();
  }
  if (is_redirect(status)) return redirected();
  if (status != 200) return fail("its answer has status " + std::to_string(status));
  const auto encoding = head[http::field::content_encoding], transfer = head[http::field::transfer_encoding];
  if (!encoding.empty() && !boost::beast::iequals(encoding, "identity")) return fail("its answer is compressed, which was not asked for");
  if (!transfer.empty() && !boost::beast::iequals(transfer, "chunked")) return fail("its answer has a transfer coding that was not asked for");
  if (const auto length = parser_->content_length(); length && *length > static_cast<uint64_t>(around_.options->body_bytes)) {
    return fail("it tells of more bytes than vision.image_bytes");
  }
  body_ = std::make_shared<Body>(around_.held_bytes);
  chunk_.resize(chunk_bytes);
  read_body();
}

void Exchange::redirected() {
  if (++hops_ > around_.options->redirects) return fail("it has more redirects than vision.url_redirects");
  const auto location = parser_->get()[http::field::location];
  if (location.empty()) return fail("its redirect says not where to");
  auto next = url::follow(url_, {location.data(), location.size()});
  if (!next) return fail("its redirect leads to an address that " + next.error());
  if (url_.scheme == url::Scheme::https && next->scheme == url::Scheme::http) return fail("its redirect leads from https to http");
  ErrorCode ignored;
  socket_.close(ignored);
  tls_.reset();
  parser_.reset();
  hop(std::move(*next));
}

void Exchange::read_body() {
  if (parser_->is_done()) return body_came({});
  parser_->get().body().data = chunk_.data();
  parser_->get().body().size = chunk_.size();
  with_stream([this](auto& stream) {
    http::async_read(stream, buffer_, *parser_, guarded([this](const ErrorCode& error) { body_came(error); }));
  });
}

void Exchange::body_came(const ErrorCode& error) {
  if (error && error != http::error::need_buffer) return fail("its body broke off: " + error.message());
  // Of a body that is over before the first read no chunk was given to the parser.
  const size_t came = parser_->get().body().data ? chunk_.size() - parser_->get().body().size : 0;
  body_->bytes.append(chunk_.data(), came);
  if (static_cast<int64_t>(body_->bytes.size()) > around_.options->body_bytes) return fail("it has more bytes than vision.image_bytes");
  if (!body_->reserved.add(static_cast<int64_t>(came), around_.options->total_bytes)) {
    return fail("vision.url_total_bytes are held", Failure::Kind::no_room);
  }
  if (!parser_->is_done()) return read_body();
  if (body_->bytes.empty()) return fail("its body is empty");
  finish(Bytes(body_, &body_->bytes));
}

// ---- the end

void Exchange::fail(std::string reason, Failure::Kind kind) { finish(Failure{kind, std::move(reason)}); }

void Exchange::finish(Outcome outcome) {
  if (std::exchange(over_, true)) return;
  close();
  if (const auto done = std::exchange(done_, nullptr)) done(std::move(outcome));
}

void Exchange::close() {
  if (resolve_id_ != 0) around_.resolver.cancel(std::exchange(resolve_id_, 0));
  timer_.cancel();
  dial_timer_.cancel();
  body_.reset();
  ErrorCode ignored;
  socket_.close(ignored);
}

}  // namespace vigil::fetch
