// The commands that talk to a running daemon, or only look at the configuration.
#pragma once

#include <string>

#include "server/config/load.hpp"

namespace vigil {

// Prints the effective configuration as JSON (exit status 0), or every mistake on stderr (2).
int check(const config::Loaded& loaded);

struct ClientOptions {
  std::string url = "http://127.0.0.1:8080";
  std::string api_key_file;  // its first line; else VIGIL_API_KEY
  bool json = false;
};
int status(const ClientOptions& options);
int cancel(const ClientOptions& options, const std::string& request_id);

}  // namespace vigil
