// Composition and the two ends of a daemon's life. The order of members is the order of making; they are destroyed in reverse.
#include "server/daemon.hpp"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>

#include "server/api/api.hpp"
#include "server/config/program.hpp"
#include "server/http/server.hpp"
#include "server/model_file.hpp"
#include "server/observe/log.hpp"
#include "server/observe/metrics.hpp"
#include "server/observe/notify.hpp"
#include "server/process/driver.hpp"
#include "server/process/keeper.hpp"
#include "server/process/keeper_watch.hpp"
#include "server/process/reaper.hpp"
#include "server/program_dir.hpp"
#include "server/turn/desk.hpp"

extern char** environ;

namespace vigil {

namespace asio = boost::asio;
using supervise::ChildState;
using supervise::Trouble;

namespace {

// How long answers may still be written after the last request has ended and the children are gone.
constexpr auto last_writes = std::chrono::milliseconds(500);

TimePoint steady_now() { return std::chrono::steady_clock::now(); }

supervise::ChildLimits child_limits(const config::Engine& engine) {
  supervise::ChildLimits limits;
  limits.exec = from_seconds(engine.exec_s);
  limits.ready = from_seconds(engine.ready_s);
  limits.load_max = from_seconds(engine.load_max_s);
  limits.silence = from_seconds(engine.silence_s);
  limits.stall = from_seconds(engine.stall_s);
  limits.step = from_seconds(engine.step_s);
  limits.cancel = from_seconds(engine.cancel_s);
  limits.stop = from_seconds(engine.stop_s);
  limits.backoff_first = std::chrono::milliseconds(engine.backoff_first_ms);
  limits.backoff_max = from_seconds(engine.backoff_max_s);
  limits.eager = engine.start == "eager";
  return limits;
}

turn::DeskLimits desk_limits(const config::Config& config) {
  turn::DeskLimits limits;
  limits.queue_limit = static_cast<size_t>(config.queue.limit);
  limits.queue_wait = from_seconds(config.queue.wait_s);
  limits.queue_warn = from_seconds(config.queue.warn_s);
  limits.slow_reader_wait = from_seconds(config.http.write_s);
  return limits;
}

http::ServerOptions server_options(const config::Loaded& loaded) {
  http::ServerOptions options;
  options.limits = loaded.config.http;
  options.api_keys = loaded.api_keys;
  options.cors_origins = loaded.config.cors_origins;
  options.allowed_hosts = loaded.config.allowed_hosts;
  options.bound_host = loaded.config.host;
  options.version = VIGIL_VERSION;
  return options;
}

// What our own engine is told; a foreign one gets `engine.args` alone.
std::vector<std::string> engine_args(const config::Config& config, const std::string& model, bool own) {
  const config::Engine& engine = config.engine;
  std::vector<std::string> args;
  if (own) {
    args = {"--model", model, "--context", std::to_string(engine.context), "--threads", std::to_string(engine.threads),
            "--backend", engine.backend, "--kv-type", engine.kv_type, "--step-ms", std::to_string(engine.step_ms)};
    if (engine.slots > 0) args.insert(args.end(), {"--slots", std::to_string(engine.slots)});
  }
  args.insert(args.end(), engine.args.begin(), engine.args.end());
  return args;
}

// The limit that a service manager or shell gave us; our own is raised to the hard limit, children get the original.
uint64_t raise_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const uint64_t original = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  return original;
}

observe::Metrics::Kill kill_reason(Trouble why) {
  switch (why) {
    case Trouble::stalled: return observe::Metrics::Kill::stall;
    case Trouble::silent: return observe::Metrics::Kill::silence;
    case Trouble::cancel_unanswered: return observe::Metrics::Kill::cancel;
    case Trouble::not_ready:
    case Trouble::start_failed: return observe::Metrics::Kill::ready;
    case Trouble::crashed:
    case Trouble::unloaded:
    case Trouble::shutting_down:
    case Trouble::crash_loop: return observe::Metrics::Kill::stop;
  }
  return observe::Metrics::Kill::stop;
}

// Outside the loop the signals that we act on wait: before it nobody could act on them, and after it, when the signal set is gone, the default
// action of one more TERM would turn a clean stop into a death by signal. Threads of ours inherit the mask and never take them.
void mask_signals(int how) {
  sigset_t ours;
  sigemptyset(&ours);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&ours, number);
  pthread_sigmask(how, &ours, nullptr);
}

// A small pool for long bodies and texts; results come back through the io_context. Very long ones go one after another on a thread of
// their own, so that the usual ones need not wait behind them.
class WorkerPool final : public api::Workers {
 public:
  explicit WorkerPool(asio::io_context& io) : io_(io), pool_(2), long_pool_(1) {}
  ~WorkerPool() override {
    pool_.stop();  // what has not begun is nobody's any more
    long_pool_.stop();
    pool_.join();
    long_pool_.join();
  }
  void run(size_t bytes, std::function<void()> job, std::function<void()> done) override {
    constexpr size_t long_job_bytes = 1024 * 1024;
    ++unfinished_;
    asio::post(bytes < long_job_bytes ? pool_ : long_pool_, [this, job = std::move(job), done = std::move(done)]() mutable {
      job();
      job = nullptr;  // its text is given back here, not by the thread that decides
      --unfinished_;
      asio::post(io_, std::move(done));
    });
  }
  bool busy() const { return unfinished_ > 0; }

 private:
  asio::io_context& io_;
  asio::thread_pool pool_, long_pool_;
  std::atomic<size_t> unfinished_ = 0;
};

class Daemon {
 public:
  Daemon(const config::Loaded& loaded, const config::Sources& sources, const config::Program& engine, std::string model_path,
         process::Keeper& keeper, const std::string& instance, uint64_t open_files);
  Result<void> open(std::vector<int> sockets);
  void run();
  bool workers_busy() const { return workers_.busy(); }

 private:
  turn::DeskObserver desk_observer();
  process::DriverObserver driver_observer();
  process::DriverOptions driver_options(const config::Program& engine, const std::string& instance, uint64_t open_files) const;
  api::Surroundings surroundings();
  api::EngineStatus engine_status() const;
  void request_ended(const turn::Request& request, const turn::Ending& ending, bool rejected);
  void arm_desk_timer();
  void watchdog(Duration every);
  void await_signal();
  void reload();
  void stop();
  void drained();
  void children_gone();
  std::string status_line() const;

  config::Config config_;
  config::Sources sources_;
  std::string model_path_;
  TimePoint started_ = steady_now();
  asio::io_context io_{1};
  observe::Log log_;
  observe::ChildLog child_log_{log_, "engine"};
  observe::Metrics metrics_;
  process::AdoptedReaper reaper_{io_};
  process::KeeperWatch keeper_watch_;
  process::EngineDriver driver_;
  turn::Desk desk_;
  std::shared_ptr<const api::Model> model_;
  WorkerPool workers_{io_};
  api::Api api_;
  http::Server server_;
  asio::signal_set signals_{io_, SIGTERM, SIGINT, SIGHUP};
  asio::steady_timer desk_timer_{io_}, drain_timer_{io_}, watchdog_timer_{io_};
  bool desk_timer_posted_ = false, stopping_ = false, draining_ = false, stop_children_ = false;
};

Daemon::Daemon(const config::Loaded& loaded, const config::Sources& sources, const config::Program& engine, std::string model_path,
               process::Keeper& keeper, const std::string& instance, uint64_t open_files)
    : config_(loaded.config), sources_(sources), model_path_(std::move(model_path)),
      keeper_watch_(io_, keeper, instance, [this](const std::string& line) { log_.error(line); }),
      driver_(io_, driver_options(engine, instance, open_files), child_limits(config_.engine), driver_observer()),
      desk_(desk_limits(config_), driver_, desk_observer()), api_(surroundings()),
      server_(io_, server_options(loaded), http::api_routes(api_),
              {{}, [this](const std::string& line) { log_.warning(line); }, [this](const std::string& line) { log_.error(line); }}) {
  driver_.attach(desk_);
  for (const auto& note : loaded.notes) log_.warning(note);
}

process::DriverOptions Daemon::driver_options(const config::Program& engine, const std::string& instance, uint64_t open_files) const {
  process::DriverOptions options;
  options.instance = instance;
  options.exe = engine.path;
  options.args = engine_args(config_, model_path_, engine.own);
  options.env = config_.engine.env;
  options.cwd = config_.engine.cwd;
  options.open_files = open_files;
  return options;
}

process::DriverObserver Daemon::driver_observer() {
  process::DriverObserver observer;
  observer.log = [this](const std::string& line) { log_.info(line); };
  observer.stderr_output = [this](supervise::Generation generation, std::string_view bytes) { child_log_.write(generation, bytes, steady_now()); };
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
  settings.version = VIGIL_VERSION;
  return {desk_, workers_, steady_now, [] { return static_cast<int64_t>(std::time(nullptr)); }, [this] { return model_; },
          [this] { return engine_status(); }, [this] { return metrics_.text(); }, [this] { return seconds(steady_now() - started_); },
          settings, [this](const std::string& line) { log_.warning(line); }};
}

api::EngineStatus Daemon::engine_status() const {
  const auto& child = driver_.child();
  api::EngineStatus status;
  status.state = supervise::to_string(child.state());
  status.generation = child.generation();
  status.pid = child.pid();
  status.in_state_s = seconds(steady_now() - (child.state_since() == TimePoint{} ? started_ : child.state_since()));
  status.load = child.load();
  if (const auto& ready = child.ready()) {
    status.context = ready->context;
    status.slots = ready->ids ? ready->slots : 1;
    status.can_logprobs = ready->logprobs;
  }
  status.reason = child.reason();
  status.retry_in_s = seconds(child.retry_in(steady_now()));
  status.lazy = config_.engine.start == "lazy";
  return status;
}

std::string Daemon::status_line() const {
  const auto& child = driver_.child();
  return "engine " + std::string(supervise::to_string(child.state())) + (child.reason().empty() ? "" : ": " + child.reason());
}

Result<void> Daemon::open(std::vector<int> sockets) {
  for (const int socket : sockets) {
    if (auto adopted = server_.adopt(socket); !adopted) return adopted;
  }
  if (sockets.empty()) {
    if (auto bound = server_.bind(config_.host, static_cast<uint16_t>(config_.port)); !bound) return bound;
  }
  if (!config_.engine.log.empty()) {
    if (auto opened = child_log_.open_file(config_.engine.log); !opened) return Error{"engine.log: " + opened.error()};
  }
  auto model = read_model(model_path_, config_);
  if (!model) return Error{model.error()};
  model_ = *model;
  return {};
}

void Daemon::run() {
  std::printf("vigil listening on http://%s\n", server_.address().c_str());
  std::fflush(stdout);
  log_.info("model " + model_->id + " from " + model_path_);
  if (!model_->chat_template.empty()) log_.warning("the model's own chat template is not used by this version; see docs/api.md");
  await_signal();
  server_.start();
  if (config_.engine.start == "eager") driver_.load();
  observe::notify_ready(status_line());
  if (const auto every = observe::watchdog_interval()) watchdog(*every);
  mask_signals(SIG_UNBLOCK);
  io_.run();
  mask_signals(SIG_BLOCK);
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
      reload();
    } else if (!stopping_) {
      stop();
    } else if (draining_) {
      drained();  // a second signal cuts the drain short
    }
    await_signal();
  });
}

void Daemon::reload() {
  const config::Loaded loaded = config::load(sources_);
  if (!loaded.ok()) {
    for (const auto& mistake : loaded.mistakes) log_.error("reload: " + mistake);
    log_.error("reload: nothing was changed");
    return;
  }
  observe::notify_reloading();
  for (const auto& change : config::describe_changes(config_, loaded.config)) log_.info("reload: " + change);
  const std::string host = config_.host;
  config_ = loaded.config;
  http::ServerOptions options = server_options(loaded);
  options.bound_host = host;
  server_.set_options(std::move(options));
  desk_.set_limits(desk_limits(config_));
  driver_.set_limits(child_limits(config_.engine));
  observe::notify_ready(status_line());
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
  driver_.stop(Trouble::shutting_down, at_once, [this] { children_gone(); });
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
  mask_signals(SIG_BLOCK);
  const config::Config& config = loaded.config;
  const std::string program_dir = own_program_dir();

  auto sockets = observe::take_listening_sockets();
  if (!sockets) return could_not_start(sockets.error());
  const std::string instance = process::make_instance();
  auto keeper = process::start_keeper(instance);  // before threads and sockets of ours
  if (!keeper) return could_not_start(keeper.error());
  process::become_subreaper();
  const uint64_t open_files = raise_open_files();

  std::string model_path = config.model;
  if (model_path.empty()) {
    auto bundled = find_bundled_model(program_dir);
    if (!bundled) return could_not_start(bundled.error());
    model_path = *bundled;
  }
  const char* path = std::getenv("PATH");
  const auto engine = config::resolve_program({"engine.exe", config.engine.exe, config.engine.own, "vigil-engine", program_dir, path ? path : ""});
  if (!engine) return could_not_start(engine.error());

  {
    Daemon daemon(loaded, sources, *engine, model_path, *keeper, instance, open_files);
    if (auto opened = daemon.open(std::move(*sockets)); !opened) return could_not_start(opened.error());
    daemon.run();
    if (daemon.workers_busy()) {  // a text that nobody waits for any more is not worth the wait for its worker
      keeper->stop();
      std::fflush(nullptr);
      std::_Exit(0);
    }
  }
  keeper->stop();
  return 0;
}

}  // namespace vigil
