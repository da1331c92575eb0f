// The channel hands everything to its session, which knows whether this request is still the one that it answers.
#include "server/http/request_channel.hpp"

#include "server/http/session.hpp"

namespace vigil::http {

RequestChannel::~RequestChannel() {
  if (const auto session = session_.lock()) session->channel_dropped(serial_);
}

void RequestChannel::respond(api::Response response) {
  if (const auto session = session_.lock()) session->channel_respond(serial_, std::move(response));
}

void RequestChannel::plan_stream(api::StreamPlan plan) {
  if (const auto session = session_.lock()) session->channel_plan(serial_, std::move(plan));
}

void RequestChannel::plan_later() {
  if (const auto session = session_.lock()) session->channel_plan_later(serial_);
}

void RequestChannel::plan_whole() {
  if (const auto session = session_.lock()) session->channel_plan_whole(serial_);
}

void RequestChannel::write(std::string_view bytes) {
  if (const auto session = session_.lock()) session->channel_write(serial_, bytes);
}

void RequestChannel::finish() {
  if (const auto session = session_.lock()) session->channel_finish(serial_);
}

void RequestChannel::fail(api::Response plain, std::string_view event) {
  if (const auto session = session_.lock()) session->channel_fail(serial_, std::move(plain), event);
}

}  // namespace vigil::http
