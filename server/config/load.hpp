// From file, environment and flags to one checked Config, or every mistake at once. Not here: what the limits do, reading a model.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/config/config.hpp"

namespace vigil::config {

inline constexpr size_t max_file_bytes = 1024 * 1024;  // of a configuration file, and of a key file

// Precedence: flag > environment > file > default.
struct Sources {
  std::string file;                          // --config; empty = none
  std::vector<std::pair<std::string, std::string>> environment;  // name, value; names outside VIGIL_ are passed over
  std::vector<std::string> sets;             // "path.to.key=value", in the flags' order; --model FILE is "model=FILE"
  std::string working_dir;                   // absolute; where relative paths from environment and flags begin
};

struct Loaded {
  Config config;                      // relative paths are absolute now, but for a bare program name
  std::vector<std::string> api_keys;  // api_keys and the lines of api_key_file
  std::vector<std::string> mistakes;  // each names source and key and says what is wanted; empty = config may be used
  std::vector<std::string> notes;     // worth a warning, no mistake
  bool ok() const { return mistakes.empty(); }
};

Loaded load(const Sources& sources);
// The same for the text of a file; `file_dir` is where its relative paths begin. For tests, and for texts that come from elsewhere.
Loaded load_text(std::string_view text, const std::string& file_dir, const Sources& sources);

// Of a process's environ: NULL-terminated, "NAME=value".
std::vector<std::pair<std::string, std::string>> environment_list(const char* const* environment);

enum class Secrets { hidden, shown };
// The whole configuration as indented JSON in the documents' order; keys, and environment values that look like secrets, as "***".
std::string to_json(const Config& config, Secrets secrets = Secrets::hidden);

// What a reload would change, and when that takes effect ("http.write_s: for new requests"): for the log of a SIGHUP.
std::vector<std::string> describe_changes(const Config& before, const Config& after);

}  // namespace vigil::config
