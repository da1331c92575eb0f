// Times renderings of chat templates: one line a template and conversation, microseconds, the best of many runs. Not here: the reference (reference.mjs).
//   bench_template ROWS.jsonl    rows as bench/template/run writes them: {"name", "source", "inputs"}
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>

#include "server/json/json.hpp"

#include "server/text/jinja/template.hpp"

int main(int count, char** arguments) {
  using namespace vigil::text::jinja;
  using Clock = std::chrono::steady_clock;
  if (count != 2) return std::fprintf(stderr, "usage: bench_template ROWS.jsonl\n"), 2;
  std::ifstream rows(arguments[1]);
  for (std::string line; std::getline(rows, line);) {
    const auto row = nlohmann::ordered_json::parse(line);
    const auto compiled = Template::compile(row["source"].get<std::string>());
    if (!compiled) return std::fprintf(stderr, "%s: %s\n", row["name"].get<std::string>().c_str(), compiled.error().c_str()), 1;
    std::vector<Input> inputs;
    for (const auto& [name, value] : row["inputs"].items()) inputs.push_back({name, &value});
    double best = 1e9;
    size_t bytes = 0;
    const auto end = Clock::now() + std::chrono::milliseconds(300);
    for (int run = 0; run < 20 || Clock::now() < end; ++run) {
      const auto begin = Clock::now();
      const auto result = (*compiled)->render(inputs, 1'767'312'000);
      best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
      bytes = 0;
      if (const auto* pieces = std::get_if<std::vector<Piece>>(&result)) {
        for (const Piece& piece : *pieces) bytes += piece.text.size();
      }
    }
    std::printf("%s\t%.2f\t%zu\n", row["name"].get<std::string>().c_str(), best, bytes);
  }
}
