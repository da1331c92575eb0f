// The program `vigil`: flags to commands. Exit status: 0 well, 1 could not do it, 2 usage or configuration.
#include <cstdio>
#include <filesystem>

#include <CLI/CLI.hpp>

#include "server/commands.hpp"
#include "server/config/load.hpp"
#include "server/daemon.hpp"

extern char** environ;

namespace {

struct ConfigFlags {
  std::string file, model, mmproj, host, port;
  std::vector<std::string> sets;
};

void add_config_flags(CLI::App& command, ConfigFlags& flags) {
  command.add_option("--config", flags.file, "configuration file (JSON, // comments allowed)");
  command.add_option("--model", flags.model, "model file (GGUF); the bundled model when absent");
  command.add_option("--mmproj", flags.mmproj, "projector file (GGUF) for pictures");
  command.add_option("--host", flags.host, "address to listen on");
  command.add_option("--port", flags.port, "port to listen on; 0 takes a free one");
  command.add_option("--set", flags.sets, "path.to.key=value, for every key of the configuration")->take_all()->allow_extra_args(false);
}

vigil::config::Sources sources_of(const ConfigFlags& flags) {
  vigil::config::Sources sources;
  sources.file = flags.file;
  sources.environment = vigil::config::environment_list(environ);
  sources.working_dir = std::filesystem::current_path();
  const std::pair<const char*, const std::string&> named[] = {
      {"model=", flags.model}, {"vision.mmproj=", flags.mmproj}, {"host=", flags.host}, {"port=", flags.port}};
  for (const auto& [key, value] : named) {
    if (!value.empty()) sources.sets.push_back(key + value);
  }
  sources.sets.insert(sources.sets.end(), flags.sets.begin(), flags.sets.end());
  return sources;
}

int serve(const ConfigFlags& flags) {
  const auto sources = sources_of(flags);
  const auto loaded = vigil::config::load(sources);
  for (const auto& mistake : loaded.mistakes) std::fprintf(stderr, "vigil: %s\n", mistake.c_str());
  return loaded.ok() ? vigil::serve(loaded, sources) : 2;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Vigil: an LLM server for one machine that never leaves a request hanging"};
  app.set_version_flag("--version", "vigil " VIGIL_VERSION);
  app.require_subcommand(1);

  ConfigFlags flags;
  CLI::App* serve_command = app.add_subcommand("serve", "serve a model");
  add_config_flags(*serve_command, flags);
  CLI::App* check_command = app.add_subcommand("check", "print the effective configuration, or every mistake in it");
  add_config_flags(*check_command, flags);

  CLI::App* inspect_command = app.add_subcommand("inspect", "say what a model file is: types, memory by context, whether it runs");
  inspect_command->add_option("file", flags.model, "a GGUF file, or the first part of a split one; else the configured model");
  inspect_command->add_option("--config", flags.file, "configuration file (JSON, // comments allowed)");

  vigil::ClientOptions client;
  std::string request_id;
  const auto add_client_flags = [&](CLI::App& command) {
    command.add_option("--url", client.url, "address of the running server")->capture_default_str();
    command.add_option("--api-key-file", client.api_key_file, "file whose first line is the key; else VIGIL_API_KEY");
    command.add_flag("--json", client.json, "print the server's answer as it came");
    command.add_option("--timeout-s", client.timeout_s, "seconds to wait for the answer; 0: 30, and two hours for load and unload")->check(CLI::NonNegativeNumber);
  };
  CLI::App* status_command = app.add_subcommand("status", "show what a running server does");
  add_client_flags(*status_command);
  CLI::App* load_command = app.add_subcommand("load", "start the engine now and wait until it is ready");
  add_client_flags(*load_command);
  CLI::App* unload_command = app.add_subcommand("unload", "stop the engine once its running requests have ended");
  add_client_flags(*unload_command);
  CLI::App* cancel_command = app.add_subcommand("cancel", "end a running or waiting request");
  cancel_command->add_option("id", request_id, "the request's X-Request-Id, as the status shows it")->required();
  add_client_flags(*cancel_command);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (*serve_command) return serve(flags);
  if (*check_command) return vigil::check(vigil::config::load(sources_of(flags)));
  if (*inspect_command) return vigil::inspect(vigil::config::load(sources_of(flags)));
  if (*status_command) return vigil::status(client);
  if (*load_command) return vigil::load(client);
  if (*unload_command) return vigil::unload(client);
  return vigil::cancel(client, request_id);
}
