// The output side of a connection: whole answers, streams with held-back headers and keep-alives, probes, back pressure.
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include "server/http/request_channel.hpp"
#include "server/http/session.hpp"

namespace vigil::http {
namespace {
namespace asio = boost::asio;
using boost::system::error_code;
using clock = std::chrono::steady_clock;

// Less than this in http.write_s, with more waiting, counts as not reading: a byte now and then would hold buffer and connection for days.
constexpr size_t kLeastTaken = 16 * 1024;

// Bytes that the kernel has from us and that the client's has not acknowledged.
uint64_t unacknowledged(int descriptor) {
  int bytes = 0;
  return ::ioctl(descriptor, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? static_cast<uint64_t>(bytes) : 0;
}
}  // namespace

bool Session::answering(uint64_t serial) const { return stage_ == Stage::answering && open_ && open_->serial == serial; }

LeavingWatch::Answering Session::answering_kind() const {
  if (stage_ == Stage::flushing) return LeavingWatch::Answering::finished;
  if (stage_ != Stage::answering || !open_) return LeavingWatch::Answering::nothing;
  if (open_->streaming == Streaming::undecided) return LeavingWatch::Answering::nothing;
  return open_->streaming == Streaming::no ? LeavingWatch::Answering::plain : LeavingWatch::Answering::stream;
}

AnswerFrame Session::current_frame() {
  AnswerFrame frame = open_->frame;
  frame.date = http_date(static_cast<int64_t>(std::time(nullptr)));
  if (context_->draining || close_after_) frame.connection = Connection::close;
  close_after_ = frame.connection == Connection::close;
  return frame;
}

void Session::append(std::string_view bytes) {
  output_.tail().append(bytes);
  if (open_) open_->record.bytes += bytes.size();
}

// ---- what the api asks for

void Session::channel_respond(uint64_t serial, api::Response response) {
  if (!answering(serial) || open_->streaming == Streaming::committed) return;
  open_->record.status = response.status;
  append(whole_answer(current_frame(), response));
  complete();
}

void Session::channel_plan(uint64_t serial, api::StreamPlan plan) {
  if (!answering(serial) || (open_->streaming != Streaming::no && open_->streaming != Streaming::undecided)) return;
  const bool late = open_->streaming == Streaming::undecided;
  open_->plan = std::move(plan);
  open_->streaming = Streaming::planned;
  open_->record.stream = true;
  if (open_->options->limits.commit_s <= 0) commit();
  else arm_stream();
  if (late && input_ended_) take_advice(leaving_.input_ended(answering_kind()));
}

void Session::channel_plan_later(uint64_t serial) {
  if (answering(serial) && open_->streaming == Streaming::no) open_->streaming = Streaming::undecided;
}

void Session::channel_plan_whole(uint64_t serial) {
  if (!answering(serial) || open_->streaming != Streaming::undecided) return;
  open_->streaming = Streaming::no;
  if (input_ended_) take_advice(leaving_.input_ended(answering_kind()));
}

void Session::channel_write(uint64_t serial, std::string_view bytes) {
  if (!answering(serial) || bytes.empty()) return;
  commit();
  const size_t before = output_.size();
  append_stream_bytes(output_.tail(), open_->frame.version, bytes);
  open_->record.bytes += output_.size() - before;
  check_pressure();
  post_flush();
}

void Session::channel_finish(uint64_t serial) {
  if (!answering(serial)) return;
  commit();
  append_stream_end(output_.tail(), open_->frame.version);
  complete();
}

void Session::channel_fail(uint64_t serial, api::Response plain, std::string_view event) {
  if (!answering(serial)) return;
  if (open_->streaming != Streaming::committed) return channel_respond(serial, std::move(plain));
  append_stream_bytes(output_.tail(), open_->frame.version, event);
  append_stream_end(output_.tail(), open_->frame.version);
  if (output_.blocked()) {  // a reader that was too slow for its request is not waited for once more than http.write_s
    close_after_ = true;
    arm_stage(open_->options->limits.write_s);
  }
  complete();
}

// Whoever held the request let it go unanswered: our own bug, and still one ending.
void Session::channel_dropped(uint64_t serial) {
  if (!answering(serial)) return;
  open_->channel = nullptr;
  asio::post(socket_.get_executor(), [self = shared_from_this(), serial] {
    self->guarded([&] {
      if (self->answering(serial)) self->fail_open("the request was dropped without an answer");
    });
  });
}

void Session::fail_open(const std::string& what) {
  if (context_->observer.fault)
    context_->observer.fault("request " + (open_ ? open_->frame.request_id : std::string("(none)")) + ": " + what);
  const bool can_answer = open_ && stage_ != Stage::flushing && stage_ != Stage::lingering && stage_ != Stage::closed &&
                          open_->streaming != Streaming::committed;
  if (!can_answer) return close();  // a stream that breaks off is seen as broken; a clean end would look like success
  refuse_now({turn::ErrorCode::internal_error, "an internal error; the log has it under this request's id", "", 1});
}

// ---- streams

void Session::commit() {
  if (open_->streaming == Streaming::committed) return;
  if (open_->frame.version == Version::http_1_0) close_after_ = true;  // the end of the connection is the end of the body
  open_->streaming = Streaming::committed;
  open_->record.stream = true;
  open_->record.status = 200;
  open_->last_output = clock::now();
  append(stream_head(current_frame(), open_->plan.content_type));
  post_flush();
  arm_stream();
}

void Session::arm_stream() {
  const config::Http& limits = open_->options->limits;
  Duration wait{};
  if (open_->streaming == Streaming::planned) {
    wait = from_seconds(limits.commit_s);
  } else {
    if (limits.keepalive_s <= 0) return stream_alarm_.clear();
    wait = std::max<Duration>(open_->last_output + from_seconds(limits.keepalive_s) - clock::now(), std::chrono::milliseconds(1));
  }
  stream_alarm_.set(wait, [self = shared_from_this()] { self->guarded([&] { self->on_stream_alarm(); }); });
}

void Session::on_stream_alarm() {
  if (stage_ != Stage::answering || !open_) return;
  if (open_->streaming == Streaming::planned) return commit();
  if (clock::now() - open_->last_output >= from_seconds(open_->options->limits.keepalive_s)) {
    if (output_.empty()) append_keepalive();  // a client with unread bytes before it needs no sign of life
    open_->last_output = clock::now();
  }
  arm_stream();
}

void Session::append_keepalive() {
  std::string bytes = open_->plan.keepalive ? open_->plan.keepalive() : std::string();
  if (bytes.empty() && open_->plan.content_type == "text/event-stream") bytes = ":\n\n";
  const size_t before = output_.size();
  append_stream_bytes(output_.tail(), open_->frame.version, bytes);
  open_->record.bytes += output_.size() - before;
  post_flush();
}

void Session::take_advice(LeavingWatch::Advice advice) {
  switch (advice) {
    case LeavingWatch::Advice::stay: return;
    case LeavingWatch::Advice::left: return close();
    case LeavingWatch::Advice::probe: return probe();
  }
}

void Session::probe() {
  commit();
  append_keepalive();
  probe_alarm_.set(LeavingWatch::kProbeEvery, [self = shared_from_this()] {
    self->guarded([&] { self->take_advice(self->leaving_.probe_due(self->answering_kind())); });
  });
}

// ---- writing

// The answer is whole; what is left is to write it.
void Session::complete() {
  stage_ = Stage::flushing;
  stream_alarm_.clear();
  probe_alarm_.clear();
  if (open_->channel != nullptr) std::exchange(open_->channel, nullptr)->detach();
  context_->body_bytes_held -= std::exchange(open_->body_held, 0);
  release_exchange();
  post_flush();
}

// Never inside a call of the exchange's own code, which may be what just answered.
void Session::release_exchange() {
  if (open_->exchange) asio::post(socket_.get_executor(), [done = std::move(open_->exchange)] {});
}

void Session::notify(std::function<void(api::Exchange&)> tell) {
  asio::post(socket_.get_executor(), [self = shared_from_this(), serial = open_->serial, tell = std::move(tell)] {
    self->guarded([&] {
      if (self->answering(serial) && self->open_->exchange) tell(*self->open_->exchange);
    });
  });
}

void Session::check_pressure() {
  if (stage_ != Stage::answering || !open_) return;
  const auto limit = static_cast<size_t>(std::max<int64_t>(open_->options->limits.write_buffer_bytes, 0));
  switch (output_.pressure(limit)) {
    case OutputBuffer::Pressure::unchanged: return;
    case OutputBuffer::Pressure::blocked: return notify([](api::Exchange& exchange) { exchange.reader_blocked(); });
    case OutputBuffer::Pressure::ready: return notify([](api::Exchange& exchange) { exchange.reader_ready(); });
  }
}

// At the end of this turn of the loop, or of the engine's batch of lines (Server::flush), so that a batch of events becomes one write.
void Session::post_flush() {
  if (std::exchange(flush_wanted_, true)) return;
  context_->unflushed.push_back(shared_from_this());
  if (context_->gathering || std::exchange(context_->flush_posted, true)) return;
  asio::post(socket_.get_executor(), [context = context_] {
    context->flush_posted = false;
    flush_all(*context);
  });
}

void Session::flush_all(SessionContext& context) {
  if (!context.flushing.empty()) return;  // inside itself: whatever came up meanwhile has posted its own flush
  context.flushing.swap(context.unflushed);
  for (const auto& session : context.flushing) {
    session->flush_wanted_ = false;
    session->guarded([&] { session->flush(); });
  }
  context.flushing.clear();
}

// Mostly the socket takes everything at once, and neither a timer nor a handler is needed.
void Session::flush() {
  if (writing_ || stage_ == Stage::closed) return;
  for (std::string_view bytes = output_.front(); !bytes.empty(); bytes = output_.front()) {
    error_code ec;
    const size_t sent = socket_.write_some(asio::buffer(bytes.data(), bytes.size()), ec);
    if (ec == asio::error::would_block) return write_when_possible(bytes);
    if (ec) return close();
    took(sent);
  }
  if (std::exchange(watching_reader_, false)) write_alarm_.clear();
  if (stage_ == Stage::flushing) after_answer();
}

void Session::write_when_possible(std::string_view bytes) {
  writing_ = true;
  watch_reader();
  socket_.async_write_some(asio::buffer(bytes.data(), bytes.size()), [self = shared_from_this()](const error_code& ec, size_t sent) {
    self->guarded([&] { self->on_written(ec, sent); });
  });
}

// While something waits to be written, the client must be seen to read. What it has acknowledged counts, not what the kernel takes from us:
// the kernel takes more only when a third of its buffer has come free.
void Session::watch_reader() {
  if (context_->options->limits.write_s <= 0 || std::exchange(watching_reader_, true)) return;
  taken_mark_ = written_ - unacknowledged(socket_.native_handle());
  taken_at_ = clock::now();
  look_at_reader();
}

void Session::look_at_reader() {
  const Duration limit = from_seconds(context_->options->limits.write_s);
  const uint64_t taken = written_ - unacknowledged(socket_.native_handle());
  if (taken >= taken_mark_ + kLeastTaken) {
    taken_mark_ = taken;
    taken_at_ = clock::now();
  } else if (limit > Duration::zero() && clock::now() - taken_at_ >= limit) {
    if (context_->observer.warning) context_->observer.warning(client_ + " took next to nothing for http.write_s and was dropped");
    return close();
  }
  write_alarm_.set(std::max<Duration>(limit / 8, std::chrono::milliseconds(10)), [self = shared_from_this()] {
    self->guarded([&] { self->look_at_reader(); });
  });
}

void Session::on_written(const error_code& ec, size_t bytes) {
  writing_ = false;
  if (stage_ == Stage::closed) return;
  if (ec) return close();
  took(bytes);
  flush();
}

void Session::took(size_t bytes) {
  output_.sent(bytes);
  written_ += bytes;
  if (open_) open_->last_output = clock::now();
  check_pressure();
}

void Session::after_answer() {
  const auto limit = static_cast<size_t>(std::max<int64_t>(open_->options->limits.write_buffer_bytes, 0));
  static_cast<void>(output_.pressure(limit));  // the next request begins unblocked
  finish_record();
  stage_alarm_.clear();
  if (close_after_) return linger();
  await_request();
}

void Session::finish_record() {
  AccessRecord& record = open_->record;
  record.seconds = std::chrono::duration<double>(clock::now() - open_->began).count();
  if (context_->observer.finished) context_->observer.finished(record);
}

}  // namespace vigil::http
