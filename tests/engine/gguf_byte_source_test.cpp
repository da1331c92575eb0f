// Byte sources and the mapping: ranges, files that are no files, files that shrink.
#include <catch2/catch.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include "engine/gguf/byte_source.hpp"

using namespace vigil::gguf;
using Catch::Matchers::Contains;

namespace {

// A folder of its own per test, removed with it.
class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "vigil-bytes-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string path(const char* name) const { return (path_ / name).string(); }
  std::string file(const char* name, std::string_view content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

 private:
  std::filesystem::path path_;
};

std::string text_of(const ByteSource& source, uint64_t offset, size_t count) {
  std::string text(count, '\0');
  const auto read = source.read(offset, std::as_writable_bytes(std::span(text)));
  return read ? text : "error: " + read.error();
}

void check_ranges(const ByteSource& source) {
  CHECK(source.size() == 6);
  CHECK(text_of(source, 0, 6) == "abcdef");
  CHECK(text_of(source, 4, 2) == "ef");
  CHECK(text_of(source, 6, 0).empty());
  CHECK_THAT(text_of(source, 5, 2), Contains("outside"));
  CHECK_THAT(text_of(source, 7, 0), Contains("outside"));
  CHECK_THAT(text_of(source, std::numeric_limits<uint64_t>::max(), 2), Contains("outside"));
}

}  // namespace

TEST_CASE("a source gives exactly what lies inside") {
  Folder folder;
  auto file = open_pread(folder.file("six", "abcdef"));
  REQUIRE(file);
  check_ranges(**file);
  std::vector<std::byte> bytes;
  for (const char c : std::string_view("abcdef")) bytes.push_back(static_cast<std::byte>(c));
  check_ranges(*from_memory(bytes));
}

TEST_CASE("only regular files are opened, and errors name the path") {
  Folder folder;
  CHECK_THAT(open_pread(folder.path("absent")).error(), Contains("absent") && Contains("No such file"));
  CHECK_THAT(open_pread(folder.path("")).error(), Contains("not a regular file"));
  REQUIRE(::mkfifo(folder.path("fifo").c_str(), 0600) == 0);  // nobody writes to it: a plain open would hang
  CHECK_THAT(open_pread(folder.path("fifo")).error(), Contains("fifo") && Contains("not a regular file"));
  CHECK_THAT(Mapping::open(folder.path("absent")).error(), Contains("absent"));
  CHECK_THAT(Mapping::open(folder.file("empty", "")).error(), Contains("empty"));
}

TEST_CASE("a file that shrinks is a read error, not a signal") {
  Folder folder;
  const auto path = folder.file("shrinks", "abcdef");
  auto source = open_pread(path);
  REQUIRE(source);
  REQUIRE(::truncate(path.c_str(), 3) == 0);
  CHECK(text_of(**source, 0, 3) == "abc");
  CHECK_THAT(text_of(**source, 2, 4), Contains("shrinks") && Contains("shorter"));
}

TEST_CASE("a mapping holds the file and moves") {
  Folder folder;
  auto mapping = Mapping::open(folder.file("six", "abcdef"));
  REQUIRE(mapping);
  Mapping moved = std::move(*mapping);
  CHECK(mapping->bytes().empty());
  REQUIRE(moved.bytes().size() == 6);
  CHECK(moved.bytes()[5] == std::byte{'f'});
  auto other = Mapping::open(folder.file("two", "xy"));
  REQUIRE(other);
  moved = std::move(*other);
  CHECK(moved.bytes().size() == 2);
}
