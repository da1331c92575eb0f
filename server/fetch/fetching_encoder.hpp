// The desk's EncoderPort in front of the vision child's: pictures that have an address are fetched first, so that a request waits for them in phase
// encoding, where leaving, cancelling and stopping end it as any other. A request's addresses are fetched one after another, within one limit
// for all of them. No Asio. Not here: sockets (client.hpp), which addresses are allowed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/time.hpp"
#include "server/fetch/fetching.hpp"
#include "server/turn/ports.hpp"
#include "server/turn/request.hpp"

namespace vigil::fetch {

class FetchingEncoder final : public turn::EncoderPort {
 public:
  struct Options {
    Duration limit = std::chrono::seconds(30);  // vision.url_s
    int64_t image_bytes = 0;                    // vision.image_bytes, for texts
  };
  using Hash = uint64_t (*)(std::string_view);

  using Failed = std::function<void(turn::RequestKey, const turn::RequestError&)>;  // Desk::encode_failed

  FetchingEncoder(Fetching& fetching, turn::EncoderPort& encoder, Failed failed, Hash hash, std::function<void(const std::string&)> log)
      : fetching_(fetching), encoder_(encoder), failed_(std::move(failed)), hash_(hash), log_(std::move(log)) {}
  ~FetchingEncoder() override;
  void set_options(const Options& options) { options_ = options; }

  void end_all(const turn::RequestError& error);  // there is no encoder any more: what is still fetched ends so

  void encode(turn::RequestKey key, const std::vector<turn::Picture>& pictures) override;
  void abandon(turn::RequestKey key) override;

 private:
  struct Waiting {
    std::vector<turn::Picture> pictures;
    TimePoint deadline;
    const turn::PictureAddress* awaited = nullptr;
  };
  struct Job {                              // one address, for every choice of its request
    std::shared_ptr<turn::PictureAddress> address;
    FetchId fetch = 0;
    std::vector<turn::RequestKey> waiting;
  };

  void go_on(turn::RequestKey key);
  void await(turn::RequestKey key, Waiting& waiting, const turn::Picture& picture);
  void came(const turn::PictureAddress* address, Outcome outcome);
  void refuse(turn::RequestKey key, const turn::PictureAddress& address, const Failure& failure);

  Fetching& fetching_;
  turn::EncoderPort& encoder_;
  Failed failed_;
  Hash hash_;
  std::function<void(const std::string&)> log_;
  Options options_;
  std::map<turn::RequestKey, Waiting> open_;
  std::map<const turn::PictureAddress*, Job> jobs_;
};

}  // namespace vigil::fetch
