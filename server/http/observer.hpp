// What the server tells the daemon's log. Any function may be empty.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace vigil::http {

struct AccessRecord {
  std::string request_id, method, path, client;
  int status = 0;          // 0 = the client left before an answer began
  uint64_t bytes = 0;      // of the answer, as written to the buffer
  double seconds = 0;      // from the head to the end of the answer
  bool stream = false;
  bool left = false;       // the client left before the end
};

struct ServerObserver {
  std::function<void(const AccessRecord&)> finished;
  std::function<void(const std::string& line)> warning;  // connection level: descriptors short, client dropped
  std::function<void(const std::string& line)> fault;    // a bug of ours, with the request id
};

}  // namespace vigil::http
