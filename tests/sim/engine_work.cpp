// The request half of the scripted engine: commands, tokens, and everything that can go wrong between a GEN and its DONE.
#include <utility>

#include "tests/sim/engine.hpp"

namespace vigil::sim {

using std::chrono::milliseconds;

void Engine::receive(const protocol::EngineCommand& command) {
  if (!leader_) return;  // the pipe of a dead process
  // In order, because the delay is the same for all.
  later(script_.reads_after, [this, command] {
    if (const auto* stop_order = std::get_if<protocol::Stop>(&command)) return stop(stop_order->request);
    if (const auto* order = std::get_if<protocol::Generate>(&command)) return generate(*order);
  });
}

void Engine::generate(const protocol::Generate& order) {
  if (frozen_) return;
  size_t running = 0;
  for (const auto& [key, job] : open_) running += job.done ? 0 : 1;
  if (!script_.ids && running > 0) host_.on_violation("GEN while an untagged one is open");
  if (script_.ids && running >= static_cast<size_t>(script_.slots)) host_.on_violation("more requests than slots");
  if (script_.ids != order.request.has_value()) host_.on_violation("req= does not fit READY");
  const uint64_t key = order.request ? *order.request : next_key_++;
  Work job;
  job.generate = order;
  job.index = static_cast<size_t>(order.ids.front() - first_prompt_id);
  job.answer = script_.answers[std::min(requests_++, script_.answers.size() - 1)];
  const bool beats = script_.beat_ms > 0;
  if (!beats && (job.answer == Answer::loses_beats || job.answer == Answer::step_stands_still || job.answer == Answer::forgets)) job.answer = Answer::goes_silent;
  if (!beats && job.answer == Answer::step_reads_for_ever) job.answer = Answer::spins_silently;
  if (!script_.ids && job.answer == Answer::late_lines) job.answer = Answer::stray_done;
  if (static_cast<int>(job.answer) >= first_bad_answer) healthy_ = false;
  open_.insert_or_assign(key, std::move(job));
  if (beats && !beating_) {
    beating_ = true;
    beat();
  }
  work(key);
}

void Engine::beat() {
  if (open_.empty() || frozen_ || beats_lost_) {
    beating_ = false;
    return;
  }
  std::string line = "BEAT step=" + std::to_string(steps_);
  if (script_.accounts) {
    line += " active=";
    // An engine without tags counts its requests by itself: any number says that it works.
    for (const auto& [key, job] : open_) {
      if (!job.forgotten) line += (line.back() == '=' ? "" : ",") + std::to_string(key);
    }
  }
  print(line);
  later(milliseconds(script_.beat_ms), [this] { beat(); });
}

void Engine::work(uint64_t key) {
  Work& job = open_.at(key);
  ++steps_;
  set_work(job, true, false);
  if (script_.resumes) print("RESUME " + std::to_string(std::min<size_t>(3, job.generate.ids.size())), key);
  switch (job.answer) {
    case Answer::ends_at_once: return later(script_.token_every, [this, key] { finish(key, "stop"); });
    case Answer::slow_prefill: return prefill(key);
    // A step that stands still while it reads from disk is no stall before stall_s, and beats show it late; other work moves its step.
    case Answer::quiet_prefill:
      if (script_.beat_ms > 0 && script_.beat_ms <= 500 && dice_.chance(60)) return quiet(key, milliseconds(1700), false);
      return quiet(key, milliseconds(dice_.between(2500, 3900)), true);
    case Answer::announced_wait:
      print("SWAIT weights " + std::to_string(dice_.between(5, 60)), key);
      return quiet(key, milliseconds(dice_.between(5500, 8000)), true);
    default: later(script_.token_every, [this, key] { step(key); });
  }
}

// At work and quiet. With beats the step moves, or it stands still for a moment and reads from disk.
void Engine::quiet(uint64_t key, Duration length, bool steps) {
  const auto found = open_.find(key);
  if (found == open_.end() || frozen_) return;
  if (!steps) {
    set_work(found->second, true, true);
  } else if (script_.beat_ms > 0) {
    for (Duration at = milliseconds(100); at < length; at += milliseconds(100)) {
      later(at, [this, key] { steps_ += open_.count(key); });
    }
  }
  later(length, [this, key] {
    const auto job = open_.find(key);
    if (job == open_.end() || frozen_) return;
    ++steps_;
    set_work(job->second, true, false);
    later(script_.token_every, [this, key] { step(key); });
  });
}

void Engine::prefill(uint64_t key) {
  for (int n = 1; n <= 8; ++n) {
    later(n * milliseconds(900), [this, key, n] {
      if (open_.count(key) == 0 || frozen_) return;
      ++steps_;
      print("PP " + std::to_string(n) + " 8 1 1", key);
      if (n == 8) later(script_.token_every, [this, key] { step(key); });
    });
  }
}

void Engine::step(uint64_t key) {
  const auto found = open_.find(key);
  if (found == open_.end() || frozen_) return;
  Work& job = found->second;
  if (fault(key, job)) return;
  ++steps_;
  const bool end = job.produced >= job.generate.max_new;
  if (end && job.answer != Answer::too_many) return finish(key, "length");
  if (job.produced + 1 >= tokens_a_request) return give_up(key);
  ++job.produced;
  print("T " + std::to_string(token_of(job.index, job.produced)), key);
  later(script_.token_every, [this, key] { step(key); });
}

bool Engine::fault(uint64_t key, Work& job) {
  if (job.produced < script_.fault_after) return false;
  const auto hang = [&](bool computes) {
    set_work(job, computes, false);
    return true;
  };
  switch (job.answer) {
    case Answer::goes_silent: frozen_ = true; return hang(false);
    case Answer::spins_silently:
      account();
      frozen_ = spinning_ = true;
      return hang(true);
    case Answer::only_chatters:
      chatter(milliseconds(700));
      return hang(false);
    case Answer::only_informs:
      repeat(key, milliseconds(700), "INFO context=4096", false);
      return hang(true);
    case Answer::prefill_stands_still:
      repeat(key, milliseconds(700), "PP 4 8 1 1", true);
      return hang(true);
    case Answer::waits_again:
      repeat(key, milliseconds(700), "SWAIT weights 1000", true);
      return hang(true);
    case Answer::step_stands_still: return hang(true);
    case Answer::step_reads_for_ever: set_work(job, true, true); return true;
    case Answer::forgets:
      // It turns on without it, and would answer a STOP with nothing.
      job.forgotten = job.done = true;
      for (int n = 1; n < 600; ++n) later(n * milliseconds(100), [this] { ++steps_; });
      return hang(true);
    case Answer::loses_beats: beats_lost_ = true; return hang(true);
    case Answer::says_err:
      print("ERR bad request", key);
      give_up(key);
      return true;
    case Answer::says_err_and_exits:
      print("ERR out of memory", key);
      later(milliseconds(dice_.between(1, 400)), [this] { die("exited with status 1"); });
      give_up(key);
      return true;
    case Answer::says_err_and_babbles:
      print("ERR bad request", key);
      job.done = true;  // for whatever comes next
      babble(key, 3);
      return true;
    case Answer::says_fatal:
    case Answer::says_fatal_and_exits:
      print("FATAL device lost");
      if (job.answer == Answer::says_fatal_and_exits) later(milliseconds(dice_.between(0, 400)), [this] { die("exited with status 7"); });
      while (!open_.empty()) give_up(open_.begin()->first);  // it ends whatever runs, and does nothing more
      frozen_ = true;
      return true;
    case Answer::crashes: die("killed by signal 11 (SIGSEGV)"); return true;
    case Answer::exits_zero: die("exited with status 0"); return true;
    case Answer::half_line:
      print_bytes("T 12");
      die("killed by signal 6 (SIGABRT)");
      return true;
    case Answer::garbage: garbage(key); return false;
    case Answer::closes_output:
      close_output();
      return hang(false);
    case Answer::past_end_token:
    case Answer::ends_by_token:
      if (job.produced == script_.fault_after && !job.done) {
        print("T " + std::to_string(end_token), key);
        if (job.answer == Answer::past_end_token) {
          job.done = false;
        } else {
          later(milliseconds(dice_.between(0, 300)), [this, key] { finish(key, "stop"); });
          return true;
        }
      }
      return false;
    case Answer::cancels_unasked: finish(key, "cancel"); return true;
    default: return false;
  }
}

void Engine::garbage(uint64_t key) {
  switch (dice_.between(0, 5)) {
    case 0: return print("\xFF\xFE garbage");
    case 1: return print("T x", key);
    case 2: return print("DONE", key);
    case 3: return print(std::string(5000, 'x'));           // over the cap
    case 4: return print_bytes(std::string("T \0 5\n", 6)); // a NUL
    default: return print("@987654 T 5");                   // for a request that nobody knows
  }
}

// The same line again and again, while its request is open.
void Engine::repeat(uint64_t key, Duration every, const std::string& text, bool tagged) {
  if (key != 0 && open_.count(key) == 0) return;
  if (tagged) print(text, key);
  else print(text);
  later(every, [=, this] { repeat(key, every, text, tagged); });
}

// Goes on about a request that said ERR, then forgets it. Untagged it must not go on into the next one.
void Engine::babble(uint64_t key, int64_t tokens) {
  const auto found = open_.find(key);
  if (found == open_.end()) return;
  Work& job = found->second;
  if (tokens == 0 || (!script_.ids && tokens < 3)) {
    if (script_.ids) print("DONE " + std::to_string(job.produced) + " 8 10 10 stop", key);
    return give_up(key);
  }
  ++job.produced;
  print("T " + std::to_string(token_of(job.index, job.produced)), key);
  later(milliseconds(40), [this, key, tokens] { babble(key, tokens - 1); });
}

void Engine::give_up(uint64_t key) {
  const auto found = open_.find(key);
  if (found == open_.end()) return;
  set_work(found->second, false, false);
  open_.erase(found);
}

void Engine::finish(uint64_t key, const std::string& how) {
  const auto found = open_.find(key);
  if (found == open_.end() || frozen_) return;
  const Work job = found->second;
  give_up(key);
  const std::string done = "DONE " + std::to_string(job.produced) + " 8 10 10 " + how;
  print(done, key);
  if (job.answer == Answer::stray_done && job.produced > 0) {
    if (!unprinted_.empty()) host_.on_output(std::exchange(unprinted_, {}));
    host_.on_output((script_.ids ? "@" + std::to_string(key) + " " : std::string()) + done + "\n");
  }
  if (job.answer == Answer::late_lines) {
    later(milliseconds(dice_.between(1, 800)), [this, key, job, done] {
      print("T " + std::to_string(token_of(job.index, job.produced + 1)), key);
      print("ERR late", key);
      print(done, key);
    });
  }
}

void Engine::stop(std::optional<uint64_t> request) {
  if (!script_.stop) host_.on_violation("STOP to an engine whose READY had no `stop`");
  uint64_t key = 0;
  if (request) {
    key = *request;
  } else if (!open_.empty()) {
    key = open_.rbegin()->first;
  }
  const auto found = open_.find(key);
  if (found == open_.end()) return;  // it has just ended: an idle STOP
  if (found->second.forgotten) return;
  if (++found->second.stops > 1) host_.on_violation("two STOPs for one request");
  if (frozen_) return;
  switch (script_.on_stop) {
    case OnStop::done_cancel: later(milliseconds(3), [this, key] { finish(key, "cancel"); }); break;
    case OnStop::late_done:
      healthy_ = false;
      later(milliseconds(dice_.between(500, 6000)), [this, key] { finish(key, "cancel"); });
      break;
    case OnStop::babbles_then_done: later(milliseconds(dice_.between(3, 900)), [this, key] { finish(key, "cancel"); }); break;
    case OnStop::done_stop: later(milliseconds(3), [this, key] { finish(key, "stop"); }); break;
    case OnStop::says_err:
      later(milliseconds(3), [this, key] {
        if (open_.count(key) != 0) print("ERR cancelled", key);
        give_up(key);
      });
      break;
    case OnStop::ignores: healthy_ = false; break;
    case OnStop::crashes: later(milliseconds(5), [this] { die("killed by signal 6 (SIGABRT)"); }); break;
  }
}

}  // namespace vigil::sim
