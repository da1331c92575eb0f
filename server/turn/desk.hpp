// The desk: admission, the queue and the leases on one engine, from submit to exactly one ending. Pure: time is an argument, the engine a
// TurnPort, the client a ReplySink. Not here: how an engine is started or judged (supervise), sockets, JSON, text.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <set>
#include <utility>
#include <vector>

#include "protocol/time.hpp"
#include "server/turn/memory.hpp"
#include "server/turn/ports.hpp"
#include "server/turn/queue.hpp"
#include "server/turn/request.hpp"

namespace vigil::turn {

struct DeskLimits {
  size_t queue_limit = 64;             // queue.limit, requests in phase queued; for one with pictures those in phase encoding too; 0 = no limit
  Duration queue_wait{};               // queue.wait_s; 0 = no limit
  Duration queue_warn{};               // queue.warn_s; 0 = never
  Duration slow_reader_wait{};         // http.write_s
  Duration crash_memory = std::chrono::minutes(10);  // contract, "Retry"
  int crashes_refused = 2;
  Duration cancel_memory = std::chrono::seconds(10);  // how long a cancel waits for a request of its id (T8 of the seed behaviours)
};

enum class Phase : uint8_t { queued, loading, encoding, prefill, decoding, stopping };

struct ActiveRequest {
  std::string id;
  Phase phase = Phase::queued;
  double held_s = 0;
  bool stream = false;
  int64_t prompt_tokens = 0, prefilled = 0, generated = 0;
};

struct Snapshot {
  int64_t running = 0, queued = 0, loading = 0, encoding = 0, limit = 0;
  std::vector<ActiveRequest> active;    // oldest first
  uint64_t served = 0, failed = 0, cancelled = 0, rejected = 0;
};

// What the desk reports for metrics and logs; implemented by the daemon. May be empty functions in tests.
struct DeskObserver {
  std::function<void(const Request&, const Ending&, bool rejected)> ended;
  std::function<void(double seconds)> inter_token;
  std::function<void(int64_t running, int64_t queued)> gauges;
  std::function<void(const std::string& line)> log;   // diagnostics that no client sees: strays, long-running requests
};

class Desk {
 public:
  Desk(DeskLimits limits, TurnPort& port, DeskObserver observer = {});
  ~Desk();  // ends whatever is still open with internal_error
  Desk(const Desk&) = delete;
  Desk& operator=(const Desk&) = delete;
  void attach_encoder(EncoderPort* encoder) { encoder_ = encoder; }  // without one, requests with pictures are refused

  // ---- clients
  // Accepts the request or refuses it; either way `sink` gets its one ending, perhaps before this returns.
  RequestKey submit(Request request, std::unique_ptr<ReplySink> sink, TimePoint now);
  void leave(RequestKey key, TimePoint now);                 // the client is gone; a finished key does nothing
  // By the API; false when no such request is open. It is remembered then: a request of that id that comes later does not start.
  bool cancel(const std::string& request_id, TimePoint now);
  void reader_blocked(RequestKey key, TimePoint now);        // its write buffer is full
  void reader_ready(RequestKey key, TimePoint now);          // it drained

  // ---- the engine
  void engine_changed(const EngineView& view, TimePoint now);
  void on_line(LeaseId lease, const protocol::EngineEvent& event, TimePoint now);  // only lines of a lease; a closed lease does nothing
  // A load failed: every request that waits for it ends with the error.
  void load_failed(const RequestError& error, TimePoint now);
  // The process is dead or being killed: every lease of this generation ends; queued requests stay.
  void engine_lost(Generation generation, const EngineLoss& loss, TimePoint now);
  // ERR of a lease, kept open until its reason is complete (child exit or 200 ms); `detail` is appended to the text.
  void error_settled(LeaseId lease, const std::string& detail, TimePoint now);
  // By its own account the engine does not know the lease any more (supervise judges that); `evidence` says how that was seen.
  void lease_forgotten(LeaseId lease, const std::string& evidence, TimePoint now);
  // An unload was ordered: who waits ends with engine_unloaded, who comes is refused, until the engine has left phase ready.
  void begin_unload(TimePoint now);

  // ---- the encoder of pictures
  void encoded(RequestKey key, std::shared_ptr<const Embeddings> embeddings, TimePoint now);
  // So many of its pictures have so many rows: a request that cannot fit any more ends here, before the rest is encoded.
  void encoded_some(RequestKey key, int64_t pictures, int64_t rows, TimePoint now);
  void encode_failed(RequestKey key, const RequestError& error, TimePoint now);
  std::string client_of(RequestKey key) const;               // whose turn it is; empty when the request is over

  // ---- time and the end
  std::optional<TimePoint> deadline() const;
  void tick(TimePoint now);
  void set_limits(const DeskLimits& limits) { limits_ = limits; }
  void close(TimePoint now);                                 // queued and loading end with shutting_down; nothing new is accepted
  void end_running(const RequestError& error, TimePoint now);// the drain is over
  bool idle() const;                                         // no request and no lease is open

  Snapshot snapshot(TimePoint now) const;
  const EngineView& engine() const { return engine_; }

 private:
  struct Open;    // one accepted request, until its ending
  struct Lease;   // one use of the engine, until its DONE, ERR or the process's end; may outlive its request

  // Why a request cannot run on the engine as it is now known; nothing when it can.
  std::optional<RequestError> unfit(const Request& request) const;
  std::optional<RequestError> refused(const Request& request, TimePoint now) const;
  bool engine_free() const;
  void enqueue(Open& open, TimePoint now);                   // ready for its turn: phase queued or loading, or an ending at once
  void reject(Request& request, std::unique_ptr<ReplySink> sink, RequestError error);
  void pump(TimePoint now);
  void start(Open& open, TimePoint now);
  void end_thinking(Open& open) const;                       // sets force_at, now that the room is known
  void set_phase(Open& open, Phase phase, TimePoint now);
  void forget_phase(const Open& open);                       // takes it out of the counts of its phase
  void end(RequestKey key, Ending ending, TimePoint now);
  void end_waiting(Phase phase, const RequestError& error, TimePoint now);
  void end_strangers(TimePoint now);
  void stop(Lease& lease);
  void close_lease(LeaseId id, TimePoint now);
  void on_token(Lease& lease, Open* open, const protocol::Token& token, TimePoint now);
  void on_done(Lease& lease, const protocol::Done& done, TimePoint now);
  void unpause();
  void report_gauges() const;
  void log(const std::string& line) const;
  Open* find(RequestKey key);

  DeskLimits limits_;
  TurnPort& port_;
  DeskObserver observer_;
  EngineView engine_;
  FairQueue queue_;                                      // phases queued and loading, in order of turn
  std::map<RequestKey, std::unique_ptr<Open>> open_;     // by age
  std::map<LeaseId, std::unique_ptr<Lease>> leases_;
  std::set<std::pair<TimePoint, RequestKey>> queued_;    // phase queued, by the time it began
  CrashMemory crashes_;
  CancelMemory cancels_;
  EncoderPort* encoder_ = nullptr;
  RequestKey next_key_ = 1;
  LeaseId next_lease_ = 1;
  RequestKey paused_for_ = 0;
  TimePoint paused_until_{};
  size_t loading_ = 0, encoding_ = 0;
  bool closed_ = false, unloading_ = false;
  uint64_t served_ = 0, failed_ = 0, cancelled_ = 0, rejected_ = 0;
};

}  // namespace vigil::turn
