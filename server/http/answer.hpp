// The bytes of an answer: heads, whole answers, chunks (RFC 9112). Pure. Not here: when they are sent (session).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/api/channel.hpp"
#include "server/http/request_parser.hpp"
#include "server/http/security.hpp"

namespace vigil::http {

enum class Connection : uint8_t { keep, close };
enum class BodyBytes : uint8_t { sent, left_out };  // left out for HEAD, with the same headers

// What a connection puts on every answer to one request.
struct AnswerFrame {
  Version version = Version::http_1_1;
  Connection connection = Connection::close;
  BodyBytes body = BodyBytes::sent;
  std::string request_id;
  HeaderList cors;
  std::string server;  // "vigil/0.1.0"
  std::string date;    // http_date()
};

std::string http_date(int64_t unix_seconds);  // "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110 section 5.6.7)

std::string whole_answer(const AnswerFrame& frame, const api::Response& response);
// The head of a stream: chunked for HTTP/1.1; a 1.0 client reads until the connection closes.
std::string stream_head(const AnswerFrame& frame, std::string_view content_type);
void append_stream_bytes(std::string& out, Version version, std::string_view bytes);  // nothing for no bytes
void append_stream_end(std::string& out, Version version);

}  // namespace vigil::http
