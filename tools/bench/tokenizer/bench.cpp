// Times loading a vocabulary and tokenising texts with it: bench_tokenizer MODEL.gguf TEXT... prints one line a text, tab-separated:
// name, bytes, tokens, best CPU milliseconds of the rounds. The first line is the load. Not here: other implementations.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iterator>

#include "engine/gguf/tokenizer.hpp"

using namespace vigil::gguf;

namespace {

constexpr int rounds = 7;

// Of this thread alone: what others do on the machine matters less.
double cpu_ms() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

template <typename Work>
double best_ms(Work work) {
  double best = 1e9;
  for (int round = 0; round < rounds; ++round) {
    const double begin = cpu_ms();
    work();
    best = std::min(best, cpu_ms() - begin);
  }
  return best;
}

void print(const std::string& name, size_t bytes, size_t tokens, double ms) { std::printf("%s\t%zu\t%zu\t%.2f\n", name.c_str(), bytes, tokens, ms); }

int fail(const std::string& what) {
  std::fprintf(stderr, "bench_tokenizer: %s\n", what.c_str());
  return 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return fail("usage: bench_tokenizer MODEL.gguf [TEXT]...");
  const auto source = open_pread(arguments[1]);
  if (!source) return fail(source.error());
  auto file = File::parse(**source);
  if (!file) return fail(file.error());
  auto vocabulary = Vocabulary::from(*file);
  if (!vocabulary) return fail(vocabulary.error());
  const double load = best_ms([&] {
    const auto again = File::parse(**source);
    const auto loaded = Vocabulary::from(*again);
    if (!make_tokenizer(*loaded)) std::abort();
  });
  print("(load)", static_cast<size_t>((*source)->size()), static_cast<size_t>(vocabulary->size()), load);
  const auto tokenizer = make_tokenizer(*vocabulary);
  if (!tokenizer) return fail(tokenizer.error());
  for (int i = 2; i < count; ++i) {
    std::ifstream in(arguments[i], std::ios::binary);
    if (!in) return fail(std::string("cannot read ") + arguments[i]);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    std::vector<TokenId> ids;
    const double ms = best_ms([&] { ids = (*tokenizer)->encode(text, Tokenizer::Markers::plain, Tokenizer::Bos::none); });
    if ((*tokenizer)->decode(ids) != text) std::fprintf(stderr, "bench_tokenizer: %s does not come back as it was\n", arguments[i]);
    const std::string path = arguments[i];
    print(path.substr(path.rfind('/') + 1), text.size(), ids.size(), ms);
  }
  return 0;
}
