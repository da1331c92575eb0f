// Most are one blocking HTTP request by Beast, under a time limit, and its answer for people or as JSON.
#include "server/commands.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

#include "protocol/result.hpp"
#include "server/installed.hpp"
#include "server/json/json.hpp"
#include "server/program_dir.hpp"

namespace vigil {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using nlohmann::json;

namespace {

constexpr double answer_within_s = 30;
constexpr double load_within_s = 7200;  // above engine.load_max_s and what unloads wait for; the daemon's own limits end it earlier

struct Place {
  std::string host, port;
};

Result<Place> place_of(const std::string& url) {
  const std::string scheme = "http://";
  if (!url.starts_with(scheme)) return Error{"--url " + url + ": only http:// addresses can be asked"};
  std::string authority = url.substr(scheme.size());
  authority = authority.substr(0, authority.find('/'));
  const size_t colon = authority.rfind(':');
  const bool has_port = colon != std::string::npos && authority.find(']', colon) == std::string::npos;
  Place place{has_port ? authority.substr(0, colon) : authority, has_port ? authority.substr(colon + 1) : "80"};
  if (place.host.size() > 2 && place.host.front() == '[') place.host = place.host.substr(1, place.host.size() - 2);
  if (place.host.empty()) return Error{"--url " + url + ": names no host"};
  return place;
}

Result<std::string> key_of(const ClientOptions& options) {
  if (options.api_key_file.empty()) {
    const char* key = std::getenv("VIGIL_API_KEY");
    return std::string(key ? key : "");
  }
  std::ifstream file(options.api_key_file);
  std::string line;
  while (std::getline(file, line)) {
    if (!line.empty() && line[0] != '#') return line;
  }
  return Error{"--api-key-file " + options.api_key_file + ": cannot be read, or holds no key"};
}

struct Answer {
  int status = 0;
  std::string body;
};

Result<Answer> ask(const ClientOptions& options, http::verb verb, const std::string& target, double within_s = answer_within_s) {
  const auto place = place_of(options.url);
  if (!place) return Error{place.error()};
  const auto key = key_of(options);
  if (!key) return Error{key.error()};
  asio::io_context io(1);
  beast::tcp_stream stream(io);
  beast::flat_buffer buffer;
  http::request<http::empty_body> request{verb, target, 11};
  request.set(http::field::host, place->host + ":" + place->port);
  request.set(http::field::connection, "close");
  if (verb == http::verb::post) request.content_length(0);
  if (!key->empty()) request.set(http::field::authorization, "Bearer " + *key);
  http::response<http::string_body> response;
  boost::system::error_code result = asio::error::timed_out;
  asio::ip::tcp::resolver resolver(io);
  stream.expires_after(std::chrono::milliseconds(static_cast<int64_t>(1000 * (options.timeout_s > 0 ? options.timeout_s : within_s))));
  resolver.async_resolve(place->host, place->port, [&](boost::system::error_code resolved, const auto& addresses) {
    if (resolved) return void(result = resolved);
    stream.async_connect(addresses, [&](boost::system::error_code connected, const auto&) {
      if (connected) return void(result = connected);
      http::async_write(stream, request, [&](boost::system::error_code written, size_t) {
        if (written) return void(result = written);
        http::async_read(stream, buffer, response, [&](boost::system::error_code read, size_t) { result = read; });
      });
    });
  });
  io.run();
  if (result) return Error{"cannot reach " + options.url + ": " + result.message()};
  return Answer{static_cast<int>(response.result_int()), std::move(response.body())};
}

int complain(const std::string& what) {
  std::fprintf(stderr, "vigil: %s\n", what.c_str());
  return 1;
}

int complain(const Answer& answer) {
  const auto body = json::parse(answer.body, nullptr, false);
  std::string message = "HTTP status " + std::to_string(answer.status);
  if (body.is_object() && body.contains("error") && body["error"].is_object()) message = body["error"].value("message", message);
  return complain(message);
}

void print_status(const json& status) {
  const json& engine = status.at("engine");
  const json& requests = status.at("requests");
  const json& totals = status.at("totals");
  const std::string reason = engine.value("reason", "");
  std::printf("engine    %s, generation %lld, pid %lld, context %lld%s%s\n", engine.value("state", "").c_str(), engine.value("generation", 0LL),
              engine.value("pid", 0LL), engine.value("context", 0LL), reason.empty() ? "" : "; ", reason.c_str());
  const json vision = status.value("vision", json::object());
  if (const std::string state = vision.value("state", "absent"); state != "absent") {
    const std::string why = vision.value("reason", "");
    std::printf("vision    %s, generation %lld, pid %lld%s%s\n", state.c_str(), vision.value("generation", 0LL), vision.value("pid", 0LL),
                why.empty() ? "" : "; ", why.c_str());
  }
  std::printf("requests  %lld running, %lld queued (limit %lld), %lld loading\n", requests.value("running", 0LL), requests.value("queued", 0LL),
              requests.value("limit", 0LL), requests.value("loading", 0LL));
  std::printf("totals    %lld served, %lld failed, %lld cancelled, %lld rejected in %.0f s\n", totals.value("served", 0LL),
              totals.value("failed", 0LL), totals.value("cancelled", 0LL), totals.value("rejected", 0LL), status.value("uptime_s", 0.0));
  for (const json& one : status.at("active")) {
    std::printf("  %-10s %7.1f s  prompt %lld/%lld  generated %lld  %s\n", one.value("phase", "").c_str(), one.value("held_s", 0.0),
                one.value("prefilled", 0LL), one.value("prompt_tokens", 0LL), one.value("generated", 0LL), one.value("id", "").c_str());
  }
}

}  // namespace

int check(const config::Loaded& loaded) {
  for (const auto& note : loaded.notes) std::fprintf(stderr, "vigil: note: %s\n", note.c_str());
  for (const auto& mistake : loaded.mistakes) std::fprintf(stderr, "vigil: %s\n", mistake.c_str());
  if (!loaded.ok()) return 2;
  std::printf("%s\n", config::to_json(loaded.config).c_str());
  return 0;
}

int inspect(const config::Loaded& loaded) {
  for (const auto& mistake : loaded.mistakes) std::fprintf(stderr, "vigil: %s\n", mistake.c_str());
  if (!loaded.ok()) return 2;
  const auto found = find_installed(loaded.config);
  if (!found) return complain(found.error());
  // Our own engine, even where another serves: only it knows what this version can run.
  const auto engine = config::resolve_program({"engine.exe", "vigil-engine", true, "vigil-engine", own_program_dir(), ""});
  if (!engine) return complain(engine.error());
  ::execl(engine->path.c_str(), engine->path.c_str(), "--inspect", found->model_path.c_str(), static_cast<char*>(nullptr));
  return complain("cannot run " + engine->path + ": " + std::strerror(errno));
}

int status(const ClientOptions& options) {
  const auto answer = ask(options, http::verb::get, "/status");
  if (!answer) return complain(answer.error());
  if (answer->status != 200) return complain(*answer);
  if (options.json) {
    std::printf("%s\n", answer->body.c_str());
    return 0;
  }
  const auto body = json::parse(answer->body, nullptr, false);
  if (!body.is_object()) return complain("the answer of " + options.url + " is not a status; is this a Vigil server?");
  try {
    print_status(body);
  } catch (const json::exception& error) {
    return complain("the answer of " + options.url + " is not a status (" + error.what() + ")");
  }
  return 0;
}

int load(const ClientOptions& options) {
  const auto answer = ask(options, http::verb::post, "/v1/load", load_within_s);
  if (!answer) return complain(answer.error());
  if (answer->status != 200) return complain(*answer);
  std::printf("%s\n", options.json ? answer->body.c_str() : "ready");
  return 0;
}

int unload(const ClientOptions& options) {
  const auto answer = ask(options, http::verb::post, "/v1/unload", load_within_s);
  if (!answer) return complain(answer.error());
  if (answer->status != 200) return complain(*answer);
  std::printf("%s\n", options.json ? answer->body.c_str() : "unloaded");
  return 0;
}

int cancel(const ClientOptions& options, const std::string& request_id) {
  const auto answer = ask(options, http::verb::delete_, "/v1/requests/" + request_id);
  if (!answer) return complain(answer.error());
  if (answer->status != 200) return complain(*answer);
  std::printf("%s\n", options.json ? answer->body.c_str() : "cancelled");
  return 0;
}

}  // namespace vigil
