// Relations between values: keys and hosts, limits that contradict each other. Single values are checked by their ranges in the table.
#include "server/config/checks.hpp"

#include <arpa/inet.h>

#include <algorithm>

#include "protocol/layer_split.hpp"
#include "protocol/lines.hpp"
#include "server/config/values.hpp"
#include "server/url/allow_list.hpp"

namespace vigil::config {
namespace {

struct Checker {
  const Config& config;
  std::vector<std::string>& mistakes;
  std::vector<std::string>& notes;

  void mistake(std::string text) { mistakes.push_back(std::move(text)); }
  void note(std::string text) { notes.push_back(std::move(text)); }

  // A key goes into a header: a blank or control byte in it could never be matched, an empty one would switch authentication off.
  void keys_are_usable() {
    for (size_t i = 0; i < config.api_keys.size(); ++i) {
      const std::string& key = config.api_keys[i];
      const std::string name = "api_keys: element " + std::to_string(i + 1);
      if (key.empty()) {
        mistake(name + " is empty: an empty key would let everybody in; remove it or write a key");
      } else if (std::any_of(key.begin(), key.end(), [](char c) { return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f; })) {
        mistake(name + " holds a blank or a control byte, which no client can send");
      }
    }
  }

  void host_is_safe(const std::vector<std::string>& api_keys) {
    if (config.host.empty()) return mistake("host: is empty; write 127.0.0.1, or 0.0.0.0 for every address");
    if (config.host.find_first_of(" /") != std::string::npos) {
      return mistake("host: '" + protocol::printable(config.host, 60) + "' is not an address or a name (the port has its own key)");
    }
    if (is_loopback_host(config.host) || !api_keys.empty() || config.allow_remote_without_key) return;
    mistake("host: " + protocol::printable(config.host, 60) +
            " can be reached from other machines and no key is set; set api_keys or api_key_file, or allow_remote_without_key to true");
  }

  void environment_is_usable(const char* key, const std::map<std::string, std::string>& environment) {
    for (const auto& [name, value] : environment) {
      if (name.empty() || name.find_first_of(std::string("=\0", 2)) != std::string::npos) {
        mistake(std::string(key) + ": '" + protocol::printable(name, 60) + "' is not the name of an environment variable");
      } else if (value.find('\0') != std::string::npos) {
        mistake(std::string(key) + ": the value of " + protocol::printable(name, 60) + " holds a NUL byte");
      } else if (name == "VIGIL_CHILD") {
        mistake(std::string(key) + ": VIGIL_CHILD marks the daemon's children and cannot be set");
      }
    }
  }

  void arguments_are_usable(const char* exe_key, const std::string& exe) {
    if (exe.empty()) mistake(std::string(exe_key) + ": is empty; write a program's name or path");
  }

  void lists_are_usable() {
    for (const std::string& origin : config.cors_origins) {
      if (origin == "*" || origin == "null") continue;
      const size_t scheme = origin.find("://");
      const bool good = scheme != std::string::npos && scheme > 0 && origin.find('/', scheme + 3) == std::string::npos && scheme + 3 < origin.size();
      if (!good) mistake("cors_origins: '" + protocol::printable(origin, 60) + "' is not an origin such as https://app.example (no path), or *");
    }
    for (const std::string& host : config.allowed_hosts) {
      if (host.empty() || host.find_first_of(" /") != std::string::npos) {
        mistake("allowed_hosts: '" + protocol::printable(host, 60) + "' is not a host name such as box.local, or *");
      }
    }
    for (const std::string& alias : config.aliases) {
      if (alias.empty()) mistake("aliases: an element is empty");
    }
    for (const std::string& prefix : config.vision.url_allow) {
      if (const auto entry = url::parse_entry(prefix); !entry) mistake("vision.url_allow: '" + protocol::printable(prefix, 60) + "' " + entry.error());
    }
  }

  // What cannot be both must not be passed over in silence.
  void layers_have_a_place() {
    const Engine& engine = config.engine;
    if (engine.gpu_layers == 0 && engine.backend == "cuda") mistake("engine.gpu_layers: 0 keeps the model on the CPU, and engine.backend asks for cuda");
    if (engine.gpu_layers > 0 && engine.backend == "cpu") {
      mistake("engine.gpu_layers: " + std::to_string(engine.gpu_layers) + " layers are to be on the GPU, and engine.backend asks for cpu");
    }
    if (const auto shares = protocol::parse_layer_split(engine.layer_split); !shares) mistake("engine.layer_split: " + shares.error());
  }

  void limits_agree() {
    const Engine& engine = config.engine;
    const Http& http = config.http;
    if (http.body_total_bytes != 0 && http.body_total_bytes < http.body_bytes) {
      mistake("http.body_total_bytes: " + std::to_string(http.body_total_bytes) + " is below http.body_bytes (" + std::to_string(http.body_bytes) +
              "): a body of that size could never be read");
    }
    if (engine.ready_s > 0 && engine.load_max_s > 0 && engine.load_max_s < engine.ready_s) {
      note("engine.load_max_s (" + number_text(engine.load_max_s) + " s) ends a load before engine.ready_s (" + number_text(engine.ready_s) + " s) can");
    }
    if (engine.ready_s == 0 && engine.load_max_s == 0) {
      note("engine.ready_s and engine.load_max_s are both off: requests wait without limit for an engine that never reports READY");
    }
    if (engine.stall_s == 0 && engine.silence_s == 0) {
      note("engine.stall_s and engine.silence_s are both off: a request waits without limit for an engine that went silent");
    }
    if (config.vision.ready_s == 0) note("vision.ready_s is off: requests with pictures wait without limit for a vision child that never reports READY");
    if (config.vision.encode_s == 0) note("vision.encode_s is off: one picture that hangs holds all that come after it without limit");
    if (!config.vision.url_allow.empty() && config.vision.url_total_bytes < config.vision.image_bytes) {
      note("vision.url_total_bytes (" + std::to_string(config.vision.url_total_bytes) + ") is below vision.image_bytes (" +
           std::to_string(config.vision.image_bytes) + "): a picture of that size can never be fetched");
    }
    if (engine.backoff_max_s * 1000 < static_cast<double>(engine.backoff_first_ms)) {
      note("engine.backoff_max_s (" + number_text(engine.backoff_max_s) + " s) caps even the first wait, engine.backoff_first_ms (" +
           std::to_string(engine.backoff_first_ms) + " ms)");
    }
    if (http.write_s == 0) note("http.write_s is off: a client that never reads holds its request for ever");
    if (http.keepalive_s == 0 || http.keepalive_s > 60) {
      note("http.keepalive_s: proxies and clients often give up after 60 s without a byte");
    }
  }
};

}  // namespace

bool is_loopback_host(const std::string& host) {
  if (host == "localhost") return true;
  const std::string plain = host.size() > 2 && host.front() == '[' && host.back() == ']' ? host.substr(1, host.size() - 2) : host;
  in_addr four{};
  if (inet_pton(AF_INET, plain.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
  in6_addr six{};
  if (inet_pton(AF_INET6, plain.c_str(), &six) != 1) return false;
  if (IN6_IS_ADDR_V4MAPPED(&six)) return six.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&six);
}

void check_relations(const Config& config, const std::vector<std::string>& api_keys, std::vector<std::string>& mistakes,
                     std::vector<std::string>& notes) {
  Checker checker{config, mistakes, notes};
  checker.keys_are_usable();
  checker.host_is_safe(api_keys);
  checker.environment_is_usable("engine.env", config.engine.env);
  checker.environment_is_usable("vision.env", config.vision.env);
  checker.arguments_are_usable("engine.exe", config.engine.exe);
  checker.arguments_are_usable("vision.exe", config.vision.exe);
  checker.lists_are_usable();
  checker.layers_have_a_place();
  checker.limits_agree();
}

}  // namespace vigil::config
