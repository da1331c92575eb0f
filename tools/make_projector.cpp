// make_projector OUT.gguf --projector NAME --text-width N [--image N] [--patch N] [--width N] [--ff N] [--heads N] [--layers N] [--merge N]
// [--longest N] [--seed N]: a projector file with random weights (tools/random_projector), for tests and for measuring the vision child.
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>

#include "tools/random_projector.hpp"

namespace {

bool number(std::string_view text, int64_t& into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc{} && end == text.data() + text.size() && into > 0 && into <= 1 << 20;
}

bool take(vigil::tools::RandomProjector& p, std::string_view flag, std::string_view value) {
  if (flag == "--projector") return p.projector = std::string(value), true;
  int64_t seed = 0;
  if (flag == "--seed") return number(value, seed) && (p.seed = static_cast<uint64_t>(seed), true);
  struct {
    std::string_view flag;
    int64_t& into;
  } const numbers[] = {{"--text-width", p.text_width}, {"--image", p.image_side}, {"--patch", p.patch_side}, {"--width", p.width}, {"--ff", p.ff},
                       {"--heads", p.heads}, {"--layers", p.layers}, {"--merge", p.merge}, {"--longest", p.longest}};
  for (const auto& one : numbers) {
    if (one.flag == flag) return number(value, one.into);
  }
  return false;
}

}  // namespace

int main(int count, char** values) {
  vigil::tools::RandomProjector projector;
  bool good = count >= 2 && count % 2 == 0;
  for (int i = 2; good && i < count; i += 2) good = take(projector, values[i], values[i + 1]);
  if (!good) {
    std::fputs("usage: make_projector OUT.gguf [--projector NAME] [--text-width N] [--image N] [--patch N] [--width N] [--ff N] [--heads N] [--layers N]\n"
               "                      [--merge N] [--longest N] [--seed N]\n", stderr);
    return 2;
  }
  vigil::gguf::Writer out;
  vigil::Result<void> done = vigil::tools::add_random_projector(projector, out);
  if (done) done = out.write(values[1]);
  if (done) return 0;
  std::fprintf(stderr, "make_projector: %s\n", done.error().c_str());
  return 1;
}
