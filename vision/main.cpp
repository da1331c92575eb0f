// vigil-vision: the child that encodes pictures. Signals and exit status; all else is in serve.
#include <csignal>
#include <cstdio>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "vision/serve.hpp"

namespace {

void on_end(int) { ::_exit(0); }  // async-signal-safe; a picture that is half done is nobody's

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
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);  // a parent's blocked signals are inherited

  const std::vector<std::string_view> arguments(values + 1, values + count);
  if (arguments.size() == 1 && (arguments[0] == "--help" || arguments[0] == "-h")) {
    std::fputs(vigil::vision::usage_text.data(), stdout);
    return 0;
  }
  if (arguments.size() == 1 && arguments[0] == "--version") {
    std::puts("vigil-vision " VIGIL_VERSION);
    return 0;
  }
  const vigil::Result<vigil::vision::Options> options = vigil::vision::parse_options(arguments);
  if (!options) {
    std::fprintf(stderr, "vigil-vision: %s\n%s", options.error().c_str(), vigil::vision::usage_text.data());
    std::printf("ERR %s\n", options.error().c_str());
    return 2;
  }
  return vigil::vision::serve(*options, STDIN_FILENO, STDOUT_FILENO);
}
