// See vision.hpp.
#include "server/vision.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "server/api/pictures.hpp"

namespace vigil {

namespace {

process::VisionLimits limits_of(const config::Config& config) {
  supervise::ChildLimits limits;
  limits.name = "vision";
  limits.ready = from_seconds(config.vision.ready_s);
  limits.silence = from_seconds(config.vision.encode_s);
  limits.silence_key = "encode_s";
  limits.stop = from_seconds(config.vision.stop_s);
  // ready_s bounds the execve too: the two have no limits of their own here.
  limits.exec = std::chrono::hours(24 * 365 * 10);
  limits.backoff_first = std::chrono::milliseconds(config.engine.backoff_first_ms);
  limits.backoff_max = from_seconds(config.engine.backoff_max_s);
  limits.eager = false;  // after a failure the next picture starts it
  return {std::move(limits), config.vision.cache_bytes, from_seconds(config.queue.wait_s)};
}

}  // namespace

bool vision_wanted(const config::Vision& vision) { return !vision.mmproj.empty() || vision.exe != config::Vision{}.exe; }

Result<std::optional<config::Program>> find_vision(const config::Vision& vision, const std::string& projector, const std::string& program_dir) {
  if (!vision_wanted(vision) && projector.empty()) return std::optional<config::Program>();
  const char* path = std::getenv("PATH");
  auto program = config::resolve_program({"vision.exe", vision.exe, vision.own, "vigil-vision", program_dir, path ? path : ""});
  if (!program) return Error{program.error()};
  // The projector is our own program's; a foreign one gets what it needs by vision.args.
  if (program->own && projector.empty()) return Error{"vision.mmproj: is empty, and the vision program needs a projector file (--mmproj FILE.gguf)"};
  if (!projector.empty() && ::access(projector.c_str(), R_OK) != 0) {
    return Error{"vision.mmproj: cannot read " + projector + ": " + std::strerror(errno)};
  }
  return std::optional<config::Program>(std::move(*program));
}

Vision::Vision(boost::asio::io_context& io, observe::Log& log, turn::Desk& desk, const std::string& instance, uint64_t open_files)
    : io_(io), log_(log), desk_(desk), instance_(instance), open_files_(open_files), child_log_(log, "vision"), client_(io) {}

process::DriverOptions Vision::options(const config::Config& config, const Installed& installed) const {
  const config::Vision& vision = config.vision;
  const config::Program& program = *installed.vision;
  process::DriverOptions options;
  options.name = "vision";
  options.instance = instance_;
  options.exe = program.path;
  if (program.own) options.args = {"--model", installed.model_path, "--mmproj", installed.projector_path, "--image-pixels", std::to_string(vision.image_pixels)};
  options.args.insert(options.args.end(), vision.args.begin(), vision.args.end());
  options.env = vision.env;
  options.open_files = open_files_;
  return options;
}

process::DriverObserver Vision::observer() {
  process::DriverObserver observer;
  observer.log = [this](const std::string& line) { log_.info(line); };
  observer.stderr_output = [this](supervise::Generation generation, std::string_view bytes) {
    child_log_.write(generation, bytes, std::chrono::steady_clock::now());
  };
  observer.loaded = [this](double seconds) {
    log_.info("vision child generation " + std::to_string(driver_->child().generation()) + " is ready after " + std::to_string(seconds) + " s");
  };
  observer.killed = [this](supervise::Trouble) {
    log_.error("vision child generation " + std::to_string(driver_->child().generation()) + " is ended: " + driver_->child().reason());
  };
  return observer;
}

Result<Vision::Prepared> Vision::prepare(const config::Config& config, const Installed& installed) {
  Prepared prepared;
  prepared.config = config;
  if (!installed.vision) return Result<Prepared>(std::move(prepared));
  auto file = observe::LogFile::open(config.vision.log);
  if (!file) return Error{"vision.log: " + file.error()};
  prepared.log = std::move(*file);
  prepared.options = options(config, installed);
  if (driver_) return Result<Prepared>(std::move(prepared));
  auto folder = process::PictureFolder::make_in_one_of(
      process::picture_folder_places(std::getenv("RUNTIME_DIRECTORY"), std::getenv("XDG_RUNTIME_DIR"), std::getenv("TMPDIR")));
  if (!folder) return Error{folder.error()};
  for (const std::string& path : folder->swept()) log_.info("removed " + path + ", which a daemon that was killed had left");
  try {
    prepared.driver = std::make_unique<process::VisionDriver>(io_, *prepared.options, limits_of(config), std::move(*folder), observer());
  } catch (const std::exception& failure) {  // a thread that the system did not give
    return Error{std::string("the vision child's part cannot be made: ") + failure.what()};
  }
  return Result<Prepared>(std::move(prepared));
}

void Vision::allow_fetching(const config::Vision& vision) {
  url_allow_ = std::make_shared<url::AllowList>(vision.url_allow);
  fetch::ClientOptions options;
  options.allow = url_allow_;
  options.body_bytes = vision.image_bytes;
  options.total_bytes = vision.url_total_bytes;
  options.redirects = vision.url_redirects;
  options.at_once = static_cast<size_t>(vision.url_fetches);
  options.user_agent = "vigil/" VIGIL_VERSION;
  client_.set_options(std::move(options));
  fetching_->set_options({from_seconds(vision.url_s), vision.image_bytes});
}

void Vision::install(Prepared prepared) {
  set_limits(prepared.config);
  if (!prepared.options) {
    if (driver_ && wanted_) {
      fetching_->end_all({turn::ErrorCode::vision_unavailable, "the vision child was taken out of the configuration", "", 1});
      driver_->switch_off();
    }
    wanted_ = false;
    return;
  }
  child_log_.use(std::move(prepared.log));
  if (!driver_) {
    driver_ = std::move(prepared.driver);
    driver_->attach(desk_);
    fetching_ = std::make_unique<fetch::FetchingEncoder>(
        client_, *driver_,
        [this](turn::RequestKey key, const turn::RequestError& error) { desk_.encode_failed(key, error, std::chrono::steady_clock::now()); },
        api::content_hash, [this](const std::string& line) { log_.warning(line); });
    desk_.attach_encoder(fetching_.get());
  }
  allow_fetching(prepared.config.vision);
  driver_->set_options(std::move(*prepared.options));
  driver_->switch_on();
  wanted_ = true;
}

void Vision::set_limits(const config::Config& config) {
  image_bytes_ = config.vision.image_bytes;
  if (!driver_) return;
  driver_->set_limits(limits_of(config));
  allow_fetching(config.vision);
}

void Vision::load() {
  if (wanted_) driver_->load();
}

void Vision::stop(const std::function<void()>& done) {
  if (!driver_) return boost::asio::post(io_, done);
  // A load in progress has nothing worth a grace.
  driver_->stop(supervise::Trouble::shutting_down, driver_->child().state() == supervise::ChildState::starting, done);
}

api::VisionStatus Vision::status() const {
  if (!wanted_) return {};
  const supervise::Child& child = driver_->child();
  return {std::string(supervise::to_string(child.state())), child.generation(), child.pid(), child.reason(), image_bytes_, url_allow_};
}

}  // namespace vigil
