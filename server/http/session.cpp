// The input side of a connection: reading, the stages of a request, leaving, closing.
#include "server/http/session.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include "server/http/request_channel.hpp"

namespace vigil::http {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using turn::ErrorCode;
using turn::RequestError;

constexpr size_t kPipelinedBytes = 64 * 1024;    // contract, "Leaving"
constexpr double kLingerUnreadS = 5;             // for a client that still sends a body which nobody wants
constexpr double kLingerS = 1;
constexpr Duration kLookEvery = std::chrono::milliseconds(100);  // for the end of input behind what was not read

std::string in_seconds(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g s", value);
  return text.data();
}

uint64_t salted_hash(std::string_view text, uint64_t salt) {  // FNV-1a
  uint64_t hash = 14695981039346656037ULL ^ salt;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

// Some clients end a body with a line break that its length does not count (RFC 9112 section 2.2).
size_t blank_lines(std::string_view input) {
  size_t end = 0;
  while (input.substr(end, 2) == "\r\n") end += 2;
  return end;
}

// The kernel has seen the end of the client's bytes, though we have not read that far.
bool peer_has_finished(int descriptor) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  return info.tcpi_state == TCP_CLOSE_WAIT || info.tcpi_state == TCP_LAST_ACK || info.tcpi_state == TCP_CLOSING || info.tcpi_state == TCP_CLOSE;
}

std::string hexadecimal(uint64_t value) {
  std::array<char, 20> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

}  // namespace

Session::Session(asio::ip::tcp::socket socket, std::shared_ptr<SessionContext> context)
    : socket_(std::move(socket)), context_(std::move(context)), client_("connection-" + std::to_string(++context_->connections)),
      stage_alarm_(socket_.get_executor()), write_alarm_(socket_.get_executor()), stream_alarm_(socket_.get_executor()),
      probe_alarm_(socket_.get_executor()), look_alarm_(socket_.get_executor()) {}

Session::~Session() = default;

void Session::start(Admission admission) {
  admission_ = admission;
  error_code ignored;  // cannot fail on an open socket
  socket_.non_blocking(true, ignored);
  arm_stage(context_->options->limits.header_s);  // a connection that never says anything costs no more than a slow header
  read();
}

bool Session::idle() const { return stage_ == Stage::head && !parser_ && input_.empty() && output_.empty(); }

void Session::arm_stage(double seconds) {
  if (seconds <= 0) return stage_alarm_.clear();
  stage_alarm_.set(from_seconds(seconds), [self = shared_from_this()] { self->guarded([&] { self->on_stage_alarm(); }); });
}

void Session::on_stage_alarm() {
  const config::Http& limits = context_->options->limits;
  if (stage_ == Stage::head && parser_)
    return refuse_now({ErrorCode::request_timeout,
                       "the request's header did not arrive within " + in_seconds(limits.header_s) + " (http.header_s)", "", 1});
  if (stage_ == Stage::body)
    return refuse_now({ErrorCode::request_timeout,
                       "the request's body did not arrive within " + in_seconds(limits.body_s) + " (http.body_s)", "", 1});
  close();
}

void Session::read() {
  if (reading_ || input_ended_ || stage_ == Stage::closed) return;
  const bool later = stage_ == Stage::answering || stage_ == Stage::flushing;
  if (later && input_.size() >= kPipelinedBytes) {
    watch_for_reset();
    return look_for_end();
  }
  reading_ = true;
  const size_t room = later ? std::min(scratch_.size(), kPipelinedBytes - input_.size()) : scratch_.size();
  socket_.async_read_some(asio::buffer(scratch_.data(), room), [self = shared_from_this()](const error_code& ec, size_t bytes) {
    self->guarded([&] { self->on_read(ec, bytes); });
  });
}

void Session::on_read(const error_code& ec, size_t bytes) {
  reading_ = false;
  if (stage_ == Stage::closed) return;
  if (ec == asio::error::eof) return on_end_of_input();
  if (ec) return close();
  if (stage_ != Stage::lingering) {
    input_.append(scratch_.data(), bytes);
    advance();
  }
  read();
}

void Session::on_end_of_input() {
  input_ended_ = true;
  switch (stage_) {
    case Stage::head: return close();
    case Stage::body: return refuse_now({ErrorCode::invalid_request, "the request's body ended before it was whole", "", 1});
    case Stage::answering:
    case Stage::flushing:
      watch_for_reset();
      return take_advice(leaving_.input_ended(answering_kind()));
    case Stage::lingering: return close();
    case Stage::closed: return;
  }
}

// With the input at its end, or full, a read can no longer tell of a reset: the socket's error state does.
void Session::watch_for_reset() {
  if (watching_) return;
  watching_ = true;
  socket_.async_wait(asio::ip::tcp::socket::wait_error, [self = shared_from_this()](const error_code& ec) {
    self->watching_ = false;
    if (!ec) self->guarded([&] { self->close(); });
  });
}

// With the input full, its end cannot be read: the kernel is asked now and then.
void Session::look_for_end() {
  const auto kind = answering_kind();
  if (kind == LeavingWatch::Answering::finished || input_.size() < kPipelinedBytes) return;
  if (kind != LeavingWatch::Answering::nothing && peer_has_finished(socket_.native_handle())) return take_advice(leaving_.input_ended(kind));
  look_alarm_.set(kLookEvery, [self = shared_from_this()] { self->guarded([&] { self->look_for_end(); }); });
}

void Session::begin_request() {
  parser_.emplace(static_cast<size_t>(std::max<int64_t>(context_->options->limits.header_bytes, 1)));
  arm_stage(context_->options->limits.header_s);
}

void Session::advance() {
  while (stage_ == Stage::head || stage_ == Stage::body) {
    if (!parser_) {
      input_.erase(0, blank_lines(input_));
      if (input_.empty() || input_ == "\r") return;
      begin_request();
    }
    input_.erase(0, parser_->feed(input_));
    const auto progress = parser_->progress();
    if (stage_ == Stage::body) {
      hold_body(parser_->body_size());
      if (stage_ != Stage::body) return;  // too much over all connections
    }
    switch (progress) {
      case RequestParser::Progress::need_more:
        if (input_ended_) on_end_of_input();
        return;
      case RequestParser::Progress::failed: return refuse_now(parser_->failure());
      case RequestParser::Progress::head_complete:
      case RequestParser::Progress::complete:
        if (stage_ == Stage::head) on_head();
        else dispatch();
        break;
    }
  }
}

void Session::open_request(const RequestHead* head) {
  open_.emplace();
  open_->serial = ++context_->requests;
  open_->options = context_->options;
  open_->began = open_->last_output = std::chrono::steady_clock::now();
  AnswerFrame& frame = open_->frame;
  frame.server = open_->options->version.empty() ? "vigil" : "vigil/" + open_->options->version;
  frame.request_id = context_->id_prefix + hexadecimal(open_->serial).substr(6);
  if (head != nullptr) {
    open_->method = head->method;
    frame.version = head->version;
    frame.connection = head->keep_alive ? Connection::keep : Connection::close;
    frame.body = head->method == "HEAD" ? BodyBytes::left_out : BodyBytes::sent;
    if (acceptable_request_id(head->field("x-request-id"))) frame.request_id = std::string(head->field("x-request-id"));
    frame.cors = cors_headers(head->field("origin"), *open_->options);
  }
  open_->record.request_id = frame.request_id;
  open_->record.method = open_->method;
  open_->record.client = client_;
}

void Session::on_head() {
  const RequestHead& head = parser_->head();
  open_request(&head);
  OpenRequest& request = *open_;
  const config::Http& limits = request.options->limits;
  if (admission_ == Admission::refuse) {
    close_after_ = true;
    return refuse_now({ErrorCode::queue_full, "all " + std::to_string(limits.connections) + " connections are in use (http.connections)", "", 1});
  }
  request.verdict = judge(head, *request.options, context_->routes);
  request.record.path = request.verdict.target.path;
  if (request.verdict.key && request.options->api_keys.size() > 1)
    request.record.client = "key-" + hexadecimal(salted_hash(request.options->api_keys[*request.verdict.key], context_->key_salt));
  if (request.verdict.framing_lost) close_after_ = true;
  if (request.verdict.answer) return refuse_now(std::move(*request.verdict.answer));
  stage_ = Stage::body;
  if (parser_->progress() == RequestParser::Progress::complete) return;
  if (limits.body_total_bytes > 0 &&
      context_->body_bytes_held + head.content_length.value_or(0) > static_cast<size_t>(limits.body_total_bytes))
    return refuse_now({ErrorCode::queue_full, "the requests' bodies would hold more than " + std::to_string(limits.body_total_bytes) +
                       " bytes together (http.body_total_bytes)", "", 1});
  parser_->read_body(request.verdict.body_bytes);
  arm_stage(limits.body_s);
  if (head.expects_continue() && input_.empty()) {
    append("HTTP/1.1 100 Continue\r\n\r\n");
    post_flush();
  }
}

// Counts what has arrived of this request's body against http.body_total_bytes until the request is over.
void Session::hold_body(size_t bytes) {
  context_->body_bytes_held += bytes - open_->body_held;
  open_->body_held = bytes;
  const auto limit = static_cast<size_t>(std::max<int64_t>(open_->options->limits.body_total_bytes, 0));
  if (bytes > 0 && limit > 0 && context_->body_bytes_held > limit)
    refuse_now({ErrorCode::queue_full,
                "the requests' bodies hold more than " + std::to_string(limit) + " bytes together (http.body_total_bytes)", "", 1});
}

void Session::dispatch() {
  stage_ = Stage::answering;
  stage_alarm_.clear();
  OpenRequest& request = *open_;
  const uint64_t serial = request.serial;
  api::HttpRequest incoming;
  incoming.id = request.frame.request_id;
  incoming.method = request.method;
  incoming.path = request.verdict.target.path;
  incoming.query = request.verdict.target.query;
  incoming.path_parameter = std::move(request.verdict.parameter);
  incoming.client = request.record.client;
  incoming.client_is_key = incoming.client != client_;
  incoming.body = parser_->take_body();
  parser_.reset();
  auto channel = std::make_shared<RequestChannel>(weak_from_this(), serial);
  request.channel = channel.get();
  auto exchange = request.verdict.route->handler(std::move(incoming), std::move(channel));
  if (answering(serial)) {
    open_->exchange = std::move(exchange);
    if (input_ended_) take_advice(leaving_.input_ended(answering_kind()));
  } else if (exchange) {
    asio::post(socket_.get_executor(), [done = std::move(exchange)] {});
  }
}

bool Session::body_unread() const {
  if (!parser_) return false;
  const auto progress = parser_->progress();
  return progress == RequestParser::Progress::failed || progress == RequestParser::Progress::need_more ||
         progress == RequestParser::Progress::head_complete;
}

void Session::refuse_now(const RequestError& error) {
  refuse_now(context_->routes.error(open_ ? open_->verdict.route : nullptr, error));
}

void Session::refuse_now(api::Response response) {
  if (!open_) open_request(nullptr);
  // A short body has often come with its head: it is passed over. What is still to come would be taken for the next request.
  if (parser_ && parser_->progress() == RequestParser::Progress::head_complete && parser_->head().content_length &&
      *parser_->head().content_length <= input_.size()) {
    input_.erase(0, static_cast<size_t>(*parser_->head().content_length));
    parser_.reset();
  }
  unread_ = body_unread();
  if (unread_) close_after_ = true;
  parser_.reset();
  stage_ = Stage::answering;
  stage_alarm_.clear();
  channel_respond(open_->serial, std::move(response));
}

void Session::await_request() {
  open_.reset();
  leaving_.next_request();
  stage_ = Stage::head;
  input_.erase(0, blank_lines(input_));
  const bool nothing_yet = input_.empty() || input_ == "\r";
  if (context_->draining && nothing_yet) return close();
  if (nothing_yet) {
    if (input_ended_) return close();
    arm_stage(context_->options->limits.idle_s);
  } else {
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->guarded([&] { self->advance(); }); });
  }
  read();
}

// The answer is written; whatever the client still sends is read and dropped for a while, since closing over unread bytes sends a reset.
void Session::linger() {
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  open_.reset();  // answered and recorded; what comes from here on is no leaving
  if (input_ended_ || (context_->draining && !unread_)) return close();
  stage_ = Stage::lingering;
  input_.clear();
  arm_stage(unread_ ? kLingerUnreadS : kLingerS);
  read();
}

void Session::close() {
  if (stage_ == Stage::closed) return;
  const auto self = shared_from_this();
  stage_ = Stage::closed;
  for (Alarm* alarm : {&stage_alarm_, &write_alarm_, &stream_alarm_, &probe_alarm_, &look_alarm_}) alarm->clear();
  error_code ignored;
  socket_.close(ignored);
  if (open_) {
    if (open_->channel != nullptr) open_->channel->detach();
    context_->body_bytes_held -= std::exchange(open_->body_held, 0);
    open_->record.left = true;
    finish_record();
    const auto exchange = std::move(open_->exchange);
    open_.reset();
    try {
      if (exchange) exchange->client_left();
    } catch (const std::exception& error) {
      if (context_->observer.fault) context_->observer.fault(std::string("a request whose client left: ") + error.what());
    }
  }
  context_->open.erase(this);
  if (context_->closed) context_->closed();
}

}  // namespace vigil::http
