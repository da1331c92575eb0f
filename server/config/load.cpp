// File, environment, flags: reads each, in order of rising precedence, into one Config; collects every mistake with its source's name.
#include "server/config/load.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "protocol/lines.hpp"
#include "server/config/checks.hpp"
#include "server/config/keys.hpp"
#include "server/config/values.hpp"
#include "server/json/json.hpp"

namespace vigil::config {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Not ours to read: the client programs' key, the children's marker, the shared test suite's folder.
constexpr std::string_view foreign_names[] = {"VIGIL_API_KEY", "VIGIL_CHILD", "VIGIL_SHARED"};

constexpr size_t most_mistakes = 100;  // a file of another program would give thousands

Result<std::string> read_file(const std::string& path) {
  std::error_code problem;
  if (fs::is_directory(path, problem)) return Error{"is a directory"};
  std::ifstream in(path, std::ios::binary);
  if (!in) return Error{std::string("cannot be read (") + std::strerror(errno) + ")"};
  std::string text(max_file_bytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) return Error{std::string("cannot be read (") + std::strerror(errno) + ")"};
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > max_file_bytes) return Error{"is larger than " + std::to_string(max_file_bytes) + " bytes"};
  return text;
}

std::string absolute(const std::string& path, const std::string& base) {
  if (path.empty() || path.front() == '/' || base.empty()) return path;
  return (fs::path(base) / path).lexically_normal().string();
}

class Loader {
 public:
  explicit Loader(Loaded& out) : out_(out) {}

  void read_object(const json& object, const std::string& prefix, const std::string& source, const std::string& base) {
    for (const auto& [name, value] : object.items()) {
      const std::string path = prefix.empty() ? name : prefix + "." + name;
      if (name.find('.') != std::string::npos && find_key(path) != nullptr) {
        mistake(source + path + ": a dot in a key; write a nested object");
      } else if (const Key* key = find_key(path)) {
        report(source + path, set_from_json(out_.config, *key, value));
        resolve_path(*key, base);
      } else if (prefix.empty() && is_section(path)) {
        if (value.is_object()) {
          read_object(value, path, source, base);
        } else {
          mistake(source + path + ": is not an object of keys");
        }
      } else {
        mistake(source + "unknown key '" + protocol::printable(path, 80) + "'; the nearest known key is '" + nearest_key(path) + "'");
      }
    }
  }

  void read_text(const Key& key, std::string_view text, const std::string& source, const std::string& base) {
    report(source, set_from_text(out_.config, key, text));
    resolve_path(key, base);
  }

  void read_environment(const Sources& sources) {
    for (const auto& [name, value] : sources.environment) {
      if (!name.starts_with("VIGIL_")) continue;
      if (std::find(std::begin(foreign_names), std::end(foreign_names), name) != std::end(foreign_names)) continue;
      const Key* key = nullptr;
      for (const Key& candidate : keys()) {
        if (environment_name(candidate.path) == name) key = &candidate;
      }
      if (key == nullptr) {
        mistake("environment: unknown variable " + protocol::printable(name, 80) + "; the nearest known one is " + nearest_environment_name(name));
        continue;
      }
      read_text(*key, value, "environment: " + name + " (" + std::string(key->path) + ")", sources.working_dir);
    }
  }

  void read_sets(const Sources& sources) {
    for (const std::string& set : sources.sets) {
      const size_t equals = set.find('=');
      if (equals == std::string::npos || equals == 0) {
        mistake("--set " + protocol::printable(set, 60) + ": is not path.to.key=value");
        continue;
      }
      const std::string path = set.substr(0, equals);
      const std::string_view value = std::string_view(set).substr(equals + 1);
      if (const Key* key = find_key(path)) {
        read_text(*key, value, "--set " + path, sources.working_dir);
      } else if (!set_map_entry(path, value)) {
        mistake("--set: unknown key '" + protocol::printable(path, 80) + "'; the nearest known key is '" + nearest_key(path) + "'");
      }
    }
  }

  void read_key_file() {
    out_.api_keys = out_.config.api_keys;
    const std::string& path = out_.config.api_key_file;
    if (path.empty()) return;
    const std::string name = "api_key_file: " + protocol::printable(path, 200);
    const auto text = read_file(path);
    if (!text) return mistake(name + " " + text.error());
    const size_t before = out_.api_keys.size();
    size_t number = 0;
    for (size_t begin = 0; begin < text->size();) {
      const size_t end = std::min(text->find('\n', begin), text->size());
      read_key_line(std::string_view(*text).substr(begin, end - begin), ++number, name);
      begin = end + 1;
    }
    if (out_.api_keys.size() == before) mistake(name + " holds no key; write one a line");
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0 && (status.st_mode & 077) != 0) {
      out_.notes.push_back(name + " can be read by others than its owner; chmod 600 closes it");
    }
  }

  void check_template_file() {
    const std::string& path = out_.config.chat_template_file;
    if (path.empty()) return;
    const auto text = read_file(path);
    if (!text) mistake("chat_template_file: " + protocol::printable(path, 200) + " " + text.error());
  }

  void mistake(std::string text) {
    if (out_.mistakes.size() < most_mistakes) out_.mistakes.push_back(std::move(text));
  }

 private:
  void report(const std::string& where, const Result<void>& result) {
    if (!result) mistake(where + ": " + result.error());
  }

  void resolve_path(const Key& key, const std::string& base) {
    if (key.meaning != Meaning::path && key.meaning != Meaning::program) return;
    std::string& text = *std::get<Accessor<std::string>>(key.field)(out_.config);
    if (key.meaning == Meaning::program && text.find('/') == std::string::npos) return;  // looked up beside the daemon, then in PATH
    text = absolute(text, base);
  }

  // engine.env.NAME=value
  bool set_map_entry(std::string_view path, std::string_view value) {
    for (const Key& key : keys()) {
      const auto* accessor = std::get_if<Accessor<TextMap>>(&key.field);
      if (accessor == nullptr || path.size() <= key.path.size() + 1 || !path.starts_with(key.path) || path[key.path.size()] != '.') continue;
      (*(*accessor)(out_.config))[std::string(path.substr(key.path.size() + 1))] = value;
      return true;
    }
    return false;
  }

  void read_key_line(std::string_view line, size_t number, const std::string& name) {
    constexpr std::string_view blanks = " \t\r";
    const size_t first = line.find_first_not_of(blanks);
    if (first == std::string_view::npos || line[first] == '#') return;
    line = line.substr(first, line.find_last_not_of(blanks) - first + 1);
    for (const char c : line) {
      if (static_cast<unsigned char>(c) > 0x20 && c != 0x7f) continue;
      return mistake(name + " line " + std::to_string(number) + " holds a blank or a control byte, which no client can send");
    }
    out_.api_keys.emplace_back(line);
  }

  Loaded& out_;
};

void read_rest(Loader& loader, Loaded& out, const Sources& sources) {
  loader.read_environment(sources);
  loader.read_sets(sources);
  loader.read_key_file();
  loader.check_template_file();
  check_relations(out.config, out.api_keys, out.mistakes, out.notes);
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

void read_file_text(Loader& loader, std::string_view text, const std::string& source, const std::string& file_dir) {
  if (is_blank(text)) return;
  const auto value = parse_json(text);
  if (!value) return loader.mistake(source + value.error());
  if (!value->is_object()) return loader.mistake(source + "is not a JSON object");
  loader.read_object(*value, "", source, file_dir);
}

}  // namespace

Loaded load(const Sources& sources) {
  Loaded out;
  Loader loader(out);
  if (!sources.file.empty()) {
    const std::string path = absolute(sources.file, sources.working_dir);
    const std::string source = protocol::printable(path, 200) + ": ";
    const auto text = read_file(path);
    if (text.ok() && is_blank(*text)) {
      // An editor or a copy may stand between emptying the file and writing it: a reload then would drop every limit and every key.
      loader.mistake("the configuration file " + protocol::printable(path, 200) + " is empty; write {} for one that sets nothing");
    } else if (text.ok()) {
      read_file_text(loader, *text, source, fs::path(path).parent_path().string());
    } else {
      loader.mistake("the configuration file " + protocol::printable(path, 200) + " " + text.error());
    }
  }
  read_rest(loader, out, sources);
  return out;
}

Loaded load_text(std::string_view text, const std::string& file_dir, const Sources& sources) {
  Loaded out;
  Loader loader(out);
  read_file_text(loader, text, "", file_dir);
  read_rest(loader, out, sources);
  return out;
}

std::vector<std::pair<std::string, std::string>> environment_list(const char* const* environment) {
  std::vector<std::pair<std::string, std::string>> list;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry(*environment);
    const size_t equals = entry.find('=');
    if (equals != std::string_view::npos) list.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return list;
}

}  // namespace vigil::config
