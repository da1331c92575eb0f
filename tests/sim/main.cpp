// vigil-sim: plays many worlds, or one with its trace. Usage: vigil-sim --worlds N [--seed S]   |   vigil-sim --replay SEED
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/sim/world.hpp"

namespace {

int replay(uint64_t seed) {
  const auto result = vigil::sim::World(seed, vigil::sim::World::Trace::on).run();
  for (const auto& line : result.trace) std::puts(line.c_str());
  std::printf("%s\n", result.violation ? result.violation->c_str() : "no violation");
  return result.violation ? 1 : 0;
}

int play(uint64_t worlds, uint64_t first) {
  const auto begin = std::chrono::steady_clock::now();
  uint64_t steps = 0, served = 0, failed = 0, cancelled = 0, rejected = 0;
  for (uint64_t seed = first; seed < first + worlds; ++seed) {
    const auto result = vigil::sim::World(seed, vigil::sim::World::Trace::off).run();
    if (result.violation) {
      std::printf("%s\nshow it with: tools/replay %llu\n", result.violation->c_str(), static_cast<unsigned long long>(seed));
      return 1;
    }
    steps += result.steps;
    served += result.served;
    failed += result.failed;
    cancelled += result.cancelled;
    rejected += result.rejected;
  }
  const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%llu worlds, %llu steps, %.1f s, %.0f worlds a second; requests: %llu served, %llu failed, %llu cancelled, %llu rejected; no violation\n",
              static_cast<unsigned long long>(worlds), static_cast<unsigned long long>(steps), s, static_cast<double>(worlds) / s,
              static_cast<unsigned long long>(served), static_cast<unsigned long long>(failed), static_cast<unsigned long long>(cancelled),
              static_cast<unsigned long long>(rejected));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t worlds = 0, seed = 1;
  for (int n = 1; n + 1 < argc; n += 2) {
    const uint64_t value = std::strtoull(argv[n + 1], nullptr, 10);
    if (std::strcmp(argv[n], "--replay") == 0) return replay(value);
    if (std::strcmp(argv[n], "--worlds") == 0) worlds = value;
    if (std::strcmp(argv[n], "--seed") == 0) seed = value;
  }
  if (worlds == 0) {
    std::fputs("usage: vigil-sim --worlds N [--seed S] | --replay SEED\n", stderr);
    return 2;
  }
  return play(worlds, seed);
}
