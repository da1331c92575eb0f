// One client connection from accept to close: reads requests, asks the gate, hands them to their routes, writes the answers, watches for
// the client's leaving. Never without a timer or a request that the api must end. Not here: what is answered.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <boost/asio/ip/tcp.hpp>

#include "server/http/alarm.hpp"
#include "server/http/answer.hpp"
#include "server/http/gate.hpp"
#include "server/http/leaving.hpp"
#include "server/http/observer.hpp"
#include "server/http/options.hpp"
#include "server/http/output_buffer.hpp"
#include "server/http/request_parser.hpp"
#include "server/http/routes.hpp"

namespace vigil::http {

class Session;
class RequestChannel;

// What the sessions of a server share. One thread.
struct SessionContext {
  std::shared_ptr<const ServerOptions> options;  // replaced by a reload
  RouteTable routes;
  ServerObserver observer;
  std::unordered_map<Session*, std::shared_ptr<Session>> open;
  std::function<void()> closed;                  // a session has gone
  std::vector<std::shared_ptr<Session>> unflushed, flushing;  // those with output that has not been offered to their sockets
  bool flush_posted = false, gathering = false;  // who will flush them: a posted handler, whoever called gather()
  size_t body_bytes_held = 0;                    // of http.body_total_bytes
  uint64_t connections = 0, requests = 0;        // counters that ids are made of
  std::string id_prefix;                         // random for each start of the daemon
  uint64_t key_salt = 0;
  bool draining = false;
};

enum class Streaming : uint8_t { no, undecided, planned, committed };  // committed: the head has gone out

// One request on this connection; gone as soon as its answer is written.
struct OpenRequest {
  uint64_t serial = 0;
  std::shared_ptr<const ServerOptions> options;
  Verdict verdict;
  AnswerFrame frame;
  std::string method;
  size_t body_held = 0;
  std::unique_ptr<api::Exchange> exchange;
  RequestChannel* channel = nullptr;  // owned by whoever answers; it tells us when it goes
  Streaming streaming = Streaming::no;
  api::StreamPlan plan;
  std::chrono::steady_clock::time_point began, last_output;
  AccessRecord record;
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  enum class Admission : uint8_t { serve, refuse };  // refuse: http.connections is reached; say so and close

  Session(boost::asio::ip::tcp::socket socket, std::shared_ptr<SessionContext> context);
  ~Session();

  void start(Admission admission);
  bool idle() const;    // between requests, nothing read, nothing to write
  void close();         // now; an open request's client counts as gone
  // Writes what the sessions have gathered since the last call. Never from inside the api's code.
  static void flush_all(SessionContext& context);

 private:
  friend class RequestChannel;
  enum class Stage : uint8_t { head, body, answering, flushing, lingering, closed };
  // session.cpp: input
  // Everything that runs on this connection runs in here: an exception ends the request, never the daemon.
  template <typename Work>
  void guarded(Work&& work) noexcept {
    const auto self = shared_from_this();
    try {
      try {
        work();
      } catch (const std::exception& error) {
        fail_open(error.what());
      }
    } catch (...) {
      close();
    }
  }
  void read();
  void on_read(const boost::system::error_code& ec, size_t bytes);
  void on_end_of_input();
  void watch_for_reset();
  void look_for_end();
  void advance();
  void begin_request();
  void on_head();
  void dispatch();
  void refuse_now(const turn::RequestError& error);
  void refuse_now(api::Response response);
  bool body_unread() const;
  void await_request();
  void linger();
  void open_request(const RequestHead* head);
  void hold_body(size_t bytes);
  void on_stage_alarm();
  void arm_stage(double seconds);

  // session_answer.cpp: output
  void channel_respond(uint64_t serial, api::Response response);
  void channel_plan(uint64_t serial, api::StreamPlan plan);
  void channel_plan_later(uint64_t serial);
  void channel_plan_whole(uint64_t serial);
  void channel_write(uint64_t serial, std::string_view bytes);
  void channel_finish(uint64_t serial);
  void channel_fail(uint64_t serial, api::Response plain, std::string_view event);
  void channel_dropped(uint64_t serial);
  bool answering(uint64_t serial) const;
  void commit();
  void arm_stream();
  void on_stream_alarm();
  void append_keepalive();
  void append(std::string_view bytes);
  void probe();
  void take_advice(LeavingWatch::Advice advice);
  LeavingWatch::Answering answering_kind() const;
  void complete();
  void post_flush();
  void flush();
  void write_when_possible(std::string_view bytes);
  void on_written(const boost::system::error_code& ec, size_t bytes);
  void took(size_t bytes);
  void watch_reader();
  void look_at_reader();
  void check_pressure();
  void after_answer();
  void notify(std::function<void(api::Exchange&)> tell);
  void release_exchange();
  void finish_record();
  void fail_open(const std::string& what);
  AnswerFrame current_frame();

  boost::asio::ip::tcp::socket socket_;
  std::shared_ptr<SessionContext> context_;
  Stage stage_ = Stage::head;
  Admission admission_ = Admission::serve;
  std::string client_;                 // "connection-12"
  std::string input_;                  // read and not yet parsed; requests that follow wait here
  std::array<char, 16384> scratch_;
  bool reading_ = false, watching_ = false, input_ended_ = false;
  bool close_after_ = false;           // this answer is the connection's last
  bool unread_ = false;                // and the client may still be sending: drain it, or a reset would eat the answer
  std::optional<RequestParser> parser_;  // from a request's first byte to its dispatch
  std::optional<OpenRequest> open_;
  LeavingWatch leaving_;
  OutputBuffer output_;
  bool writing_ = false, flush_wanted_ = false;
  uint64_t written_ = 0;               // bytes that the kernel took, over all answers
  uint64_t taken_mark_ = 0;            // how many the client had acknowledged when it was last seen to read
  std::chrono::steady_clock::time_point taken_at_;
  bool watching_reader_ = false;
  Alarm stage_alarm_, write_alarm_, stream_alarm_, probe_alarm_, look_alarm_;
};

}  // namespace vigil::http
