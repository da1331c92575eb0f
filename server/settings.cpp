// See settings.hpp.
#include "server/settings.hpp"

namespace vigil {

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
  limits.idle_unload = from_seconds(engine.idle_unload_s);
  limits.eager = engine.start == "eager";
  return limits;
}

supervise::ChildLimits without_restart(supervise::ChildLimits limits) {
  limits.eager = false;
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

http::ServerOptions server_options(const config::Loaded& loaded, int64_t connections) {
  http::ServerOptions options;
  options.limits = loaded.config.http;
  options.limits.connections = connections;
  options.api_keys = loaded.api_keys;
  options.cors_origins = loaded.config.cors_origins;
  options.allowed_hosts = loaded.config.allowed_hosts;
  options.bound_host = loaded.config.host;
  options.version = VIGIL_VERSION;
  return options;
}

std::vector<std::string> engine_args(const config::Config& config, const std::string& model, Ownership whose) {
  const config::Engine& engine = config.engine;
  std::vector<std::string> args;
  if (whose == Ownership::own) {
    args = {"--model", model, "--context", std::to_string(engine.context), "--threads", std::to_string(engine.threads),
            "--backend", engine.backend, "--kv-type", engine.kv_type, "--step-ms", std::to_string(engine.step_ms)};
    if (engine.gpu_layers >= 0) args.insert(args.end(), {"--gpu-layers", std::to_string(engine.gpu_layers)});
    if (!engine.layer_split.empty()) args.insert(args.end(), {"--layer-split", engine.layer_split});
    if (engine.cache_mib != 0) args.insert(args.end(), {"--cache-mib", std::to_string(engine.cache_mib)});
    if (engine.slots > 0) args.insert(args.end(), {"--slots", std::to_string(engine.slots)});
  }
  args.insert(args.end(), engine.args.begin(), engine.args.end());
  return args;
}

}  // namespace vigil
