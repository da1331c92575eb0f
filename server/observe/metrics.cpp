// prometheus-cpp's registry; every family and label is made once, so that the token path only adds numbers.
#include "server/observe/metrics.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace vigil::observe {

namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;
const Buckets short_times{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};            // seconds
const Buckets long_times{0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600};       // seconds

template <size_t n>
std::array<prometheus::Counter*, n> counters(prometheus::Registry& registry, const char* name, const char* help, const char* label,
                                             const std::array<const char*, n>& values) {
  auto& family = prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  std::array<prometheus::Counter*, n> all{};
  for (size_t i = 0; i < n; ++i) all[i] = &family.Add({{label, values[i]}});
  return all;
}

prometheus::Gauge& gauge(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
}

prometheus::Histogram& histogram(prometheus::Registry& registry, const char* name, const char* help, const Buckets& buckets) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
}

// The one histogram that sees every token: counted here without the registry's lock and handed over when somebody looks.
class TokenTimes {
 public:
  TokenTimes(prometheus::Histogram& histogram, const Buckets& buckets) : histogram_(histogram), buckets_(buckets), counts_(buckets.size() + 1) {}

  void observe(double seconds) {
    ++counts_[static_cast<size_t>(std::lower_bound(buckets_.begin(), buckets_.end(), seconds) - buckets_.begin())];
    sum_ += seconds;
  }
  void hand_over() {
    histogram_.ObserveMultiple(counts_, sum_);
    std::fill(counts_.begin(), counts_.end(), 0.0);
    sum_ = 0;
  }

 private:
  prometheus::Histogram& histogram_;
  const Buckets& buckets_;
  std::vector<double> counts_;  // whole numbers, in the registry's type
  double sum_ = 0;
};

}  // namespace

struct Metrics::Impl {
  prometheus::Registry registry;
  std::array<prometheus::Counter*, 4> requests = counters<4>(registry, "vigil_requests_total", "Requests that ended, by outcome.", "outcome",
                                                             {"served", "failed", "cancelled", "rejected"});
  prometheus::Gauge& running = gauge(registry, "vigil_requests_running", "Requests that the engine has.");
  prometheus::Gauge& waiting = gauge(registry, "vigil_requests_queued", "Requests that wait for their turn.");
  prometheus::Gauge& up = gauge(registry, "vigil_engine_up", "1 while the engine is ready.");
  prometheus::Counter& starts =
      prometheus::BuildCounter().Name("vigil_engine_starts_total").Help("Engine processes started.").Register(registry).Add({});
  std::array<prometheus::Counter*, 5> kills = counters<5>(registry, "vigil_engine_kills_total", "Engines ended by one of our limits.", "why",
                                                          {"ready", "stall", "silence", "cancel", "stop"});
  prometheus::Counter& late = prometheus::BuildCounter()
                                  .Name("vigil_loop_late_total")
                                  .Help("Times that the daemon itself was late by more than 250 ms when a limit was due; the limits moved.")
                                  .Register(registry)
                                  .Add({});
  std::array<prometheus::Counter*, 3> token_counts =
      counters<3>(registry, "vigil_tokens_total", "Tokens of ended requests.", "kind", {"prompt", "cached", "generated"});
  prometheus::Histogram& first = histogram(registry, "vigil_time_to_first_token_seconds", "From admission to the first token.", long_times);
  TokenTimes inter{histogram(registry, "vigil_inter_token_seconds", "Between two tokens of a request.", short_times), short_times};
  prometheus::Histogram& total = histogram(registry, "vigil_request_seconds", "From admission to the ending.", long_times);
  prometheus::Histogram& queue = histogram(registry, "vigil_queue_seconds", "From admission to the engine.", long_times);
  prometheus::Histogram& load = histogram(registry, "vigil_load_seconds", "From an engine's start to its READY.", long_times);
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

void Metrics::request_ended(Outcome outcome, double total_s) {
  impl_->requests[static_cast<size_t>(outcome)]->Increment();
  if (outcome != Outcome::rejected) impl_->total.Observe(total_s);
}

void Metrics::set_requests(int64_t running, int64_t queued) {
  impl_->running.Set(static_cast<double>(running));
  impl_->waiting.Set(static_cast<double>(queued));
}

void Metrics::set_engine_up(bool up) { impl_->up.Set(up ? 1 : 0); }
void Metrics::engine_started() { impl_->starts.Increment(); }
void Metrics::engine_killed(Kill why) { impl_->kills[static_cast<size_t>(why)]->Increment(); }
void Metrics::loop_late() { impl_->late.Increment(); }
void Metrics::engine_loaded(double seconds) { impl_->load.Observe(seconds); }

void Metrics::tokens(Tokens kind, int64_t count) {
  if (count > 0) impl_->token_counts[static_cast<size_t>(kind)]->Increment(static_cast<double>(count));
}

void Metrics::queued(double seconds) { impl_->queue.Observe(seconds); }
void Metrics::first_token(double seconds) { impl_->first.Observe(seconds); }
void Metrics::inter_token(double seconds) { impl_->inter.observe(seconds); }

std::string Metrics::text() const {
  impl_->inter.hand_over();
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, impl_->registry.Collect());
  return std::move(out).str();
}

}  // namespace vigil::observe
