// See client.hpp.
#include "server/fetch/client.hpp"

#include <utility>

#include <boost/asio/post.hpp>

#include "server/fetch/exchange.hpp"

namespace vigil::fetch {

Client::Client(boost::asio::io_context& io, Lookup lookup) : io_(io), resolver_(io, std::move(lookup)) {}

Client::~Client() {
  for (const auto& [id, open] : open_) open.exchange->stop();
}

void Client::set_options(ClientOptions options) {
  tls_ = options.allow->has_https() ? std::make_shared<TlsContext>() : nullptr;
  resolver_.set_limit(options.at_once);
  options_ = std::make_shared<const ClientOptions>(std::move(options));
  pump();
}

FetchId Client::fetch(const url::Url& url, TimePoint deadline, std::function<void(Outcome)> done) {
  const FetchId id = ++last_id_;
  Surroundings around{io_, resolver_, options_, tls_, held_bytes_};
  auto exchange = std::make_shared<Exchange>(std::move(around), url, deadline, [this, id](Outcome outcome) { finished(id, std::move(outcome)); });
  exchange->arm();  // the wait for a place counts too
  open_.emplace(id, Open{std::move(exchange), std::move(done)});
  waiting_.push_back(id);
  boost::asio::post(io_, [this, alive = std::weak_ptr<const bool>(alive_)] {  // not now: nothing may end before this returns
    if (alive.lock()) pump();
  });
  return id;
}

void Client::cancel(FetchId id) {
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  found->second.exchange->stop();
  open_.erase(found);
  running_.erase(id);
  std::erase(waiting_, id);
  pump();
}

void Client::pump() {
  while (!waiting_.empty() && running_.size() < options_->at_once) {
    const FetchId id = waiting_.front();
    waiting_.pop_front();
    running_.insert(id);
    const auto exchange = open_.at(id).exchange;
    boost::asio::post(io_, [exchange] { exchange->begin(); });  // which may end at once, and then calls in here again
  }
}

void Client::finished(FetchId id, Outcome outcome) {
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  const auto done = std::move(found->second.done);
  open_.erase(found);
  running_.erase(id);
  std::erase(waiting_, id);
  pump();
  done(std::move(outcome));
}

}  // namespace vigil::fetch
