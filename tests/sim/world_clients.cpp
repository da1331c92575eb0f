// Who asks the daemon for what, and when: requests, leavings of every kind, slow readers, the operator's orders.
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "tests/sim/world.hpp"

namespace vigil::sim {

using std::chrono::milliseconds;

class World::Sink final : public turn::ReplySink {
 public:
  Sink(World& world, Call& call) : world_(world), call_(call) {}
  void on_started(const std::vector<turn::TokenId>&) override {
    remember(1);
    world_.oracle_.started(call_);
  }
  turn::Verdict on_token(const protocol::Token& token) override {
    remember(static_cast<uint64_t>(token.id));
    if ((call_.throws_after && call_.tokens >= *call_.throws_after) || world_.plan_.at(Point::token)) {
      call_.threw = true;
      throw std::runtime_error("the sink failed");
    }
    return world_.oracle_.token(call_, token);
  }
  void on_end(const turn::Ending& ending) override {
    const auto* failed = std::get_if<turn::Failed>(&ending.how);
    remember(failed ? 100 + static_cast<uint64_t>(failed->error.code) : ending.how.index());
    if (failed && call_.encoding && world_.vision_) {
      world_.vision_->oracle().failed(call_.index, failed->error);
      world_.result_.unseen += failed->error.code == turn::ErrorCode::vision_unavailable || failed->error.code == turn::ErrorCode::image_invalid;
    }
    world_.oracle_.ended(call_, ending);
    if (world_.trace_ == Trace::off) return;
    world_.note("request " + std::to_string(call_.index) + " ends after " + std::to_string(call_.tokens) + " tokens: " +
                (failed ? std::string(turn::kind_of(failed->error.code).code) + ": " + failed->error.message
                        : std::holds_alternative<turn::Finished>(ending.how) ? "finished" : "cancelled"));
  }

 private:
  void remember(uint64_t what) {
    if (!call_.pictures.empty()) return;
    for (const uint64_t word : {static_cast<uint64_t>(call_.index), what, static_cast<uint64_t>(world_.clock_.now().time_since_epoch().count())}) {
      world_.result_.texts = (world_.result_.texts ^ word) * 0x100000001B3ull;
    }
  }
  World& world_;
  Call& call_;
};

World::~World() { desk_.reset(); }  // its last endings still go to the clients

void World::plan() {
  plan_clients();
  plan_orders();
  for (int64_t n = dice_.chance(35) ? dice_.between(1, 3) : 0; n > 0; --n) {
    const Freeze kind = dice_.chance(50) ? Freeze::daemon : Freeze::machine;
    clock_.in(milliseconds(dice_.between(100, 50000)), [this, kind] { freeze(kind); });
  }
  if (dice_.chance(10)) {
    clock_.in(milliseconds(dice_.between(100, 50000)), [this] {
      if (auto* engine = driver_->engine()) engine->crash("killed by signal 9 (SIGKILL)");
    });
  }
}

void World::plan_clients() {
  for (int64_t n = dice_.between(1, 14); n > 0; --n) {
    clock_.in(milliseconds(dice_.between(0, 45000)), [this] { post([this] { arrive(3, dice_.chance(40)); }); });
  }
  if (dice_.chance(25)) {
    // A crowd: one client with many requests, and others with few, at about the same time.
    const int64_t many = dice_.chance(30) ? dice_.between(20, 50) : dice_.between(3, 12);
    const int64_t begin = dice_.between(0, 40000);
    for (int64_t n = 0; n < many; ++n) clock_.in(milliseconds(begin + dice_.between(0, 300)), [this] { post([this] { arrive(1, false); }); });
    for (int64_t n = dice_.between(1, 4); n > 0; --n) clock_.in(milliseconds(begin + dice_.between(0, 900)), [this] { post([this] { arrive(5, false); }); });
  }
}

void World::plan_orders() {
  const auto some = [&](int percent, int64_t most, auto&& order) {
    for (int64_t n = dice_.chance(percent) ? dice_.between(1, most) : 0; n > 0; --n) later(0, 50000, order);
  };
  some(20, 3, [this] { load(); });
  some(20, 2, [this] { unload(); });
  some(15, 2, [this] { reload(); });
  some(20, 4, [this] { cancel_by_id(); });
  some(10, 2, [this] { change_model(); });
  some(12, 2, [this] { signal(); });  // in the middle of everything
}

void World::arrive(int clients, bool hasty) {
  auto call = std::make_unique<Call>();
  call->index = oracle_.calls().size();
  call->id = "r" + std::to_string(call->index);
  call->client = std::string("c") + static_cast<char>('0' + dice_.between(0, clients - 1));
  call->came = clock_.now();
  call->prompt = dice_.chance(3) ? 5000 : dice_.chance(2) ? 4090 : 8;
  call->max_new = dice_.chance(95) ? dice_.between(1, 20) : dice_.between(50, 100);
  if (dice_.chance(15)) {
    call->stops_after = dice_.between(1, 8);
    call->verdict = dice_.chance(50) ? turn::Verdict::stop : turn::Verdict::length;
  } else if (dice_.chance(2)) {
    call->throws_after = dice_.between(1, 8);
  }
  call->logprobs = dice_.chance(2);
  call->fingerprint = static_cast<uint64_t>(dice_.between(0, 6));
  call->vocabulary = driver_->vocabulary() - (dice_.chance(2) ? 1 : 0);  // made with the model before, perhaps
  const int64_t pictures = dice_.chance(has_pictures_ ? 45 : 2) && call->prompt == 8 ? dice_.between(1, dice_.chance(60) ? 2 : 4) : 0;
  call->encoding = pictures > 0;
  turn::Request request;
  request.id = call->id;
  request.client = call->client;
  request.stream = dice_.chance(50);
  request.prompt.assign(static_cast<size_t>(call->prompt), 7);
  request.prompt.front() = first_prompt_id + static_cast<protocol::TokenId>(call->index);
  request.max_new = call->max_new;
  if (call->logprobs) request.sampling.logprobs = 1;
  request.end_ids = {end_token};
  request.fingerprint = call->fingerprint;
  request.vocabulary = call->vocabulary;
  request.image_token = 3;
  request.pictures = this->pictures(*call, pictures);
  for (int64_t n = 0; n < pictures; ++n) request.prompt[static_cast<size_t>(1 + n)] = request.image_token;
  const bool stream = request.stream;
  if (trace_ == Trace::on) note("request " + std::to_string(call->index) + " of client " + call->client + " arrives");
  const auto view = desk_->snapshot(clock_.now());
  Call& made = oracle_.submit(std::move(call), static_cast<size_t>(pictures > 0 ? view.queued + view.encoding : view.queued));
  submitting_ = made.index;
  made.key = desk_->submit(std::move(request), std::make_unique<Sink>(*this, made), clock_.now());
  submitting_.reset();
  oracle_.submitted(made);
  const size_t index = made.index;
  if (hasty || dice_.chance(10)) {
    // A half-close shows itself by probes within 300 ms, or not at all; a plain answer's end of input counts at once.
    if (dice_.chance(30) && stream) later(0, 6000, [this, index] { end_input(index); });
    else later(0, dice_.chance(50) ? 6000 : 300, [this, index] { leave(index); });
  }
  if (dice_.chance(20)) later(0, 4000, [this, index] { block(index, 3); });
  if (dice_.chance(5)) later(0, 5000, [this, index] { cancel(index); });
}

void World::end_input(size_t index) {
  note("client " + std::to_string(index) + " ends its input");
  if (dice_.chance(50)) later(1, 300, [this, index] { leave(index); });
}

void World::leave(size_t index) {
  Call& call = *oracle_.calls()[index];
  note("client " + std::to_string(index) + " leaves");
  call.left = true;
  desk_->leave(call.key, clock_.now());
  if (call.endings != 1) fail("a client that left has no ending");
  if (dice_.chance(10)) desk_->leave(call.key, clock_.now());  // a finished key does nothing
}

void World::block(size_t index, int more) {
  Call& call = *oracle_.calls()[index];
  note("client " + std::to_string(index) + " stops reading");
  call.blocked = true;
  desk_->reader_blocked(call.key, clock_.now());
  if (dice_.chance(35)) return;
  later(10, 4000, [this, index, more] {
    note("client " + std::to_string(index) + " reads again");
    desk_->reader_ready(oracle_.calls()[index]->key, clock_.now());
    if (more > 0 && dice_.chance(50)) later(0, 1500, [this, index, more] { block(index, more - 1); });
  });
}

void World::change_model() {
  note("another model");
  driver_->set_vocabulary(driver_->vocabulary() + 1);
}

void World::cancel_by_id() {
  // Also ids of requests that are over, or that nobody has sent.
  cancel(static_cast<size_t>(dice_.between(0, static_cast<int64_t>(oracle_.calls().size()) + 1)));
}

void World::cancel(size_t index) {
  note("DELETE r" + std::to_string(index));
  Call* call = index < oracle_.calls().size() ? oracle_.calls()[index].get() : nullptr;
  const bool open = call && call->open();
  if (open) call->cancelled_by_api = true;
  if (!call) oracle_.cancelled_early("r" + std::to_string(index));
  const bool found = desk_->cancel("r" + std::to_string(index), clock_.now());
  if (found != open) fail("a cancel by id was answered wrongly");
  if (open && call->open()) fail("a cancel by id ended nothing");
}

}  // namespace vigil::sim
