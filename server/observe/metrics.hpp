// The daemon's metrics (contract, "Metrics") behind typed calls, and their Prometheus text. Not here: who serves the text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace vigil::observe {

// One thread.
class Metrics {
 public:
  enum class Outcome : uint8_t { served, failed, cancelled, rejected };
  enum class Kill : uint8_t { ready, stall, silence, cancel, stop };
  enum class Tokens : uint8_t { prompt, cached, generated };

  Metrics();
  ~Metrics();

  void request_ended(Outcome outcome, double total_s);
  void set_requests(int64_t running, int64_t queued);
  void set_engine_up(bool up);
  void engine_started();
  void engine_killed(Kill why);
  void engine_loaded(double seconds);
  void loop_late();  // the decision loop itself was late by more than 250 ms when a limit was due
  void tokens(Tokens kind, int64_t count);
  void queued(double seconds);
  void first_token(double seconds);
  void inter_token(double seconds);

  std::string text() const;  // text/plain; version=0.0.4

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vigil::observe
