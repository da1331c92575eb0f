// Everything that can be set, as one validated struct. Names are the configuration's own (docs/configuration.md); *_s are seconds and may
// be fractional, *_ms milliseconds, *_bytes bytes; 0 switches a limit off where that makes sense. Not here: how it is read (load.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace vigil::config {

struct Engine {
  std::string exe = "vigil-engine";
  bool own = false;
  std::vector<std::string> args;
  std::map<std::string, std::string> env;
  std::string cwd, log;
  int64_t context = 0, slots = 0, threads = 0;
  std::string backend = "auto";
  int64_t gpu_layers = -1;
  std::string layer_split, kv_type = "f16";
  int64_t cache_mib = 0, step_ms = 500;
  std::string start = "eager";  // or "lazy"
  double idle_unload_s = 0;
  double exec_s = 10, ready_s = 900, load_max_s = 3600, silence_s = 300, stall_s = 90, step_s = 30, cancel_s = 30, stop_s = 20;
  int64_t backoff_first_ms = 500;
  double backoff_max_s = 60;
  int64_t repeat_stop_tokens = 256, thinking_reserve = 512;
};

struct Vision {
  std::string exe = "vigil-vision";
  bool own = false;
  std::string mmproj;
  std::vector<std::string> args;
  std::map<std::string, std::string> env;
  std::string log, image_token;
  double ready_s = 300, encode_s = 300, stop_s = 10;
  int64_t cache_bytes = 134217728, image_bytes = 20971520, image_pixels = 67108864;
  std::vector<std::string> url_allow;
  double url_s = 30;
  int64_t url_redirects = 3, url_fetches = 16, url_total_bytes = 268435456;
};

struct Queue {
  int64_t limit = 64;
  double wait_s = 600, warn_s = 600;
};

struct Http {
  double header_s = 10;
  int64_t header_bytes = 32768;
  double body_s = 60;
  int64_t body_bytes = 67108864, body_total_bytes = 1073741824, connections = 4096;
  double idle_s = 75, write_s = 30;
  int64_t write_buffer_bytes = 8388608;
  double commit_s = 30, keepalive_s = 10;
};

struct Config {
  std::string host = "127.0.0.1";
  int64_t port = 8080;
  std::string model, model_name;
  std::vector<std::string> aliases;
  std::string chat_template_file;
  std::vector<std::string> api_keys;
  std::string api_key_file;
  bool allow_remote_without_key = false;
  std::vector<std::string> cors_origins, allowed_hosts;
  Engine engine;
  Vision vision;
  Queue queue;
  Http http;
  double drain_s = 30;
};

}  // namespace vigil::config
