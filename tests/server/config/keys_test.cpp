// The table of keys against the fixed outside: names, defaults, environment names, suggestions.
#include <catch2/catch.hpp>

#include <algorithm>
#include <set>

#include "server/config/keys.hpp"
#include "server/json/json.hpp"
#include "tests/server/config/config_support.hpp"

using namespace vigil::config;
using nlohmann::json;

namespace {

// Retyped from the contract, with its defaults; and what was added to it: vision.cache_bytes, vision.url_s and those behind it.
const char* const contract = R"({
  "host": "127.0.0.1", "port": 8080, "model": "", "model_name": "", "aliases": [], "chat_template_file": "",
  "api_keys": [], "api_key_file": "", "allow_remote_without_key": false, "cors_origins": [], "allowed_hosts": [],
  "engine": { "exe": "vigil-engine", "own": false, "args": [], "env": {}, "cwd": "", "log": "", "context": 0, "slots": 0, "threads": 0,
    "backend": "auto", "gpu_layers": -1, "layer_split": "", "kv_type": "f16", "cache_mib": 0, "step_ms": 500, "start": "eager",
    "idle_unload_s": 0, "exec_s": 10, "ready_s": 900, "load_max_s": 3600, "silence_s": 300, "stall_s": 90, "step_s": 30, "cancel_s": 30,
    "stop_s": 20, "backoff_first_ms": 500, "backoff_max_s": 60, "repeat_stop_tokens": 256, "thinking_reserve": 512 },
  "vision": { "exe": "vigil-vision", "own": false, "mmproj": "", "args": [], "env": {}, "log": "", "image_token": "", "ready_s": 300,
    "encode_s": 300, "stop_s": 10, "cache_bytes": 134217728, "image_bytes": 20971520, "image_pixels": 67108864, "url_allow": [],
    "url_s": 30, "url_redirects": 3, "url_fetches": 16, "url_total_bytes": 268435456 },
  "queue": { "limit": 64, "wait_s": 600, "warn_s": 600 },
  "http": { "header_s": 10, "header_bytes": 32768, "body_s": 60, "body_bytes": 67108864, "body_total_bytes": 1073741824, "connections": 4096,
    "idle_s": 75, "write_s": 30, "write_buffer_bytes": 8388608, "commit_s": 30, "keepalive_s": 10 },
  "drain_s": 30
})";

std::set<std::string> leaves(const json& object, const std::string& prefix = "") {
  std::set<std::string> found;
  for (const auto& [name, value] : object.items()) {
    if (value.is_object() && name != "env") {
      found.merge(leaves(value, prefix + name + "."));
    } else {
      found.insert(prefix + name);
    }
  }
  return found;
}

}  // namespace

TEST_CASE("the table holds the contract's keys, no other, each once, with its defaults") {
  std::set<std::string> table;
  for (const Key& key : keys()) {
    INFO(key.path);
    CHECK(table.insert(std::string(key.path)).second);
    CHECK_FALSE(key.explanation.empty());
  }
  CHECK((table == leaves(json::parse(contract))));
  CHECK(json::parse(to_json(Config{})) == json::parse(contract));
}

TEST_CASE("the contract's own text loads as the defaults") {
  const Loaded loaded = from_text(contract);
  INFO(joined(loaded.mistakes));
  CHECK(loaded.ok());
  CHECK(to_json(loaded.config) == to_json(Config{}));
}

TEST_CASE("every default lies in its own range") {
  for (const Key& key : keys()) {
    Config config;
    double value = 0;
    if (const auto* whole = std::get_if<Accessor<int64_t>>(&key.field)) {
      value = static_cast<double>(*(*whole)(config));
    } else if (const auto* number = std::get_if<Accessor<double>>(&key.field)) {
      value = *(*number)(config);
    } else {
      continue;
    }
    INFO(key.path);
    CHECK_FALSE(key.unit.empty());
    CHECK((value == 0 && key.zero == Zero::off) + (value >= key.min && value <= key.max) > 0);
  }
}

TEST_CASE("units stand in the names") {
  for (const Key& key : keys()) {
    INFO(key.path);
    CHECK(key.path.ends_with("_s") == (key.unit == "s"));
    CHECK(key.path.ends_with("_ms") == (key.unit == "ms"));
    CHECK(key.path.ends_with("_bytes") == (key.unit == "bytes"));
    if (key.unit == "s") CHECK(std::holds_alternative<Accessor<double>>(key.field));
  }
}

TEST_CASE("environment names are the path in capitals, and no two keys share one") {
  CHECK(environment_name("engine.ready_s") == "VIGIL_ENGINE_READY_S");
  CHECK(environment_name("drain_s") == "VIGIL_DRAIN_S");
  std::set<std::string> names;
  for (const Key& key : keys()) CHECK(names.insert(environment_name(key.path)).second);
}

TEST_CASE("the nearest key is the one that was meant") {
  CHECK(nearest_key("engine.redy_s") == "engine.ready_s");
  CHECK(nearest_key("engine.readys") == "engine.ready_s");
  CHECK(nearest_key("silence_s") == "engine.silence_s");
  CHECK(nearest_key("hots") == "host");
  CHECK(nearest_key("engin") == "engine");
  CHECK(nearest_key("queue.limits") == "queue.limit");
  CHECK(nearest_key("http.body_byte") == "http.body_bytes");
  CHECK_FALSE(nearest_key("").empty());
  CHECK_FALSE(nearest_key(std::string(100000, 'x')).empty());
  CHECK(nearest_environment_name("VIGIL_ENGINE_REDY_S") == "VIGIL_ENGINE_READY_S");
  CHECK(nearest_environment_name("VIGIL_SILENCE_S") == "VIGIL_ENGINE_SILENCE_S");
}
