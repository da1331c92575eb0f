// vigil-sim: plays many worlds, one with its trace, or each of many worlds once for every step that can fail in it.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/sim/world.hpp"

namespace {

using vigil::sim::Point;
using vigil::sim::World;
using vigil::sim::WorldResult;

struct Options {
  uint64_t worlds = 0, seed = 1, jobs = 1, replay = 0, fail_at_n = 0, step = 0;
};

struct Sum {
  uint64_t worlds = 0, steps = 0, runs = 0, served = 0, failures = 0, cancelled = 0, rejected = 0, starts = 0, vision_starts = 0, seen = 0, unseen = 0;
  std::map<Point, uint64_t> failed;
  void add(const WorldResult& one) {
    ++runs;
    steps += one.steps;
    served += one.served;
    failures += one.failures;
    cancelled += one.cancelled;
    rejected += one.rejected;
    starts += one.starts;
    vision_starts += one.vision_starts;
    seen += one.seen;
    unseen += one.unseen;
    if (one.failed != Point::none) ++failed[one.failed];
  }
  void add(const Sum& other) {
    worlds += other.worlds;
    runs += other.runs;
    steps += other.steps;
    served += other.served;
    failures += other.failures;
    cancelled += other.cancelled;
    rejected += other.rejected;
    starts += other.starts;
    vision_starts += other.vision_starts;
    seen += other.seen;
    unseen += other.unseen;
    for (const auto& [point, count] : other.failed) failed[point] += count;
  }
};

struct Finding {
  uint64_t seed = 0, step = 0;
  std::string what;
};

unsigned long long wide(uint64_t value) { return value; }

int replay(uint64_t seed, uint64_t step) {
  const auto result = World(seed, World::Trace::on, step).run();
  for (const auto& line : result.trace) std::puts(line.c_str());
  std::printf("%s\n", result.violation ? result.violation->c_str() : "no violation");
  return result.violation ? 1 : 0;
}

// The world as it is; in a sweep also once for each of its steps, with that step failing.
bool play(uint64_t seed, bool sweep, Sum& sum, Finding& finding) {
  ++sum.worlds;
  const auto plain = World(seed, World::Trace::off).run();
  sum.add(plain);
  if (plain.violation) {
    finding = {seed, 0, *plain.violation};
    return false;
  }
  for (uint64_t step = 1; sweep && step <= plain.fault_points; ++step) {
    const auto result = World(seed, World::Trace::off, step).run();
    sum.add(result);
    if (result.violation) {
      finding = {seed, step, *result.violation + " (step " + std::to_string(step) + ", " + std::string(vigil::sim::to_string(result.failed)) + ")"};
      return false;
    }
  }
  return true;
}

int play_all(const Options& options) {
  const bool sweep = options.fail_at_n > 0;
  const uint64_t end = options.seed + (sweep ? options.fail_at_n : options.worlds);
  const auto begin = std::chrono::steady_clock::now();
  std::atomic<uint64_t> next{options.seed};
  std::atomic<bool> found{false};
  std::mutex mutex;
  Sum total;
  std::vector<Finding> findings;
  const auto work = [&] {
    Sum sum;
    for (uint64_t seed = next++; seed < end && !found; seed = next++) {
      Finding finding;
      if (play(seed, sweep, sum, finding)) continue;
      found = true;
      const std::lock_guard lock(mutex);
      findings.push_back(finding);
    }
    const std::lock_guard lock(mutex);
    total.add(sum);
  };
  std::vector<std::thread> threads;
  for (uint64_t n = 1; n < options.jobs; ++n) threads.emplace_back(work);
  work();
  for (auto& thread : threads) thread.join();
  for (const auto& finding : findings) {
    std::printf("%s\nshow it with: tools/replay %llu%s\n", finding.what.c_str(), wide(finding.seed), finding.step ? (" " + std::to_string(finding.step)).c_str() : "");
  }
  if (!findings.empty()) return 1;
  const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%llu worlds, %llu runs, %llu steps, %llu engines, %llu vision children, %.1f s, %.0f runs a second; requests: %llu served, %llu failed, %llu cancelled, %llu rejected; "
              "with pictures: %llu encoded, %llu in vain; no violation\n",
              wide(total.worlds), wide(total.runs), wide(total.steps), wide(total.starts), wide(total.vision_starts), s, static_cast<double>(total.runs) / s, wide(total.served), wide(total.failures),
              wide(total.cancelled), wide(total.rejected), wide(total.seen), wide(total.unseen));
  if (!sweep) return 0;
  std::printf("failed steps:");
  for (const auto& [point, count] : total.failed) std::printf(" %s %llu", std::string(vigil::sim::to_string(point)).c_str(), wide(count));
  std::printf("\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  const std::map<std::string, uint64_t*> names{{"--worlds", &options.worlds}, {"--seed", &options.seed}, {"--jobs", &options.jobs},
                                               {"--replay", &options.replay}, {"--fail-at-n", &options.fail_at_n}, {"--step", &options.step}};
  bool understood = argc > 1;
  for (int n = 1; n < argc; n += 2) {
    const auto name = names.find(argv[n]);
    char* end = nullptr;
    understood = understood && name != names.end() && n + 1 < argc;
    if (understood) *name->second = std::strtoull(argv[n + 1], &end, 10);
    understood = understood && *end == '\0' && *argv[n + 1] != '\0';
  }
  const int orders = (options.worlds > 0) + (options.fail_at_n > 0) + (options.replay > 0);
  if (!understood || orders != 1 || options.jobs < 1 || options.jobs > 256) {
    std::fputs("usage: vigil-sim --worlds N [--seed S] [--jobs J]     N worlds, from seed S (1) on\n"
               "       vigil-sim --fail-at-n N [--seed S] [--jobs J]  N worlds, each once for every step that can fail in it\n"
               "       vigil-sim --replay SEED [--step N]             the trace of one world, with its Nth step failing\n", stderr);
    return 2;
  }
  return options.replay > 0 ? replay(options.replay, options.step) : play_all(options);
}
