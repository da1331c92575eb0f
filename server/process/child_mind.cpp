// See child_mind.hpp. Everything runs through one queue, so that the desk is never entered from inside itself.
#include "server/process/child_mind.hpp"

#include <iterator>
#include <utility>

namespace vigil::process {

namespace event = supervise::event;
namespace effect = supervise::effect;

void ChildMind::run() {
  if (running_) return;
  running_ = true;
  do {
    while (!pending_.empty()) {
      const auto next = std::move(pending_.front());
      pending_.pop_front();
      if (const auto* what = std::get_if<supervise::Event>(&next)) {
        // The effects of an event come before whatever was queued behind it.
        auto effects = child_.step(*what, hands_.now());
        pending_.insert(pending_.begin(), std::make_move_iterator(effects.begin()), std::make_move_iterator(effects.end()));
      } else {
        act(std::get<supervise::Effect>(next));
      }
    }
    settle();
  } while (!pending_.empty());
  running_ = false;
}

void ChildMind::act(const supervise::Effect& what) {
  if (const auto* spawn = std::get_if<effect::Spawn>(&what)) {
    started_at_ = hands_.now();
    before_spawn();
    hands_.started();
    hands_.spawn(spawn->generation);
  } else if (std::holds_alternative<effect::Terminate>(what)) {
    hands_.terminate();
  } else if (std::holds_alternative<effect::Kill>(what)) {
    hands_.kill();
  } else if (std::holds_alternative<effect::SampleUsage>(what)) {
    give(event::Usage{hands_.usage()});
  } else if (std::holds_alternative<effect::StateChanged>(what)) {
    if (child_.state() == supervise::ChildState::ready && loaded_ != child_.generation()) {
      loaded_ = child_.generation();
      hands_.loaded(seconds(hands_.now() - started_at_));
    }
    state_told();
    hands_.state_changed();
    state_settled();
  } else if (const auto* failed = std::get_if<effect::LoadFailed>(&what)) {
    load_failed(*failed);
  } else if (const auto* loss = std::get_if<effect::Lost>(&what)) {
    lost(*loss);
  } else if (const auto* gone = std::get_if<effect::LeaseForgotten>(&what)) {
    forgotten(*gone);
  } else if (const auto* killed = std::get_if<effect::Killed>(&what)) {
    hands_.killed(killed->why);
  } else if (const auto* log = std::get_if<effect::Log>(&what)) {
    hands_.log(log->text);
  }
}

void ChildMind::judge_if_due() {
  const auto deadline = child_.deadline();
  if (!deadline || *deadline > hands_.now()) return;
  if (child_.state() == supervise::ChildState::ready) give(event::Usage{hands_.usage()});
  give(event::Due{});
  run();
}

std::string ChildMind::with_last_words(std::string text) const {
  const std::string own = own_last_words();
  const std::string words = own.empty() ? hands_.last_words() : own;
  if (!words.empty()) text += "; its last words: " + words;
  return text;
}

std::string ChildMind::failure_text(const effect::LoadFailed& failed) const {
  return failed.why == supervise::Trouble::not_ready ? with_last_words(failed.text) : failed.text;
}

// ---- happenings

void ChildMind::spawned(int64_t pid) {
  give(event::Spawned{pid});
  run();
}

void ChildMind::spawn_failed(const std::string& reason) {
  give(event::SpawnFailed{reason});
  run();
}

void ChildMind::stderr_output() {
  give(event::StderrOutput{});
  run();
}

void ChildMind::stdout_closed() {
  give(event::StdoutClosed{});
  run();
}

void ChildMind::exited(const std::string& how) {
  give(event::Exited{with_last_words(how)});
  run();
}

void ChildMind::tree_empty() {
  give(event::TreeEmpty{});
  run();
}

void ChildMind::late(Duration by) {
  give(event::Late{by});
  run();
}

}  // namespace vigil::process
