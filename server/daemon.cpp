// Composition and the two ends of a daemon's life. The order of members is the order of making; they are destroyed in reverse.
#include "server/daemon.hpp"

#include <csignal>
#include <cstdio>
#include <ctime>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include "server/api/api.hpp"
#include "server/engine_view.hpp"
#include "server/http/server.hpp"
#include "server/installed.hpp"
#include "server/loop.hpp"
#include "server/model_file.hpp"
#include "server/observe/log.hpp"
#include "server/observe/metrics.hpp"
#include "server/observe/notify.hpp"
#include "server/open_files.hpp"
#include "server/process/driver.hpp"
#include "server/process/keeper.hpp"
#include "server/process/keeper_watch.hpp"
#include "server/process/reaper.hpp"
#include "server/settings.hpp"
#include "server/turn/desk.hpp"
#include "server/vision.hpp"
#include "server/worker_pool.hpp"

extern char** environ;

namespace vigil {

namespace asio = boost::asio;
using supervise::ChildState;
using supervise::Trouble;

namespace {

// How long answers may still be written after the last request has ended and the children are gone.
constexpr auto last_writes = std::chrono::milliseconds(500);

TimePoint steady_now() { return std::chrono::steady_clock::now(); }

class Daemon {
 public:
  Daemon(const config::Loaded& loaded, const config::Sources& sources, const Installed& installed, process::Keeper& keeper,
         const std::string& instance, uint64_t open_files);
  Result<void> open(std::vector<int> sockets);
  void run();
  bool threads_busy() const { return workers_.busy() || vision_->resolving(); }
  void remove_files() {  // for an end without destructors
    next_vision_.reset();
    vision_.reset();
  }

 private:
  turn::DeskObserver desk_observer();
  process::DriverObserver driver_observer();
  process::DriverOptions driver_options(const Installed& installed, uint64_t vocabulary) const;
  http::ServerObserver server_observer();
  api::Surroundings surroundings();
  void request_ended(const turn::Request& request, const turn::Ending& ending, bool rejected);
  void arm_desk_timer();
  void watchdog(Duration every);
  void await_signal();
  void reload();
  void install(const config::Loaded& loaded, const Installed& installed, std::shared_ptr<api::Model> model, const FileIdentity& file,
               Vision::Prepared vision);
  void options_taken();
  void unload(api::OrderDone done);
  void load(api::OrderDone done);
  void stop();
  void drained();
  void children_gone();
  std::string status_line() const;

  config::Config config_;
  config::Sources sources_;
  std::string instance_;
  uint64_t open_files_ = 0, last_stamp_ = 1;
  Installed installed_;
  TimePoint started_ = steady_now();
  asio::io_context io_{1};
  observe::Log log_;
  observe::ChildLog child_log_{log_, "engine"};
  observe::Metrics metrics_;
  process::AdoptedReaper reaper_{io_};
  process::KeeperWatch keeper_watch_;
  process::EngineDriver driver_;
  turn::Desk desk_;
  std::optional<Vision> vision_;
  std::optional<Vision::Prepared> next_vision_;           // with next_model_: pictures are encoded for the model that the engine runs
  std::shared_ptr<const api::Model> model_, next_model_;  // next_model_: holds from the engine's next start on
  FileIdentity model_file_;                               // of model_
  FileIdentity next_model_file_;
  WorkerPool workers_{io_};
  api::Api api_;
  http::Server server_;
  asio::signal_set signals_{io_, SIGTERM, SIGINT, SIGHUP};
  asio::steady_timer desk_timer_{io_}, drain_timer_{io_}, watchdog_timer_{io_};
  bool desk_timer_posted_ = false, stopping_ = false, draining_ = false, stop_children_ = false;
  bool reloading_ = false, reload_again_ = false;
  int children_ = 2;  // engine and vision child: whose end is awaited
};

Daemon::Daemon(const config::Loaded& loaded, const config::Sources& sources, const Installed& installed, process::Keeper& keeper,
               const std::string& instance, uint64_t open_files)
    : config_(loaded.config), sources_(sources), instance_(instance), open_files_(open_files), installed_(installed),
      keeper_watch_(io_, keeper, instance, [this](const std::string& line) { log_.error(line); }),
      driver_(io_, driver_options(installed, last_stamp_), child_limits(config_.engine), driver_observer()),
      desk_(desk_limits(config_), driver_, desk_observer()), api_(surroundings()),
      server_(io_, server_options(loaded, connections_with_room(loaded.config.http.connections)), http::api_routes(api_), server_observer()) {
  driver_.attach(desk_);
  vision_.emplace(io_, log_, desk_, instance, open_files);
  for (const auto& note : loaded.notes) log_.warning(note);
  if (const std::string note = note_on_connections(config_.http.connections); !note.empty()) log_.warning(note);
}

process::DriverOptions Daemon::driver_options(const Installed& installed, uint64_t vocabulary) const {
  process::DriverOptions options;
  options.instance = instance_;
  options.exe = installed.engine.path;
  options.args = engine_args(config_, installed.model_path, installed.engine.own ? Ownership::own : Ownership::foreign);
  options.env = config_.engine.env;
  options.cwd = config_.engine.cwd;
  options.open_files = open_files_;
  options.vocabulary = vocabulary;
  return options;
}

process::DriverObserver Daemon::driver_observer() {
  process::DriverObserver observer;
  observer.log = [this](const std::string& line) { log_.info(line); };
  observer.stderr_output = [this](supervise::Generation generation, std::string_view bytes) { child_log_.write(generation, bytes, steady_now()); };
  observer.output_begins = [this] { server_.gather(); };
  observer.output_taken = [this] { server_.flush(); };
  observer.state_changed = [this] {
    const auto& child = driver_.child();
    metrics_.set_engine_up(child.state() == ChildState::ready);
    if (!stopping_) observe::notify_status(status_line());
  };
  observer.started = [this] { metrics_.engine_started(); };
  observer.killed = [this](Trouble why) {
    metrics_.engine_killed(kill_reason(why));
    log_.error("engine generation " + std::to_string(driver_.child().generation()) + " is ended: " + driver_.child().reason());
  };
  observer.loaded = [this](double seconds) {
    metrics_.engine_loaded(seconds);
    log_.info("engine generation " + std::to_string(driver_.child().generation()) + " is ready after " + std::to_string(seconds) + " s");
  };
  observer.options_taken = [this] { options_taken(); };
  observer.late = [this](Duration) { metrics_.loop_late(); };
  return observer;
}

http::ServerObserver Daemon::server_observer() {
  http::ServerObserver observer;
  // The access log. Probes that went well are not worth a line each.
  observer.finished = [this](const http::AccessRecord& record) {
    const bool probe = record.method == "GET" && record.status == 200;
    log_.write(probe ? observe::Level::debug : observe::Level::info,
               record.method + " " + record.path + " " + (record.left ? "left" : std::to_string(record.status)) + " " + std::to_string(record.bytes) +
                   " bytes in " + std::to_string(record.seconds) + " s, request " + record.request_id + ", client " + record.client);
  };
  observer.warning = [this](const std::string& line) { log_.warning(line); };
  observer.fault = [this](const std::string& line) { log_.error(line); };
  return observer;
}

turn::DeskObserver Daemon::desk_observer() {
  turn::DeskObserver observer;
  observer.ended = [this](const turn::Request& request, const turn::Ending& ending, bool rejected) { request_ended(request, ending, rejected); };
  observer.inter_token = [this](double seconds) { metrics_.inter_token(seconds); };
  observer.gauges = [this](int64_t running, int64_t queued) {
    metrics_.set_requests(running, queued);
    if (std::exchange(desk_timer_posted_, true)) return;
    asio::post(io_, [this] {
      desk_timer_posted_ = false;
      arm_desk_timer();
      if (draining_ && desk_.idle()) drained();
    });
  };
  observer.log = [this](const std::string& line) { log_.warning(line); };
  return observer;
}

void Daemon::request_ended(const turn::Request& request, const turn::Ending& ending, bool rejected) {
  using Outcome = observe::Metrics::Outcome;
  const auto* failed = std::get_if<turn::Failed>(&ending.how);
  const Outcome outcome = rejected ? Outcome::rejected
                          : failed ? Outcome::failed
                          : std::holds_alternative<turn::Cancelled>(ending.how) ? Outcome::cancelled : Outcome::served;
  metrics_.request_ended(outcome, ending.total_s);
  if (rejected) return;
  metrics_.tokens(observe::Metrics::Tokens::prompt, ending.usage.prompt);
  metrics_.tokens(observe::Metrics::Tokens::cached, ending.usage.cached);
  metrics_.tokens(observe::Metrics::Tokens::generated, ending.usage.generated);
  metrics_.queued(ending.queued_s);
  if (ending.first_token_s > 0) metrics_.first_token(ending.first_token_s);
  if (failed) log_.warning("request " + request.id + " failed: " + std::string(turn::kind_of(failed->error.code).code) + ": " + failed->error.message);
}

api::Surroundings Daemon::surroundings() {
  api::Settings settings;
  settings.repeat_stop_tokens = config_.engine.repeat_stop_tokens;
  settings.thinking_reserve = config_.engine.thinking_reserve;
  settings.version = VIGIL_VERSION;
  return {desk_, workers_, steady_now, [] { return static_cast<int64_t>(std::time(nullptr)); }, [this] { return model_; },
          [this] { return engine_status(driver_.child(), started_, steady_now(), config_.engine.start == "lazy"); },
          [this] { return metrics_.text(); }, [this] { return seconds(steady_now() - started_); },
          settings, [this](const std::string& line) { log_.warning(line); }, [this](api::OrderDone done) { load(std::move(done)); },
          [this](api::OrderDone done) { unload(std::move(done)); }, [this] { return vision_->status(); }};
}

std::string Daemon::status_line() const {
  const auto& child = driver_.child();
  return "engine " + std::string(supervise::to_string(child.state())) + (child.reason().empty() ? "" : ": " + child.reason());
}

Result<void> Daemon::open(std::vector<int> sockets) {
  if (auto turns = check_loop(io_); !turns) return turns;
  for (const int socket : sockets) {
    if (auto adopted = server_.adopt(socket); !adopted) return adopted;
  }
  if (sockets.empty()) {
    if (auto bound = server_.bind(config_.host, static_cast<uint16_t>(config_.port)); !bound) return bound;
  }
  if (!config_.engine.log.empty()) {
    if (auto opened = child_log_.open_file(config_.engine.log); !opened) return Error{"engine.log: " + opened.error()};
  }
  model_file_ = file_identity(installed_.model_path);
  auto model = read_model(installed_.model_path, config_);
  if (!model) return Error{model.error()};
  (*model)->stamp = last_stamp_;
  model_ = *model;
  auto vision = vision_->prepare(config_, installed_);
  if (!vision) return Error{vision.error()};
  vision_->install(std::move(*vision));
  return {};
}

void Daemon::run() {
  std::printf("vigil listening on http://%s\n", server_.address().c_str());
  std::fflush(stdout);
  log_.info("model " + model_->id + " from " + installed_.model_path);
  await_signal();
  server_.start();
  if (config_.engine.start == "eager") {
    driver_.load();
    vision_->load();
  }
  observe::notify_ready(status_line());
  if (const auto every = observe::watchdog_interval()) watchdog(*every);
  mask_signals(Signals::taken);
  io_.run();
  mask_signals(Signals::kept_waiting);
}

// ---- time

void Daemon::arm_desk_timer() {
  const auto deadline = desk_.deadline();
  if (!deadline) {
    desk_timer_.cancel();
    return;
  }
  if (desk_timer_.expiry() == *deadline) return;
  desk_timer_.expires_at(*deadline);
  desk_timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    desk_timer_.expires_at(TimePoint::max());
    desk_.tick(steady_now());
    arm_desk_timer();
  });
}

void Daemon::watchdog(Duration every) {
  observe::notify_watchdog();
  watchdog_timer_.expires_after(every);
  watchdog_timer_.async_wait([this, every](boost::system::error_code error) {
    if (!error) watchdog(every);
  });
}

// ---- signals

void Daemon::await_signal() {
  signals_.async_wait([this](boost::system::error_code error, int signal) {
    if (error) return;
    if (signal == SIGHUP) {
      if (!stopping_) reload();
    } else if (!stopping_) {
      stop();
    } else if (draining_) {
      drained();  // a second signal cuts the drain short
    }
    await_signal();
  });
}

// A bad configuration, model or program changes nothing. Reading a vocabulary takes long enough to be a worker's.
void Daemon::reload() {
  if (stopping_) return;
  if (reloading_) return void(reload_again_ = true);
  const config::Loaded loaded = config::load(sources_);
  if (!loaded.ok()) {
    for (const auto& mistake : loaded.mistakes) log_.error("reload: " + mistake);
    log_.error("reload: nothing was changed");
    return;
  }
  const auto installed = find_installed(loaded.config);
  if (!installed) {
    log_.error("reload: " + installed.error() + "; nothing was changed");
    return;
  }
  reloading_ = true;
  observe::notify_reloading();
  struct Reading {
    FileIdentity file;
    std::optional<Result<std::shared_ptr<api::Model>>> model;
  };
  const auto reading = std::make_shared<Reading>();
  workers_.run(
      0, [reading, path = installed->model_path, config = loaded.config] {
        reading->file = file_identity(path);
        reading->model = read_model(path, config);
      },
      [this, reading, loaded, installed = *installed] {
        reloading_ = false;
        if (stopping_) return;
        if (!*reading->model) {
          log_.error("reload: " + reading->model->error() + "; nothing was changed");
        } else if (auto vision = vision_->prepare(loaded.config, installed); !vision) {
          log_.error("reload: " + vision.error() + "; nothing was changed");
        } else {
          install(loaded, installed, **reading->model, reading->file, std::move(*vision));
        }
        observe::notify_ready(status_line());
        if (std::exchange(reload_again_, false)) reload();
      });
}

void Daemon::install(const config::Loaded& loaded, const Installed& installed, std::shared_ptr<api::Model> model, const FileIdentity& file,
                     Vision::Prepared vision) {
  for (const auto& change : config::describe_changes(config_, loaded.config)) log_.info("reload: " + change);
  const std::string host = config_.host;
  config_ = loaded.config;
  installed_ = installed;
  http::ServerOptions options = server_options(loaded, connections_with_room(loaded.config.http.connections));
  options.bound_host = host;
  server_.set_options(std::move(options));
  desk_.set_limits(desk_limits(config_));
  driver_.set_limits(child_limits(config_.engine));
  // The same file means the same ids: its new name, aliases and template hold at once. Another one's ids are no use to the running engine.
  const bool same_file = file == model_file_;
  model->stamp = same_file ? model_->stamp : ++last_stamp_;
  next_model_file_ = file;
  next_model_ = std::move(model);
  const uint64_t stamp = next_model_->stamp;
  if (same_file) model_ = next_model_;
  next_vision_.reset();
  if (same_file) {
    vision_->install(std::move(vision));
  } else {
    vision_->set_limits(config_);
    next_vision_ = std::move(vision);
  }
  driver_.set_options(driver_options(installed_, stamp));
}

// A new start, or none is running: what the last reload said about model and engine holds now.
void Daemon::options_taken() {
  if (next_model_ && next_model_ != model_) {
    model_ = next_model_;
    model_file_ = next_model_file_;
    log_.info("model " + model_->id + " from " + installed_.model_path);
  }
  next_model_.reset();
  if (auto vision = std::exchange(next_vision_, std::nullopt)) vision_->install(std::move(*vision));
  if (auto opened = child_log_.open_file(config_.engine.log); !opened) log_.error("engine.log: " + opened.error());
}

// ---- orders

void Daemon::load(api::OrderDone done) {
  if (stopping_) return done(turn::RequestError{turn::ErrorCode::shutting_down, "the server is shutting down", "", 5});
  driver_.load_and_tell(std::move(done));
}

void Daemon::unload(api::OrderDone done) {
  if (stopping_) return done(turn::RequestError{turn::ErrorCode::shutting_down, "the server is shutting down", "", 5});
  driver_.unload_when_idle([this, done = std::move(done)] {
    log_.info("the engine was unloaded by hand");
    done(std::nullopt);
  });
}

// ---- the end: requests, then children, then connections

void Daemon::stop() {
  stopping_ = draining_ = true;
  log_.info("stopping");
  observe::notify_stopping("stopping");
  server_.stop_accepting();
  server_.close_idle();
  api_.close();
  desk_.close(steady_now());
  driver_.set_limits(without_restart(child_limits(config_.engine)));  // whom would an engine be started for that dies from now on?
  if (driver_.child().state() == ChildState::starting || desk_.idle()) return drained();
  drain_timer_.expires_after(std::chrono::duration_cast<asio::steady_timer::duration>(from_seconds(config_.drain_s)));
  drain_timer_.async_wait([this](boost::system::error_code error) {
    if (!error) drained();
  });
}

void Daemon::drained() {
  if (std::exchange(stop_children_, true)) return;
  draining_ = false;
  drain_timer_.cancel();
  desk_.end_running({turn::ErrorCode::shutting_down, "the server is shutting down, and the request was still running after drain_s", "", 5}, steady_now());
  // A load in progress has nothing worth a grace.
  const bool at_once = driver_.child().state() == ChildState::starting;
  const auto gone = [this] {
    if (--children_ == 0) children_gone();
  };
  driver_.stop(Trouble::shutting_down, at_once, gone);
  vision_->stop(gone);
}

void Daemon::children_gone() {
  server_.when_finished([this] { io_.stop(); });
  drain_timer_.expires_after(last_writes);
  drain_timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    server_.cancel_all();
    io_.stop();
  });
}

int could_not_start(const std::string& why) {
  std::fprintf(stderr, "vigil: %s\n", why.c_str());
  return 1;
}

}  // namespace

int serve(const config::Loaded& loaded, const config::Sources& sources) {
  ::signal(SIGPIPE, SIG_IGN);
  mask_signals(Signals::kept_waiting);

  auto sockets = observe::take_listening_sockets();
  if (!sockets) return could_not_start(sockets.error());
  const std::string instance = process::make_instance();
  auto keeper = process::start_keeper(instance);  // before threads and sockets of ours
  if (!keeper) return could_not_start(keeper.error());
  process::become_subreaper();
  const uint64_t open_files = raise_open_files();

  const auto installed = find_installed(loaded.config);
  if (!installed) return could_not_start(installed.error());

  try {
    Daemon daemon(loaded, sources, *installed, *keeper, instance, open_files);
    if (auto opened = daemon.open(std::move(*sockets)); !opened) return could_not_start(opened.error());
    daemon.run();
    if (daemon.threads_busy()) {  // a text or a host's name that nobody waits for any more is not worth the wait for its thread
      daemon.remove_files();
      keeper->stop();
      std::fflush(nullptr);
      std::_Exit(0);
    }
  } catch (const std::exception& error) {  // a thread, descriptor or address that the system did not give
    return could_not_start(error.what());
  }
  keeper->stop();
  return 0;
}

}  // namespace vigil
