// Plays one seed. The daemon side is the product's own code; what is simulated is the event loop, the pipe, the process and the clients.
#include "tests/sim/world.hpp"

#include <algorithm>
#include <utility>

namespace vigil::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {
constexpr int32_t end_token = 2;
constexpr Duration faults_last = seconds(60);
constexpr Duration drain_bound = seconds(400);          // above every sum of limits that a request can meet
constexpr uint64_t step_bound = 200'000;                // a world that spins is a violation
}  // namespace

class World::Sink final : public turn::ReplySink {
 public:
  Sink(World& world, size_t index) : world_(world), index_(index) {}
  turn::Verdict on_token(const protocol::Token& token) override {
    Client& client = *world_.clients_[index_];
    if (client.endings != 0) world_.fail("a token after the ending of request " + std::to_string(index_));
    if (token.id == end_token) world_.fail("an end token was shown");
    ++client.tokens;
    return client.stops_after && client.tokens >= *client.stops_after ? turn::Verdict::stop : turn::Verdict::more;
  }
  void on_end(const turn::Ending& ending) override {
    Client& client = *world_.clients_[index_];
    if (++client.endings != 1) world_.fail("request " + std::to_string(index_) + " ended twice");
    if (ending.usage.generated != client.tokens) world_.fail("usage does not count the tokens that were seen");
    client.ending = ending;
    if (world_.trace_ == Trace::on) {
      const auto* failed = std::get_if<turn::Failed>(&ending.how);
      world_.note("request " + std::to_string(index_) + " ends after " + std::to_string(client.tokens) + " tokens: " +
                  (failed ? std::string(turn::kind_of(failed->error.code).code) + ": " + failed->error.message
                          : std::holds_alternative<turn::Finished>(ending.how) ? "finished" : "cancelled"));
    }
  }

 private:
  World& world_;
  size_t index_;
};

World::World(uint64_t seed, Trace trace) : seed_(seed), trace_(trace), dice_(seed * 0x2545F4914F6CDD1Dull + 1) {
  limits_.exec = milliseconds(dice_.between(500, 2000));
  limits_.ready = milliseconds(dice_.between(4500, 9000));
  limits_.load_max = milliseconds(dice_.between(20000, 40000));
  limits_.silence = milliseconds(dice_.between(5000, 12000));
  limits_.stall = milliseconds(dice_.between(2000, 4500));
  limits_.step = milliseconds(dice_.between(1500, 4000));
  limits_.cancel = milliseconds(dice_.between(1000, 4000));
  limits_.stop = milliseconds(dice_.between(500, 2000));
  limits_.backoff_first = milliseconds(500);
  limits_.backoff_max = seconds(5);
  limits_.eager = dice_.chance(50);
  desk_limits_.queue_limit = static_cast<size_t>(dice_.between(1, 6));
  desk_limits_.queue_wait = milliseconds(dice_.between(3000, 20000));
  desk_limits_.queue_warn = seconds(10);
  desk_limits_.slow_reader_wait = milliseconds(dice_.between(500, 3000));
  conductor_ = std::make_unique<process::Conductor>(limits_, *this);
  turn::DeskObserver observer;
  observer.gauges = [this](int64_t running, int64_t queued) {
    gauge_running_ = running;
    gauge_queued_ = queued;
    if (running < 0 || queued < 0) fail("a gauge below 0");
  };
  observer.log = [this](const std::string& line) { note("desk: " + line); };
  desk_ = std::make_unique<turn::Desk>(desk_limits_, *conductor_, std::move(observer));
  conductor_->attach(*desk_);
}

World::~World() { desk_.reset(); }  // its last endings still go to the clients

// ---- the world goes on

WorldResult World::run() {
  plan_clients();
  if (limits_.eager) clock_.in(milliseconds(0), [this] { conductor_->load(false); });
  if (dice_.chance(30)) clock_.in(milliseconds(dice_.between(100, 50000)), [this] { freeze(); });
  const TimePoint calm = clock_.now() + faults_last;
  const bool shuts_down_early = dice_.chance(30);
  clock_.at(calm, [this, shuts_down_early] {
    faults_over_ = true;
    if (shuts_down_early) shut_down();
  });
  while (!result_.violation && !clock_.empty() && clock_.next() <= calm + drain_bound) {
    clock_.run_one();
    if (++result_.steps > step_bound) fail("the world spins");
    check();
    arm_timer();
    if (faults_over_ && !closed_ && desk_->idle()) break;
  }
  if (!result_.violation) check_end();
  const auto totals = desk_->snapshot(clock_.now());
  result_.served = totals.served;
  result_.failed = totals.failed;
  result_.cancelled = totals.cancelled;
  result_.rejected = totals.rejected;
  return std::move(result_);
}

void World::plan_clients() {
  for (int64_t n = dice_.between(1, 12); n > 0; --n) clock_.in(milliseconds(dice_.between(0, 45000)), [this] { arrive(); });
}

void World::arrive() {
  daemon_event(0, [this] {
    const size_t index = clients_.size();
    auto client = std::make_unique<Client>();
    client->came = clock_.now();
    if (dice_.chance(15)) client->stops_after = dice_.between(1, 8);
    clients_.push_back(std::move(client));
    turn::Request request;
    request.id = "r" + std::to_string(index);
    request.client = std::string("c") + static_cast<char>('0' + dice_.between(0, 2));
    request.stream = dice_.chance(50);
    request.prompt.assign(static_cast<size_t>(dice_.chance(3) ? 5000 : 8), 7);
    request.max_new = dice_.between(1, 20);
    request.end_ids = {end_token};
    request.fingerprint = static_cast<uint64_t>(dice_.between(0, 30));
    note("request " + std::to_string(index) + " arrives");
    clients_[index]->key = desk_->submit(std::move(request), std::make_unique<Sink>(*this, index), clock_.now());
    if (dice_.chance(35)) clock_.in(milliseconds(dice_.between(0, 6000)), [this, index] { client_leaves(index); });
    if (dice_.chance(15)) clock_.in(milliseconds(dice_.between(0, 4000)), [this, index] { client_blocks(index); });
  });
}

void World::client_leaves(size_t index) {
  daemon_event(0, [this, index] {
    note("client " + std::to_string(index) + " leaves");
    const bool was_open = clients_[index]->endings == 0;
    const bool ran = was_open && running("r" + std::to_string(index));
    const auto& ready = conductor_->child().ready();
    const uint64_t stops = stops_written_;
    clients_[index]->left = true;
    desk_->leave(clients_[index]->key, clock_.now());
    const uint64_t written = stops_written_ - stops;
    if (ran && ready && ready->stop && written != 1 && !erring()) fail("a client left a running request and " + std::to_string(written) + " STOPs were written");
    if (!ran && written != 0) fail("STOP for a request that did not run");
    if (clients_[index]->endings != 1) fail("a client that left has no ending");
    if (was_open && clients_[index]->ending && !std::holds_alternative<turn::Cancelled>(clients_[index]->ending->how)) {
      fail("a request whose client left was not counted as cancelled");
    }
  });
}

bool World::running(const std::string& id) const {
  for (const auto& one : desk_->snapshot(clock_.now()).active) {
    if (one.id == id) return one.phase == turn::Phase::prefill || one.phase == turn::Phase::decoding;
  }
  return false;
}

// A lease that said ERR is over for the engine: it is not sent STOP.
bool World::erring() const { return last_error_ && clock_.now() - *last_error_ <= milliseconds(200); }

void World::client_blocks(size_t index) {
  daemon_event(0, [this, index] {
    note("client " + std::to_string(index) + " stops reading");
    desk_->reader_blocked(clients_[index]->key, clock_.now());
    if (dice_.chance(50)) {
      clock_.in(milliseconds(dice_.between(10, 4000)), [this, index] {
        daemon_event(0, [this, index] { desk_->reader_ready(clients_[index]->key, clock_.now()); });
      });
    }
  });
}

void World::freeze() {
  frozen_until_ = clock_.now() + milliseconds(dice_.between(300, 12000));
  note("the daemon stands still");
  clock_.at(*frozen_until_, [this] {
    frozen_until_.reset();
    last_thaw_ = clock_.now();
    note("the daemon turns again");
    // The worst order: a timer that came due meanwhile is looked at first; it must drain the pipe before it judges.
    if (timer_ && *timer_ <= clock_.now()) on_timer();
    deliver_held();
  });
}

void World::shut_down() {
  daemon_event(0, [this] {
    note("the daemon shuts down");
    closed_ = true;
    desk_->close(clock_.now());
    desk_->end_running({turn::ErrorCode::shutting_down, "the server is shutting down", "", 5}, clock_.now());
    conductor_->unload(supervise::Trouble::shutting_down, dice_.chance(50));
  });
}

// ---- the event loop

void World::daemon_event(uint64_t generation, std::function<void()> what) {
  if (frozen_until_ || (reading_paused_ && generation != 0)) {
    held_.emplace_back(generation, std::move(what));
    return;
  }
  if (generation == 0 || generation == generation_) what();
}

void World::deliver_held() {
  // Client events and, unless reading is paused, the pipe; in order.
  auto waiting = std::move(held_);
  held_.clear();
  for (auto& [generation, what] : waiting) daemon_event(generation, std::move(what));
}

void World::drain_pipe() {
  auto waiting = std::move(held_);
  held_.clear();
  for (auto& [generation, what] : waiting) {
    if (generation == 0 || reading_paused_) {
      held_.emplace_back(generation, std::move(what));
    } else if (generation == generation_) {
      what();
    }
  }
}

void World::arm_timer() {
  auto first = conductor_->deadline();
  if (const auto other = desk_->deadline()) first = first ? std::min(*first, *other) : other;
  if (first == timer_) return;
  timer_ = first;
  const uint64_t epoch = ++timer_epoch_;
  if (!timer_) return;
  clock_.at(*timer_, [this, epoch] {
    if (epoch == timer_epoch_ && !frozen_until_) on_timer();
  });
}

void World::on_timer() {
  if (!timer_) return;
  const Duration late = clock_.now() - *timer_;
  timer_.reset();
  ++timer_epoch_;
  drain_pipe();
  conductor_->due(late > milliseconds(250) ? late : Duration::zero());
  desk_->tick(clock_.now());
}

void World::run_soon() {
  if (soon_) return;
  soon_ = true;
  clock_.in(Duration::zero(), [this] {
    soon_ = false;
    conductor_->run_pending();
  });
}

// ---- Hands

void World::spawn(supervise::Generation generation) {
  if (engine_ && !engine_->tree_empty()) fail("a process was started while the one before still lived");
  generation_ = generation;
  reading_paused_ = false;
  const Script script = faults_over_ ? Script::healthy(dice_) : Script::draw(dice_);
  note("spawn " + std::to_string(generation));
  EngineEvents events;
  events.line = [this, generation](std::string line) {
    daemon_event(generation, [this, line = std::move(line)] {
      note("> " + line);
      if (line.find("ERR") != std::string::npos) last_error_ = clock_.now();
      if (line[0] == '@' && line.find(" DONE") != std::string::npos) finished_tags_.insert(std::stoull(line.substr(1)));
      conductor_->stdout_line(line, false);
    });
  };
  events.output_closed = [this, generation] { daemon_event(generation, [this] { conductor_->stdout_closed(); }); };
  events.exited = [this, generation](std::string how) {
    // The driver drains the pipe before it reports the exit, paused or not.
    const bool paused = std::exchange(reading_paused_, false);
    daemon_event(generation, [this, paused, how] {
      if (paused) deliver_held();
      note("exit: " + how);
      conductor_->exited(how);
    });
  };
  events.spawned = [this, generation](int64_t pid) { daemon_event(generation, [this, pid] { conductor_->spawned(pid); }); };
  events.spawn_failed = [this, generation](std::string why) { daemon_event(generation, [this, why] { conductor_->spawn_failed(why); }); };
  events.tree_changed = [this, generation] {
    clock_.in(milliseconds(1), [this, generation] {
      daemon_event(generation, [this] {
        if (engine_->tree_empty() && conductor_->child().state() == supervise::ChildState::stopping) conductor_->tree_empty();
      });
    });
  };
  events.violation = [this](const std::string& what) { fail(what); };
  if (engine_) graveyard_.push_back(engine_);
  engine_ = std::make_shared<Engine>(clock_, dice_, script, generation, end_token, std::move(events));
  engine_->begin();
}

void World::terminate() {
  note("TERM");
  engine_->terminate();
  if (engine_->tree_empty()) kill();
}

void World::kill() {
  note("KILL");
  const auto generation = generation_;
  engine_->kill();
  clock_.in(milliseconds(1), [this, generation] {
    daemon_event(generation, [this] {
      if (engine_->tree_empty() && conductor_->child().state() == supervise::ChildState::stopping) conductor_->tree_empty();
    });
  });
}

void World::write(std::string line) {
  note("< " + line.substr(0, line.size() - 1));
  if (line.starts_with("STOP")) ++stops_written_;
  if (line.starts_with("STOP ") && finished_tags_.count(std::stoull(line.substr(5))) != 0) fail("STOP after the DONE of a request was read");
  engine_->receive(line);
}

void World::pause_reading(bool paused) {
  reading_paused_ = paused;
  note(paused ? "reading pauses" : "reading goes on");
  last_thaw_ = clock_.now();
  if (!paused) clock_.in(Duration::zero(), [this] { if (!frozen_until_) deliver_held(); });
}

supervise::TreeUsage World::usage() { return engine_->usage(); }

void World::state_changed() {
  note("engine " + std::string(supervise::to_string(conductor_->child().state())) + (conductor_->child().reason().empty() ? "" : ": " + conductor_->child().reason()));
}

void World::killed(supervise::Trouble why) {
  if (why != supervise::Trouble::stalled && why != supervise::Trouble::silent) return;
  if (engine_->healthy()) fail("a healthy engine was accused of hanging: " + conductor_->child().reason());
  if (why == supervise::Trouble::stalled && engine_->spinning() && !engine_->beats()) fail("an engine that burns CPU was called stalled");
}

// ---- invariants

void World::check() {
  if (result_.violation || soon_ || frozen_until_) return;
  const auto view = desk_->snapshot(clock_.now());
  if (view.running != gauge_running_ || view.queued != gauge_queued_) fail("the gauges differ from the status");
  if (static_cast<int64_t>(view.active.size()) != view.running + view.queued + view.loading) fail("the status lists other requests than it counts");
  const auto deadline = conductor_->deadline();
  if (view.loading > 0 && !deadline) fail("a request waits for a load that nobody bounds");
  if (view.running > 0 && !deadline && !desk_->deadline()) fail("a request runs without a timer");
  if (conductor_->child().state() == supervise::ChildState::backoff && view.loading + view.queued > 0) fail("a request waits through a back-off");
  if (engine_ && conductor_->child().state() == supervise::ChildState::ready && !reading_paused_ &&
      clock_.now() - last_thaw_ > seconds(5) && engine_->overran() > 10) fail("an engine went on past its answer and was not stopped");
  if (view.queued > 0 && view.running == 0) fail("a request is queued although nothing runs");
  uint64_t open = 0;
  for (const auto& client : clients_) {
    if (client->endings != 0) continue;
    ++open;
    if (clock_.now() - client->came > drain_bound) fail("a request has been open for too long");
  }
  if (view.served + view.failed + view.cancelled + view.rejected + open != clients_.size()) fail("the totals do not add up");
}

void World::check_end() {
  for (size_t index = 0; index < clients_.size(); ++index) {
    if (clients_[index]->endings != 1) fail("request " + std::to_string(index) + " has " + std::to_string(clients_[index]->endings) + " endings");
  }
  if (!desk_->idle()) fail("the desk did not drain");
  if (gauge_running_ != 0 || gauge_queued_ != 0) fail("a gauge is not 0 after the drain");
  if (closed_ && conductor_->child().state() != supervise::ChildState::unloaded) fail("the engine did not stop with the daemon");
  if (closed_ && engine_ && !engine_->tree_empty()) fail("a process was left over");
}

void World::fail(const std::string& what) {
  if (!result_.violation) result_.violation = "seed " + std::to_string(seed_) + ": " + what;
  note("VIOLATION: " + what);
}

void World::note(const std::string& what) {
  if (trace_ == Trace::off) return;
  const double at = vigil::seconds(clock_.now().time_since_epoch()) - 3600;
  char stamp[32];
  std::snprintf(stamp, sizeof stamp, "%9.3f  ", at);
  result_.trace.push_back(stamp + what);
}

}  // namespace vigil::sim
