// One HTTP/1.x request from bytes: head first, then the body, each under its cap. Untrusted input (RFC 9112).
// Not here: whether the request is allowed (gate), sockets, time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/turn/error.hpp"

namespace vigil::http {

enum class Version : uint8_t { http_1_0, http_1_1 };

struct RequestHead {
  std::string method;
  std::string target;                                        // as sent
  Version version = Version::http_1_1;
  std::vector<std::pair<std::string, std::string>> fields;   // names in lower case, in order of arrival
  std::optional<uint64_t> content_length;                    // bytes, the client's claim
  bool chunked = false;
  bool keep_alive = true;

  std::string_view field(std::string_view lower_case_name) const;  // the first of that name, else empty
  size_t count(std::string_view lower_case_name) const;
  bool has_body() const { return chunked || content_length.value_or(0) > 0; }
  bool expects_continue() const;
};

class RequestParser {
 public:
  enum class Progress : uint8_t { need_more, head_complete, complete, failed };

  explicit RequestParser(size_t header_bytes);  // http.header_bytes
  ~RequestParser();
  RequestParser(RequestParser&&) noexcept;
  RequestParser& operator=(RequestParser&&) noexcept;

  // Takes bytes and says how many of them it used up; the rest belongs to what follows and must be offered again.
  size_t feed(std::string_view bytes);
  Progress progress() const;
  // Goes on past the head; body_bytes caps what arrives, not what is claimed (0 = no cap).
  void read_body(size_t body_bytes);

  const RequestHead& head() const;               // from head_complete on
  size_t body_size() const;                      // bytes that have arrived
  std::string take_body();
  const turn::RequestError& failure() const;     // when failed; the connection cannot be used further

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vigil::http
