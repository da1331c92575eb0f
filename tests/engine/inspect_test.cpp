// The report of a model file: what it says of one that runs, of one that this version cannot run, and of none.
#include <catch2/catch.hpp>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "engine/inspect.hpp"
#include "tools/random_model.hpp"

using namespace vigil;

namespace {

struct ModelFile {
  std::string path;
  // `architecture` takes the place of the model's own, and must be as long.
  explicit ModelFile(const tools::RandomModel& model, const std::string& architecture = "") {
    path = (std::filesystem::temp_directory_path() / ("vigil_inspect_" + std::to_string(::getpid()) + ".gguf")).string();
    gguf::Writer writer;
    REQUIRE(tools::add_random_model(model, writer));
    std::vector<std::byte> bytes = writer.bytes();
    const auto own = std::search(bytes.begin(), bytes.end(), model.architecture.begin(), model.architecture.end(),
                                 [](std::byte a, char b) { return a == static_cast<std::byte>(b); });
    std::transform(architecture.begin(), architecture.end(), own, [](char letter) { return static_cast<std::byte>(letter); });
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  ~ModelFile() { std::filesystem::remove(path); }
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("inspect: types, memory by context and whether it runs") {
  tools::RandomModel model;
  model.architecture = "qwen3moe";
  model.type = gguf::TensorType::q4_k;
  model.mixed = true;
  model.width = model.ff = 256;
  model.head_dim = 64;
  model.context = 40960;
  const ModelFile file(model);
  const Result<std::string> report = engine::inspect(file.path, uint64_t{4} << 30);
  REQUIRE(report);
  CAPTURE(*report);
  for (const char* words : {"architecture  qwen3moe", "Q4_K", "Q6_K", "experts       4, 2 for a token", "40960 (trained)", "f16", "q8_0", "fits          a context of 40960",
                            "runs          yes"}) {
    CHECK(contains(*report, words));
  }
  // 4096 positions of 2 layers with 2 heads of 64: K and V of two bytes
  CHECK(contains(*report, "4096    f16     4 MiB   q8_0     3 MiB   q4_0     2 MiB"));
  const Result<std::string> tight = engine::inspect(file.path, uint64_t{8} << 20);
  REQUIRE(tight);
  CHECK(contains(*tight, "fits          does not fit"));
}

TEST_CASE("inspect: layers with a window take what one sequence needs of them, whatever the context") {
  tools::RandomModel model;
  model.architecture = "gemma3";
  model.layers = 6;  // one sees everything
  model.window = 1024;
  model.head_dim = 512;
  model.context = 65536;
  const ModelFile file(model);
  const Result<std::string> report = engine::inspect(file.path, uint64_t{4} << 30);
  REQUIRE(report);
  CAPTURE(*report);
  CHECK(contains(*report, "6, 6 with attention: 4 heads of 512, 2 for K and V; 5 see the last 1024 positions"));
  // 2 heads of 512, K and V of two bytes: 256 KiB a block and layer; 30 blocks hold 1024, 256 and 512 positions
  CHECK(contains(*report, "4096    f16    54 MiB"));    // 64 + 5 * 30 blocks
  CHECK(contains(*report, "65536    f16   294 MiB"));   // 1024 + 5 * 30
  const Result<std::string> tight = engine::inspect(file.path, uint64_t{200} << 20);
  REQUIRE(tight);
  CAPTURE(*tight);
  CHECK(contains(*tight, "fits          a context of "));
}

TEST_CASE("inspect: a model of an unknown kind is described, with the reason why it does not run") {
  tools::RandomModel model;
  model.architecture = "qwen2";
  const ModelFile file(model, "mamba");
  const Result<std::string> report = engine::inspect(file.path, 0);
  REQUIRE(report);
  CAPTURE(*report);
  CHECK(contains(*report, "architecture  mamba"));
  CHECK(contains(*report, "runs          no: "));
  CHECK_FALSE(engine::inspect("/no/such/file.gguf", 0));
}
