// Loads vocabularies and case rows of the shared data. Not here: what is expected of them.
#pragma once

#include <catch2/catch.hpp>

#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <sstream>

#include "engine/gguf/tokenizer.hpp"
#include "server/json/json.hpp"

namespace vigil::gguf::test {

using Markers = Tokenizer::Markers;
using Bos = Tokenizer::Bos;
using Ids = std::vector<TokenId>;

inline const std::filesystem::path shared = VIGIL_SHARED_DIR;

inline std::vector<std::filesystem::path> gguf_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".gguf") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

inline Result<File> parse(const std::filesystem::path& path) {
  auto source = open_pread(path.string());
  if (!source) return Error{source.error()};
  return File::parse(**source);
}

inline std::string content(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) FAIL("cannot read " << path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// What a shell command writes; a command that fails fails the test.
inline std::string output_of(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe);
  std::string text;
  char buffer[65536];
  for (size_t got; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, got);
  const int status = ::pclose(pipe);
  INFO(command);
  REQUIRE((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  return text;
}

// The file with another value of tokenizer.ggml.pre: the key and its value are rewritten where they lie.
inline Result<File> parse_with_pre(const std::filesystem::path& path, const std::string& pre) {
  std::string bytes = content(path);
  const std::string key = "tokenizer.ggml.pre";
  const size_t found = bytes.find(key + std::string("\x08\0\0\0", 4));
  REQUIRE(found != std::string::npos);
  const size_t at = found + key.size() + 4;
  uint64_t old_size = 0;
  std::memcpy(&old_size, bytes.data() + at, sizeof old_size);
  const uint64_t new_size = pre.size();
  std::string value(reinterpret_cast<const char*>(&new_size), sizeof new_size);
  bytes.replace(at, sizeof old_size + old_size, value + pre);
  const auto view = std::as_bytes(std::span(bytes));
  return File::parse(*from_memory({view.begin(), view.end()}));
}

struct Loaded {
  explicit Loaded(const std::filesystem::path& path, const std::string& pre = "")
      : vocabulary(load(path, pre)), tokenizer(std::move(make_tokenizer(vocabulary).value())) {}
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  // `pre`: put in the place of the file's own tokenizer.ggml.pre.
  static Vocabulary load(const std::filesystem::path& path, const std::string& pre) {
    auto file = pre.empty() ? parse(path) : parse_with_pre(path, pre);
    if (!file) FAIL(path << ": " << file.error());
    auto loaded = Vocabulary::from(*file);
    if (!loaded) FAIL(path << ": " << loaded.error());
    return std::move(*loaded);
  }
  Ids plain(std::string_view text) const { return tokenizer->encode(text, Markers::plain, Bos::none); }

  Vocabulary vocabulary;
  std::unique_ptr<Tokenizer> tokenizer;
};

inline std::vector<nlohmann::json> case_rows(const std::string& name) {
  const auto path = shared / "tokenizers" / (name + ".cases.jsonl.gz");
  REQUIRE(std::filesystem::exists(path));
  std::istringstream lines(output_of("gzip -dc '" + path.string() + "'"));
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

}  // namespace vigil::gguf::test
