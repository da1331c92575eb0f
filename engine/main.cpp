// vigil-engine: the child that computes. Signals and exit status; all else is in serve.
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "engine/compute/cuda_module.hpp"
#include "engine/inspect.hpp"
#include "engine/schedule/memory.hpp"
#include "engine/serve.hpp"

namespace {

// Only async-signal-safe calls below: a handler may interrupt anything.
void on_end(int) { ::_exit(0); }

void on_bus_error(int) {
  static constexpr char why[] = "FATAL the model file became shorter or unreadable while it was in use\n";
  if (::write(STDOUT_FILENO, why, sizeof why - 1) < 0) ::_exit(2);
  if (::write(STDERR_FILENO, why, sizeof why - 1) < 0) ::_exit(2);
  ::_exit(1);
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigaction(signal, &action, nullptr);
}

}  // namespace

int main(int count, char** values) {
  handle(SIGPIPE, SIG_IGN);
  handle(SIGTERM, on_end);
  handle(SIGINT, on_end);
  handle(SIGBUS, on_bus_error);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);  // a parent's blocked signals are inherited

  const std::vector<std::string_view> arguments(values + 1, values + count);
  if (arguments.size() == 1 && (arguments[0] == "--help" || arguments[0] == "-h")) {
    std::fputs(vigil::engine::usage_text.data(), stdout);
    return 0;
  }
  if (arguments.size() == 1 && arguments[0] == "--version") {
    std::puts("vigil-engine " VIGIL_VERSION);
    return 0;
  }
  if (arguments.size() == 2 && arguments[0] == "--inspect") {
    const vigil::Result<std::string> report = vigil::engine::inspect(std::string(arguments[1]), vigil::schedule::available_memory());
    if (!report) return std::fprintf(stderr, "vigil-engine: %s\n", report.error().c_str()), 1;
    std::fputs(report->c_str(), stdout);
    return 0;
  }
  vigil::Result<vigil::engine::Options> options = vigil::engine::parse_options(arguments);
  if (!options) {
    std::fprintf(stderr, "vigil-engine: %s\n%s", options.error().c_str(), vigil::engine::usage_text.data());
    std::printf("FATAL %s\n", options.error().c_str());
    return 2;
  }
  options->runtime.backend.module_folders = vigil::compute::cuda::module_folders();
  return vigil::engine::serve(*options, STDIN_FILENO, STDOUT_FILENO, vigil::engine::AtEnd::exit_process);
}
