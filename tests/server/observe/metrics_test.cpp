// The names and labels of GET /metrics, which dashboards rely on, and that the numbers move.
#include <catch2/catch.hpp>

#include <string>

#include "server/observe/metrics.hpp"

using vigil::observe::Metrics;

namespace {

bool holds(const std::string& text, const std::string& line) { return ("\n" + text).find("\n" + line + "\n") != std::string::npos; }

}  // namespace

TEST_CASE("every metric of the contract is there from the start, with every label at 0") {
  const std::string text = Metrics().text();
  INFO(text);
  for (const char* line :
       {"vigil_requests_total{outcome=\"served\"} 0", "vigil_requests_total{outcome=\"failed\"} 0", "vigil_requests_total{outcome=\"cancelled\"} 0",
        "vigil_requests_total{outcome=\"rejected\"} 0", "vigil_requests_running 0", "vigil_requests_queued 0", "vigil_engine_up 0",
        "vigil_engine_starts_total 0", "vigil_engine_kills_total{why=\"ready\"} 0", "vigil_engine_kills_total{why=\"stall\"} 0",
        "vigil_engine_kills_total{why=\"silence\"} 0", "vigil_engine_kills_total{why=\"cancel\"} 0", "vigil_engine_kills_total{why=\"stop\"} 0",
        "vigil_tokens_total{kind=\"prompt\"} 0", "vigil_tokens_total{kind=\"cached\"} 0", "vigil_tokens_total{kind=\"generated\"} 0",
        "vigil_time_to_first_token_seconds_count 0", "vigil_inter_token_seconds_count 0", "vigil_request_seconds_count 0",
        "vigil_queue_seconds_count 0", "vigil_load_seconds_count 0", "# TYPE vigil_request_seconds histogram", "# TYPE vigil_requests_total counter",
        "# TYPE vigil_requests_running gauge"}) {
    INFO(line);
    CHECK(holds(text, line));
  }
}

TEST_CASE("the numbers move, and two registries share nothing") {
  Metrics metrics;
  Metrics other;
  metrics.request_ended(Metrics::Outcome::served, 2);
  metrics.request_ended(Metrics::Outcome::served, 400);
  metrics.request_ended(Metrics::Outcome::cancelled, 1);
  metrics.request_ended(Metrics::Outcome::rejected, 0);
  metrics.set_requests(1, 3);
  metrics.set_engine_up(true);
  metrics.engine_started();
  metrics.engine_killed(Metrics::Kill::silence);
  metrics.engine_loaded(1.5);
  metrics.tokens(Metrics::Tokens::prompt, 10);
  metrics.tokens(Metrics::Tokens::generated, 5);
  metrics.tokens(Metrics::Tokens::generated, -5);
  metrics.queued(0.2);
  metrics.first_token(0.3);
  metrics.inter_token(0.02);
  const std::string text = metrics.text();
  INFO(text);
  for (const char* line :
       {"vigil_requests_total{outcome=\"served\"} 2", "vigil_requests_total{outcome=\"cancelled\"} 1", "vigil_requests_total{outcome=\"rejected\"} 1",
        "vigil_requests_running 1", "vigil_requests_queued 3", "vigil_engine_up 1", "vigil_engine_starts_total 1",
        "vigil_engine_kills_total{why=\"silence\"} 1", "vigil_engine_kills_total{why=\"stall\"} 0", "vigil_tokens_total{kind=\"prompt\"} 10",
        "vigil_tokens_total{kind=\"generated\"} 5", "vigil_request_seconds_count 3", "vigil_request_seconds_sum 403", "vigil_queue_seconds_count 1",
        "vigil_time_to_first_token_seconds_count 1", "vigil_inter_token_seconds_count 1", "vigil_load_seconds_sum 1.5",
        "vigil_request_seconds_bucket{le=\"+Inf\"} 3", "vigil_request_seconds_bucket{le=\"2.5\"} 2"}) {
    INFO(line);
    CHECK(holds(text, line));
  }
  CHECK(holds(text, "vigil_inter_token_seconds_bucket{le=\"0.01\"} 0"));
  CHECK(holds(text, "vigil_inter_token_seconds_bucket{le=\"0.025\"} 1"));
  metrics.inter_token(0.025);  // a bucket holds its upper bound
  metrics.inter_token(0.0005);
  metrics.inter_token(11);
  const std::string later = metrics.text();
  CHECK(holds(later, "vigil_inter_token_seconds_bucket{le=\"0.001\"} 1"));
  CHECK(holds(later, "vigil_inter_token_seconds_bucket{le=\"0.01\"} 1"));
  CHECK(holds(later, "vigil_inter_token_seconds_bucket{le=\"0.025\"} 3"));
  CHECK(holds(later, "vigil_inter_token_seconds_bucket{le=\"10\"} 3"));
  CHECK(holds(later, "vigil_inter_token_seconds_bucket{le=\"+Inf\"} 4"));
  CHECK(holds(later, "vigil_inter_token_seconds_count 4"));
  metrics.set_engine_up(false);
  CHECK(holds(metrics.text(), "vigil_engine_up 0"));
  CHECK(holds(other.text(), "vigil_requests_total{outcome=\"served\"} 0"));
}
