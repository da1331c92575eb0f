// What a server is told: limits, keys, origins, hosts. A reload replaces the whole; a request keeps the one that it began with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/config/config.hpp"

namespace vigil::http {

enum class HostCheck : uint8_t {
  without_key,  // Host and Origin are checked when no key is configured, against DNS rebinding
  off
};

struct ServerOptions {
  config::Http limits;                     // 0 = that limit is off; commit_s 0 = headers of a stream go out at once
  std::vector<std::string> api_keys;       // empty = no key needed
  std::vector<std::string> cors_origins;   // "https://app.example" or "*"
  std::vector<std::string> allowed_hosts;  // names beside the loopback ones and the bound host; "*" = any
  std::string bound_host;                  // configuration's host
  HostCheck host_check = HostCheck::without_key;
  std::string version;                     // for the Server header
};

}  // namespace vigil::http
