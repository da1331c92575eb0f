// The api's end of one request. It outlives the request harmlessly: once the answer is whole or the client gone, its calls do nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "server/api/channel.hpp"

namespace vigil::http {

class Session;

class RequestChannel final : public api::Channel {
 public:
  RequestChannel(std::weak_ptr<Session> session, uint64_t serial) : session_(std::move(session)), serial_(serial) {}
  ~RequestChannel() override;  // an unanswered request ends with internal_error
  RequestChannel(const RequestChannel&) = delete;
  RequestChannel& operator=(const RequestChannel&) = delete;

  void respond(api::Response response) override;
  void plan_stream(api::StreamPlan plan) override;
  void plan_later() override;
  void plan_whole() override;
  void write(std::string_view bytes) override;
  void finish() override;
  void fail(api::Response plain, std::string_view event) override;

  void detach() { session_.reset(); }

 private:
  std::weak_ptr<Session> session_;
  uint64_t serial_;
};

}  // namespace vigil::http
