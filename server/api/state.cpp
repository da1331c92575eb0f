// See state.hpp.
#include "server/api/state.hpp"

namespace vigil::api {

void Flow::fail(const ErrorFacts& error) {
  if (ended) return;
  ended = true;
  Response plain = error_shape(error);
  if (stream) {
    channel->fail(std::move(plain), format ? format->failed(error) : openai_error_event(error));
  } else {
    channel->respond(std::move(plain));
  }
}

std::string ApiState::new_reply_id(std::string_view prefix) {
  constexpr std::string_view alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  constexpr int characters = 24;
  std::string id(prefix);
  std::uniform_int_distribution<size_t> pick(0, alphabet.size() - 1);
  for (int i = 0; i < characters; ++i) id += alphabet[pick(random)];
  return id;
}

std::string ApiState::new_call_id() {
  constexpr std::string_view alphabet = "0123456789abcdef";
  constexpr int words = 4, digits = 8;  // of 32 bits each: the system's own randomness, so that no two lives of the daemon meet
  std::random_device device;
  std::string id = "call_";
  for (int word = 0; word < words; ++word) {
    uint32_t bits = device();
    for (int digit = 0; digit < digits; ++digit, bits >>= 4) id += alphabet[bits & 15];
  }
  return id;
}

void respond_json(Channel& channel, std::string body, int status) {
  Response response;
  response.status = status;
  response.body = std::move(body);
  channel.respond(std::move(response));
}

void respond_error(Channel& channel, const turn::RequestError& error) { channel.respond(error_response(error)); }

turn::RequestError internal_error(const std::string& request_id, std::string_view what) {
  return {turn::ErrorCode::internal_error,
          "The server failed on this request (" + request_id + "): " + std::string(what) +
              ". This is a fault of the server; please report it.",
          "", 1};
}

turn::RequestError shutting_down_error() { return {turn::ErrorCode::shutting_down, "the server is shutting down", "", 5}; }

Api::Api(Surroundings surroundings) : state_(std::make_shared<ApiState>(std::move(surroundings))) {}
Api::~Api() = default;

void Api::close() {
  state_->closed = true;
  for (const auto& flow : std::exchange(state_->preparing, {}))
    if (!flow->left) flow->fail(shutting_down_error());
}

const Surroundings& Api::surroundings() const { return state_->surroundings; }

}  // namespace vigil::api
