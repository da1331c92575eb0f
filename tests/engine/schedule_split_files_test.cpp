// A model in several files gives what it gives in one; parts that do not belong together are refused by name.
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "engine/schedule/split_files.hpp"
#include "model_support.hpp"

using namespace vigil;
using namespace vigil::testing;

namespace {

struct Folder {
  std::string path;
  Folder() {
    char name[] = "/tmp/vigil_split_XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string part(int number, int count) const {
    char name[64];
    std::snprintf(name, sizeof name, "/tiny-%05d-of-%05d.gguf", number, count);
    return path + name;
  }
};

std::vector<std::byte> tensor_bytes(const std::vector<std::byte>& whole, const gguf::File& file, const gguf::Tensor& tensor) {
  const auto start = whole.begin() + static_cast<std::ptrdiff_t>(file.data_offset() + tensor.offset);
  return {start, start + static_cast<std::ptrdiff_t>(tensor.bytes)};
}

// Writes the tensors of a whole file into `count` parts in turn; the first has the metadata. `claimed` is what it says of the tensors' number.
void write_parts(const Folder& folder, TinyLlama& tiny, int count, int64_t extra_claimed = 0, int twice = -1) {
  const std::vector<std::byte> whole = tiny.bytes();
  const auto source = gguf::from_memory(whole);
  const auto file = gguf::File::parse(*source);
  REQUIRE(file);
  for (int part = 0; part < count; ++part) {
    gguf::Writer writer;
    if (part == 0) {
      for (const auto& [key, value] : file->metadata()) {
        if (const auto* number = std::get_if<int64_t>(&value)) writer.put_u32(key, static_cast<uint32_t>(*number));
        if (const auto* real = std::get_if<double>(&value)) writer.put_f32(key, static_cast<float>(*real));
        if (const auto* text = std::get_if<std::string>(&value)) writer.put_string(key, *text);
      }
      writer.put_u32("split.tensors.count", static_cast<uint32_t>(static_cast<int64_t>(file->tensors().size()) + extra_claimed));
    }
    writer.put_u32("split.no", static_cast<uint32_t>(part));
    writer.put_u32("split.count", static_cast<uint32_t>(count));
    for (size_t i = 0; i < file->tensors().size(); ++i) {
      const gguf::Tensor& tensor = file->tensors()[i];
      const bool here = static_cast<int>(i) % count == part || static_cast<int>(i) == twice;
      if (here) writer.add_tensor(tensor.name, tensor.type, {tensor.dims.begin(), tensor.dims.end()}, tensor_bytes(whole, *file, tensor));
    }
    REQUIRE(writer.write(folder.part(part + 1, count)));
  }
}

Result<std::unique_ptr<schedule::Runtime>> load(const std::string& path) {
  return schedule::Runtime::load(path, {}, [](double) { return true; });
}

void check_refused(const std::string& path, const std::string& word) {
  const auto runtime = load(path);
  INFO(word);
  REQUIRE_FALSE(runtime);
  CAPTURE(runtime.error());
  CHECK(runtime.error().find(word) != std::string::npos);
}

std::vector<float> scores_after(schedule::Runtime& runtime, const std::vector<int32_t>& ids) {
  cache::Sequence sequence(runtime.pool());
  REQUIRE(sequence.reserve(static_cast<int64_t>(ids.size())));
  REQUIRE(runtime.step(sequence, ids, 1) == compute::RunOutcome::finished);
  std::vector<float> scores(static_cast<size_t>(runtime.model().vocabulary()));
  runtime.read_scores(0, scores);
  return scores;
}

}  // namespace

TEST_CASE("a split model gives the scores of the whole one") {
  TinyLlama tiny;
  Folder folder;
  write_parts(folder, tiny, 3);
  auto split = load(folder.part(1, 3));
  INFO((split ? std::string() : split.error()));
  REQUIRE(split);
  const LoadedModel whole = load_tiny(tiny);
  const auto ids = random_ids(20, tiny.vocabulary, 2);
  CHECK(scores_after(**split, ids) == scores_after(*whole.runtime, ids));
}

TEST_CASE("parts that are missing, foreign or too many are named") {
  TinyLlama tiny;
  Folder folder;
  write_parts(folder, tiny, 3);
  check_refused(folder.part(2, 3), "part 2 of 3; give the first part");
  std::filesystem::copy_file(folder.part(1, 3), folder.path + "/renamed.gguf");
  check_refused(folder.path + "/renamed.gguf", "does not end in -00001-of-00003.gguf");
  std::filesystem::rename(folder.part(3, 3), folder.path + "/kept");
  check_refused(folder.part(1, 3), "tiny-00003-of-00003.gguf");
  std::filesystem::copy_file(folder.part(2, 3), folder.part(3, 3));
  check_refused(folder.part(1, 3), "says that it is part 2 of 3, where part 3 of 3 belongs");
  std::filesystem::remove(folder.part(3, 3));
  std::filesystem::rename(folder.path + "/kept", folder.part(3, 3));
  CHECK(load(folder.part(1, 3)));
  write_parts(folder, tiny, 3, 1);
  check_refused(folder.part(1, 3), "split.tensors.count");
  write_parts(folder, tiny, 3, 0, 4);
  check_refused(folder.part(1, 3), "is in two parts");
}

TEST_CASE("a split count beyond all reason is refused before a file is looked for") {
  gguf::Writer writer;
  writer.put_u32("split.count", 70'000);
  const auto source = gguf::from_memory(writer.bytes());
  const auto file = gguf::File::parse(*source);
  REQUIRE(file);
  const auto paths = schedule::part_paths("x-00001-of-70000.gguf", *file);
  REQUIRE_FALSE(paths);
  CHECK(paths.error().find("split.count") != std::string::npos);
}
