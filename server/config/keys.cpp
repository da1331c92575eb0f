// The table of keys, and looking things up in it. Defaults are Config's own initialisers.
#include "server/config/keys.hpp"

#include <algorithm>
#include <numeric>

namespace vigil::config {
namespace {

// Writes a key's path and its member once, so that the two cannot differ.
#define VIGIL_KEY(member) .path = #member, .field = Accessor<decltype(Config{}.member)>([](Config& c) { return &c.member; })

constexpr double most_seconds = 1e8;           // three years; any clock arithmetic stays in range
constexpr double most_bytes = 1099511627776;   // 1 TiB
constexpr double most_tokens = 1073741824;
constexpr double shortest_s = 0.001;

constexpr Key table[] = {
    {VIGIL_KEY(host), .takes = Takes::restart,
     .explanation = "Address to listen on; 0.0.0.0 and :: are every address."},
    {VIGIL_KEY(port), .max = 65535, .unit = "port", .takes = Takes::restart,
     .explanation = "TCP port; 0 takes a free one, which the line on stdout names."},
    {VIGIL_KEY(model), .takes = Takes::next_start, .meaning = Meaning::path,
     .explanation = "Model file (GGUF); empty means the bundled model."},
    {VIGIL_KEY(model_name),
     .explanation = "Id in /v1/models; empty means the model file's name without its ending."},
    {VIGIL_KEY(aliases),
     .explanation = "Further ids that requests may name."},
    {VIGIL_KEY(chat_template_file), .meaning = Meaning::path,
     .explanation = "Chat template in place of the model file's own."},
    {VIGIL_KEY(api_keys), .meaning = Meaning::secret,
     .explanation = "Keys that clients must send one of; none set means no key is needed."},
    {VIGIL_KEY(api_key_file), .meaning = Meaning::path,
     .explanation = "File with one key a line; blank lines and # comments are passed over."},
    {VIGIL_KEY(allow_remote_without_key), .takes = Takes::restart,
     .explanation = "Allows a host that is not loopback without any key."},
    {VIGIL_KEY(cors_origins),
     .explanation = "Browser origins that may ask, such as https://app.example; * is any."},
    {VIGIL_KEY(allowed_hosts),
     .explanation = "Host names that requests may carry when no key is set, beside loopback and host; * is any."},

    {VIGIL_KEY(engine.exe), .takes = Takes::next_start, .meaning = Meaning::program,
     .explanation = "Engine program; without a slash it is looked up beside the daemon, then in PATH."},
    {VIGIL_KEY(engine.own), .takes = Takes::next_start,
     .explanation = "Says that exe speaks our flags though it is not the vigil-engine beside the daemon."},
    {VIGIL_KEY(engine.args), .takes = Takes::next_start,
     .explanation = "Further arguments; a foreign engine gets these alone."},
    {VIGIL_KEY(engine.env), .takes = Takes::next_start,
     .explanation = "Environment variables added for the engine."},
    {VIGIL_KEY(engine.cwd), .takes = Takes::next_start, .meaning = Meaning::path,
     .explanation = "Working directory of the engine; empty means the daemon's."},
    {VIGIL_KEY(engine.log), .takes = Takes::next_start, .meaning = Meaning::path,
     .explanation = "File for the engine's stderr; empty means the daemon's stderr, each line with name and generation, rate-limited."},
    {VIGIL_KEY(engine.context), .max = most_tokens, .unit = "tokens", .takes = Takes::next_start,
     .explanation = "Context length; 0 means the largest that fits."},
    {VIGIL_KEY(engine.slots), .max = 1024, .unit = "requests", .takes = Takes::next_start,
     .explanation = "Requests that run at once; 0 means the engine's choice."},
    {VIGIL_KEY(engine.threads), .max = 1024, .unit = "threads", .takes = Takes::next_start,
     .explanation = "Compute threads; 0 means one a core."},
    {VIGIL_KEY(engine.backend), .takes = Takes::next_start, .choices = "auto|cpu|cuda",
     .explanation = "What computes: auto (a GPU where there is one, else the CPU), cpu or cuda (refused without a GPU)."},
    {VIGIL_KEY(engine.gpu_layers), .min = -1, .max = 100000, .unit = "layers", .takes = Takes::next_start,
     .explanation = "Layers on GPUs, the last ones of the model; the others are on the CPU. -1 means as many as fit (all of them with backend cuda), 0 none."},
    {VIGIL_KEY(engine.layer_split), .takes = Takes::next_start,
     .explanation = "Shares of the layers between several GPUs, such as 3,1; empty means one GPU if the model fits on it, else by free memory."},
    {VIGIL_KEY(engine.kv_type), .takes = Takes::next_start, .choices = "f16|f32|q8_0|q4_0",
     .explanation = "Number type of the KV cache; q8_0 halves its memory, q4_0 quarters it and costs accuracy."},
    {VIGIL_KEY(engine.cache_mib), .min = -1, .max = 1 << 26, .unit = "MiB", .takes = Takes::next_start,
     .explanation = "Memory for finished conversations' prefixes; 0 means the engine's choice, -1 that none is kept."},
    {VIGIL_KEY(engine.step_ms), .min = 1, .max = 60000, .unit = "ms", .takes = Takes::next_start,
     .explanation = "Aim for the time of one prompt chunk; a STOP waits about that long."},
    {VIGIL_KEY(engine.start), .takes = Takes::next_start, .choices = "eager|lazy",
     .explanation = "eager: with the daemon; lazy: at the first request."},
    {VIGIL_KEY(engine.idle_unload_s), .min = shortest_s, .max = most_seconds, .unit = "s", .zero = Zero::off,
     .explanation = "Unloads an engine that had no request for so long."},
    {VIGIL_KEY(engine.exec_s), .min = shortest_s, .max = 3600, .unit = "s",
     .explanation = "Limit for executing the program (not for loading)."},
    {VIGIL_KEY(engine.ready_s), .min = shortest_s, .max = most_seconds, .unit = "s", .zero = Zero::off,
     .explanation = "Limit for READY, since the start or the last growth of INFO load=."},
    {VIGIL_KEY(engine.load_max_s), .min = shortest_s, .max = most_seconds, .unit = "s", .zero = Zero::off,
     .explanation = "Limit for a whole load, whatever progress it reports."},
    {VIGIL_KEY(engine.silence_s), .min = shortest_s, .max = most_seconds, .unit = "s", .zero = Zero::off,
     .explanation = "Limit without a valid line for a running request, whatever stderr and CPU do."},
    {VIGIL_KEY(engine.stall_s), .min = shortest_s, .max = most_seconds, .unit = "s", .zero = Zero::off,
     .explanation = "Limit without a line, a stderr byte or CPU time while a request runs."},
    {VIGIL_KEY(engine.step_s), .min = shortest_s, .max = most_seconds, .unit = "s", .zero = Zero::off,
     .explanation = "For engines with beats: limit for a step count that stands still while disk and faults are flat."},
    {VIGIL_KEY(engine.cancel_s), .min = shortest_s, .max = most_seconds, .unit = "s", .zero = Zero::off,
     .explanation = "Limit for the answer to STOP; then the engine is replaced."},
    {VIGIL_KEY(engine.stop_s), .max = 86400, .unit = "s",
     .explanation = "Time between TERM and KILL; 0 kills at once."},
    {VIGIL_KEY(engine.backoff_first_ms), .max = 3600000, .unit = "ms",
     .explanation = "First wait after the second failure in a row; it doubles with each further one."},
    {VIGIL_KEY(engine.backoff_max_s), .max = 86400, .unit = "s",
     .explanation = "Longest wait between starts."},
    {VIGIL_KEY(engine.repeat_stop_tokens), .min = 2, .max = most_tokens, .unit = "tokens", .zero = Zero::off,
     .explanation = "Ends a reply that repeats one token so often."},
    {VIGIL_KEY(engine.thinking_reserve), .max = most_tokens, .unit = "tokens",
     .explanation = "Part of a reply's budget that thinking may not use."},

    {VIGIL_KEY(vision.exe), .takes = Takes::next_start, .meaning = Meaning::program,
     .explanation = "Vision program; looked up like engine.exe. Naming one, or mmproj, switches pictures on, which the bundled model has on its own."},
    {VIGIL_KEY(vision.own), .takes = Takes::next_start,
     .explanation = "Says that exe speaks our flags though it is not the vigil-vision beside the daemon."},
    {VIGIL_KEY(vision.mmproj), .takes = Takes::next_start, .meaning = Meaning::path,
     .explanation = "Projector file, for our own vision program; it switches pictures on. Empty means the bundled one with the bundled model, none with another."},
    {VIGIL_KEY(vision.args), .takes = Takes::next_start,
     .explanation = "Further arguments; a foreign program gets these alone."},
    {VIGIL_KEY(vision.env), .takes = Takes::next_start,
     .explanation = "Environment variables added for the vision child."},
    {VIGIL_KEY(vision.log), .takes = Takes::next_start, .meaning = Meaning::path,
     .explanation = "File for its stderr; empty means the daemon's."},
    {VIGIL_KEY(vision.image_token), .takes = Takes::next_start,
     .explanation = "Text of the image token, a control token; empty means that it is found in the vocabulary."},
    {VIGIL_KEY(vision.ready_s), .min = shortest_s, .max = most_seconds, .unit = "s", .zero = Zero::off,
     .explanation = "Limit for READY of the vision child, since its start."},
    {VIGIL_KEY(vision.encode_s), .min = shortest_s, .max = most_seconds, .unit = "s", .zero = Zero::off,
     .explanation = "Limit for encoding one picture, since ENC was sent."},
    {VIGIL_KEY(vision.stop_s), .max = 86400, .unit = "s",
     .explanation = "Time between TERM and KILL; 0 kills at once."},
    {VIGIL_KEY(vision.cache_bytes), .max = most_bytes, .unit = "bytes",
     .explanation = "Pictures and embeddings kept so that the next turn of a conversation need not encode them again; 0 keeps none."},
    {VIGIL_KEY(vision.image_bytes), .min = 1, .max = most_bytes, .unit = "bytes",
     .explanation = "Largest picture file."},
    {VIGIL_KEY(vision.image_pixels), .min = 1, .max = most_bytes, .unit = "pixels", .takes = Takes::next_start,
     .explanation = "Largest decoded picture; for our own vision program."},
    {VIGIL_KEY(vision.url_allow),
     .explanation = "URL prefixes that pictures may be fetched from, such as https://images.example/cats; none means no fetching."},
    {VIGIL_KEY(vision.url_s), .min = shortest_s, .max = 86400, .unit = "s",
     .explanation = "Limit for fetching all of a request's pictures, waiting for a place and redirects included."},
    {VIGIL_KEY(vision.url_redirects), .max = 20, .unit = "redirects",
     .explanation = "Redirects that one fetch follows; each must be allowed too."},
    {VIGIL_KEY(vision.url_fetches), .min = 1, .max = 1024, .unit = "fetches",
     .explanation = "Fetches at once, and names that are being resolved; others wait. A request has one at once."},
    {VIGIL_KEY(vision.url_total_bytes), .min = 1, .max = most_bytes, .unit = "bytes",
     .explanation = "All fetched pictures that are held at once."},

    {VIGIL_KEY(queue.limit), .min = 1, .max = 1000000, .unit = "requests", .zero = Zero::off,
     .explanation = "Requests that may wait in the queue; one more gets 429. One with pictures is counted with those whose pictures are being encoded."},
    {VIGIL_KEY(queue.wait_s), .min = shortest_s, .max = most_seconds, .unit = "s", .zero = Zero::off,
     .explanation = "Longest wait in the queue, and for the turn of a request's first picture."},
    {VIGIL_KEY(queue.warn_s), .min = shortest_s, .max = most_seconds, .unit = "s", .zero = Zero::off,
     .explanation = "A request that runs longer is logged once; it is never ended for that."},

    {VIGIL_KEY(http.header_s), .min = shortest_s, .max = 86400, .unit = "s", .zero = Zero::off,
     .explanation = "Limit for a request's headers."},
    {VIGIL_KEY(http.header_bytes), .min = 256, .max = 16777216, .unit = "bytes",
     .explanation = "Largest request line and headers."},
    {VIGIL_KEY(http.body_s), .min = shortest_s, .max = most_seconds, .unit = "s", .zero = Zero::off,
     .explanation = "Limit for a request's body."},
    {VIGIL_KEY(http.body_bytes), .min = 1, .max = most_bytes, .unit = "bytes",
     .explanation = "Largest body."},
    {VIGIL_KEY(http.body_total_bytes), .min = 1, .max = most_bytes, .unit = "bytes", .zero = Zero::off,
     .explanation = "All bodies that are held at once."},
    {VIGIL_KEY(http.connections), .min = 1, .max = 1000000, .unit = "connections", .zero = Zero::off,
     .explanation = "Connections at once; further ones wait to be accepted."},
    {VIGIL_KEY(http.idle_s), .min = shortest_s, .max = most_seconds, .unit = "s", .zero = Zero::off,
     .explanation = "Closes a connection that had no request for so long."},
    {VIGIL_KEY(http.write_s), .min = shortest_s, .max = 86400, .unit = "s", .zero = Zero::off,
     .explanation = "Limit for a client that does not read; also TCP_USER_TIMEOUT."},
    {VIGIL_KEY(http.write_buffer_bytes), .min = 65536, .max = most_bytes, .unit = "bytes",
     .explanation = "Bytes of an answer that wait for a slow reader."},
    {VIGIL_KEY(http.commit_s), .max = most_seconds, .unit = "s",
     .explanation = "Longest time that a stream's headers are held back; 0 sends them at once."},
    {VIGIL_KEY(http.keepalive_s), .min = 0.05, .max = most_seconds, .unit = "s", .zero = Zero::off,
     .explanation = "Time between keep-alive comments of a stream without events."},

    {VIGIL_KEY(drain_s), .max = most_seconds, .unit = "s",
     .explanation = "Time that running requests may still use after SIGTERM."},
};
#undef VIGIL_KEY

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

std::string_view last_part(std::string_view path) { return path.substr(path.rfind('.') + 1); }

}  // namespace

std::span<const Key> keys() { return table; }

const Key* find_key(std::string_view path) {
  const auto found = std::find_if(std::begin(table), std::end(table), [&](const Key& key) { return key.path == path; });
  return found == std::end(table) ? nullptr : found;
}

bool is_section(std::string_view path) {
  return std::any_of(std::begin(table), std::end(table), [&](const Key& key) {
    return key.path.size() > path.size() && key.path.starts_with(path) && key.path[path.size()] == '.';
  });
}

std::string environment_name(std::string_view path) {
  std::string name = "VIGIL_";
  for (const char c : path) name += c == '.' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return name;
}

std::string nearest_key(std::string_view unknown) {
  unknown = unknown.substr(0, 100);  // a long one is far from all alike
  std::string best;
  size_t best_distance = static_cast<size_t>(-1);
  const auto offer = [&](std::string_view candidate, size_t distance) {
    if (distance >= best_distance) return;
    best = candidate;
    best_distance = distance;
  };
  for (const Key& key : table) {
    offer(key.path, edit_distance(unknown, key.path));
    offer(key.path, edit_distance(last_part(unknown), last_part(key.path)) + 1);
    const size_t dot = key.path.find('.');
    if (dot != std::string_view::npos) offer(key.path.substr(0, dot), edit_distance(unknown, key.path.substr(0, dot)));
  }
  return best;
}

std::string nearest_environment_name(std::string_view unknown) {
  unknown = unknown.substr(0, 100);
  const std::string_view bare = unknown.substr(unknown.starts_with("VIGIL_") ? 6 : 0);
  std::string best;
  size_t best_distance = static_cast<size_t>(-1);
  for (const Key& key : table) {
    const std::string name = environment_name(key.path);
    const std::string last = environment_name(last_part(key.path)).substr(6);
    const size_t distance = std::min(edit_distance(unknown, name), edit_distance(bare, last) + 1);
    if (distance < best_distance) {
      best = name;
      best_distance = distance;
    }
  }
  return best;
}

std::string takes_text(Takes takes) {
  switch (takes) {
    case Takes::new_requests: return "for new requests";
    case Takes::next_start: return "at the next start of the child";
    case Takes::restart: return "after a restart of the daemon";
  }
  return {};
}

}  // namespace vigil::config
