// The commands that talk to a running daemon, or only look at the configuration.
#pragma once

#include <string>

#include "server/config/load.hpp"

namespace vigil {

// Prints the effective configuration as JSON (exit status 0), or every mistake on stderr (2).
int check(const config::Loaded& loaded);

// Says what the configured model is, without loading it: the engine's own report. Does not return when it succeeds; 2 after a mistake in the
// configuration, 1 when the engine's program cannot be run.
int inspect(const config::Loaded& loaded);

struct ClientOptions {
  std::string url = "http://127.0.0.1:8080";
  std::string api_key_file;  // its first line; else VIGIL_API_KEY
  bool json = false;
  double timeout_s = 0;      // how long the server's answer is waited for; 0 = the command's own default
};
int status(const ClientOptions& options);
int load(const ClientOptions& options);    // waits until the engine is ready, or says why it is not
int unload(const ClientOptions& options);  // waits until the engine has ended
int cancel(const ClientOptions& options, const std::string& request_id);

}  // namespace vigil
