// The daemon's vision child, from configuration to a driver: whether there is one, its program, arguments, limits and folder, and what a
// reload changes. Not here: what becomes of a picture (process/vision_conductor.hpp).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "protocol/result.hpp"
#include "server/api/api.hpp"
#include "server/config/config.hpp"
#include "server/config/program.hpp"
#include "server/fetch/client.hpp"
#include "server/fetch/fetching_encoder.hpp"
#include "server/installed.hpp"
#include "server/observe/log.hpp"
#include "server/process/vision_driver.hpp"
#include "server/turn/desk.hpp"
#include "server/url/allow_list.hpp"

namespace vigil {

// A projector or a program of the user's own is named.
bool vision_wanted(const config::Vision& vision);
// Finds the program and looks for the projector, the named or the bundled one. Nothing when no vision child is wanted; errors name the key.
Result<std::optional<config::Program>> find_vision(const config::Vision& vision, const std::string& projector, const std::string& program_dir);

class Vision {
 public:
  Vision(boost::asio::io_context& io, observe::Log& log, turn::Desk& desk, const std::string& instance, uint64_t open_files);

  // A configuration whose log is open and whose folder and threads are there: nothing about it can fail any more.
  struct Prepared {
    config::Config config;
    observe::LogFile log;
    std::optional<process::DriverOptions> options;  // none: no vision child is wanted
    std::unique_ptr<process::VisionDriver> driver;  // the first one
  };
  Result<Prepared> prepare(const config::Config& config, const Installed& installed);  // changes nothing
  // At the start and at every reload. Without a program requests with pictures are refused from now on, and a child that runs is stopped;
  // another program or other arguments hold from the child's next start on, which comes as soon as no picture is with it.
  void install(Prepared prepared);
  void set_limits(const config::Config& config);  // of what is installed; the rest of the configuration waits
  void load();                                    // eager start; nothing without a child
  void stop(const std::function<void()>& done);   // done when no process is left, at once without a child
  api::VisionStatus status() const;
  bool resolving() const { return client_.resolving() > 0; }  // threads are looking up names, perhaps for ever

 private:
  process::DriverOptions options(const config::Config& config, const Installed& installed) const;
  void allow_fetching(const config::Vision& vision);
  process::DriverObserver observer();

  boost::asio::io_context& io_;
  observe::Log& log_;
  turn::Desk& desk_;
  std::string instance_;
  uint64_t open_files_;
  observe::ChildLog child_log_;
  std::unique_ptr<process::VisionDriver> driver_;  // made when it is first wanted
  fetch::Client client_;
  std::unique_ptr<fetch::FetchingEncoder> fetching_;  // in front of the driver
  bool wanted_ = false;
  int64_t image_bytes_ = 0;
  std::shared_ptr<const url::AllowList> url_allow_;
};

}  // namespace vigil
