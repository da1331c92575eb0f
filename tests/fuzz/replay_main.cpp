// Runs a fuzz target without libFuzzer, with any compiler: the empty input, every seed, and mutations of the seeds by fixed random numbers.
// Usage: replay_NAME MUTATIONS FOLDER... (folders that are not there count as empty). A finding ends it, with the input in a file.
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
// A target's own mutator, where it has one; changes at most `capacity` bytes in place and returns the new length.
extern "C" __attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t capacity, unsigned int seed);

namespace {

using Input = std::vector<uint8_t>;

Input current;
std::string target_name;

// Called by the sanitizers' and the targets' abort.
void keep_input(int) {
  const std::string path = target_name + ".input";
  if (FILE* file = std::fopen(path.c_str(), "wb")) {
    std::fwrite(current.data(), 1, current.size(), file);
    std::fclose(file);
  }
  std::fprintf(stderr, "%s: a finding; its input is in %s\n", target_name.c_str(), path.c_str());
  std::signal(SIGABRT, SIG_DFL);
  std::raise(SIGABRT);
}

void run(Input input) {
  current = std::move(input);
  LLVMFuzzerTestOneInput(current.data(), current.size());
}

std::vector<Input> seeds_in(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Input> seeds;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

class Mutator {
 public:
  Input mutate(Input input, const std::vector<Input>& others) {
    if (LLVMFuzzerCustomMutator && below(4) != 0) {
      const size_t size = input.size(), capacity = 2 * size + 64;
      input.resize(capacity);
      input.resize(LLVMFuzzerCustomMutator(input.data(), size, capacity, static_cast<unsigned int>(random_())));
      return input;
    }
    for (size_t left = 1 + below(4); left > 0; --left) change(input, others);
    return input;
  }
  size_t below(size_t limit) { return limit == 0 ? 0 : static_cast<size_t>(random_() % limit); }

 private:
  void change(Input& input, const std::vector<Input>& others) {
    const size_t at = below(input.size());
    const auto place = input.begin() + static_cast<std::ptrdiff_t>(at);
    switch (input.empty() ? 1 : below(6)) {
      case 0: input[at] = static_cast<uint8_t>(random_()); break;
      case 1: input.insert(place, static_cast<uint8_t>(random_())); break;
      case 2: input[at] ^= static_cast<uint8_t>(1u << below(8)); break;
      case 3: input.erase(place, place + static_cast<std::ptrdiff_t>(1 + below(input.size() - at))); break;
      case 4: {  // a piece of itself again
        const Input piece(place, place + static_cast<std::ptrdiff_t>(1 + below(std::min<size_t>(input.size() - at, 64))));
        input.insert(input.begin() + static_cast<std::ptrdiff_t>(below(input.size())), piece.begin(), piece.end());
        break;
      }
      default: {  // the end of another
        const Input& other = others[below(others.size())];
        const size_t from = below(other.size());
        input.resize(at);
        input.insert(input.end(), other.begin() + static_cast<std::ptrdiff_t>(from), other.end());
      }
    }
  }

  std::mt19937_64 random_{20261};
};

}  // namespace

// What libFuzzer gives to mutators of targets: here one byte at a place that the input itself decides.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t /*capacity*/) {
  size_t sum = size;
  for (size_t i = 0; i < size; ++i) sum = sum * 31 + data[i];
  if (size > 0) data[sum % size] = static_cast<uint8_t>(sum >> 8);
  return size;
}

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s MUTATIONS FOLDER...\n", argv[0]);
    return 2;
  }
  target_name = std::filesystem::path(argv[0]).filename().string();
  std::signal(SIGABRT, keep_input);
  const size_t mutations = std::strtoull(argv[1], nullptr, 10);
  std::vector<Input> seeds{Input()};
  for (int i = 2; i < argc; ++i)
    for (Input& seed : seeds_in(argv[i])) seeds.push_back(std::move(seed));
  for (const Input& seed : seeds) run(seed);
  Mutator mutator;
  for (size_t i = 0; i < mutations; ++i) run(mutator.mutate(seeds[mutator.below(seeds.size())], seeds));
  std::printf("%s: %zu seeds, %zu mutations, no finding\n", target_name.c_str(), seeds.size(), mutations);
  return 0;
}
