// The threads of the CPU backends: how many there are, and the barrier that they meet at.
#include <catch2/catch.hpp>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>

#include "engine/compute/cpu/cores.hpp"
#include "engine/compute/cpu/worker_team.hpp"

using namespace vigil::compute;

TEST_CASE("a worker team runs every index in every round and keeps its barrier") {
  cpu::WorkerTeam team(4);
  std::atomic<int> before{0}, wrong{0};
  for (int round = 0; round < 300; ++round) {
    before = 0;
    team.run([&](int) {
      before.fetch_add(1);
      team.barrier();
      if (before.load() != 4) wrong.fetch_add(1);
      team.barrier();
    });
  }
  CHECK(wrong == 0);
}

TEST_CASE("two threads of one core count as one, and a processor that says nothing as one") {
  namespace fs = std::filesystem;
  const fs::path root = fs::temp_directory_path() / ("vigil_cores_" + std::to_string(::getpid()));
  const auto put = [&](int processor, const char* siblings) {
    const fs::path folder = root / ("sys/devices/system/cpu/cpu" + std::to_string(processor)) / "topology";
    fs::create_directories(folder);
    std::ofstream(folder / "thread_siblings_list") << siblings << "\n";
  };
  put(0, "0,4");
  put(4, "0,4");
  put(1, "1,5");
  CHECK(cpu::cores_of({0, 1, 4}, root.string()) == 2);
  CHECK(cpu::cores_of({0, 1, 7, 8}, root.string()) == 4);
  CHECK(cpu::usable_processors().size() >= 1);
  fs::remove_all(root);
}
