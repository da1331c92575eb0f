// What fetching one URL needs and gives: the door between who wants pictures (fetching_encoder.hpp) and who has sockets (client.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "protocol/time.hpp"
#include "server/url/url.hpp"

namespace vigil::fetch {

struct Failure {
  enum class Kind : uint8_t { failed, no_room };  // no_room: vision.url_total_bytes are held
  Kind kind = Kind::failed;
  std::string reason;      // for the log alone: a client would learn from it what listens where
};

using Bytes = std::shared_ptr<const std::string>;
using Outcome = std::variant<Bytes, Failure>;
using FetchId = uint64_t;

class Fetching {
 public:
  virtual ~Fetching() = default;
  // `done` is called once, later, on the decision thread; never after cancel(). By `deadline` at the latest.
  virtual FetchId fetch(const url::Url& url, TimePoint deadline, std::function<void(Outcome)> done) = 0;
  virtual void cancel(FetchId id) = 0;              // what is over already does nothing
  virtual TimePoint now() const = 0;
};

}  // namespace vigil::fetch
