// Writing answers.
#include "server/http/answer.hpp"

#include <array>
#include <charconv>
#include <ctime>

namespace vigil::http {
namespace {

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200: return "OK";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 413: return "Content Too Large";
    case 422: return "Unprocessable Content";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 503: return "Service Unavailable";
    default: return status < 400 ? "OK" : "Error";
  }
}

// A line break inside a value would let text of a client or a child write headers of its own.
void append_header(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ");
  for (const char c : value) out.push_back(static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c);
  out.append("\r\n");
}

std::string head(const AnswerFrame& frame, int status) {
  std::string out = "HTTP/1.1 " + std::to_string(status) + " ";
  out.append(reason_phrase(status)).append("\r\n");
  append_header(out, "Date", frame.date);
  append_header(out, "Server", frame.server);
  append_header(out, "X-Request-Id", frame.request_id);
  for (const auto& [name, value] : frame.cors) append_header(out, name, value);
  if (frame.connection == Connection::close) append_header(out, "Connection", "close");
  else if (frame.version == Version::http_1_0) append_header(out, "Connection", "keep-alive");
  return out;
}

}  // namespace

std::string http_date(int64_t unix_seconds) {
  static constexpr std::array<const char*, 7> days = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array<const char*, 12> months = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t when = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  ::gmtime_r(&when, &parts);
  std::array<char, 64> clock{};  // strftime's own names depend on the locale
  std::strftime(clock.data(), clock.size(), "%H:%M:%S GMT", &parts);
  const std::string day = std::to_string(parts.tm_mday);
  return std::string(days[static_cast<size_t>(parts.tm_wday)]) + ", " + (day.size() < 2 ? "0" : "") + day + " " +
         months[static_cast<size_t>(parts.tm_mon)] + " " + std::to_string(parts.tm_year + 1900) + " " + clock.data();
}

std::string whole_answer(const AnswerFrame& frame, const api::Response& response) {
  std::string out = head(frame, response.status);
  const bool bodiless = response.status == 204 || response.status == 304;
  if (!bodiless) {
    if (!response.content_type.empty()) append_header(out, "Content-Type", response.content_type);
    append_header(out, "Content-Length", std::to_string(response.body.size()));
  }
  for (const auto& [name, value] : response.headers) append_header(out, name, value);
  out.append("\r\n");
  if (!bodiless && frame.body == BodyBytes::sent) out.append(response.body);
  return out;
}

std::string stream_head(const AnswerFrame& frame, std::string_view content_type) {
  std::string out = head(frame, 200);
  append_header(out, "Content-Type", content_type);
  append_header(out, "Cache-Control", "no-cache");
  append_header(out, "X-Accel-Buffering", "no");  // proxies that honour it pass each event on at once
  if (frame.version == Version::http_1_1) append_header(out, "Transfer-Encoding", "chunked");
  out.append("\r\n");
  return out;
}

void append_stream_bytes(std::string& out, Version version, std::string_view bytes) {
  if (bytes.empty()) return;  // a chunk of no bytes would be the end
  if (version == Version::http_1_0) {
    out.append(bytes);
    return;
  }
  std::array<char, 20> size{};
  const auto [end, error] = std::to_chars(size.data(), size.data() + size.size(), bytes.size(), 16);
  static_cast<void>(error);
  out.append(size.data(), end).append("\r\n").append(bytes).append("\r\n");
}

void append_stream_end(std::string& out, Version version) {
  if (version == Version::http_1_1) out.append("0\r\n\r\n");
}

}  // namespace vigil::http
