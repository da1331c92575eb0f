// See vision_child.hpp. About half of the processes are healthy, so that worlds get somewhere.
#include "tests/sim/vision_child.hpp"

#include <algorithm>
#include <utility>

namespace vigil::sim {

using std::chrono::milliseconds;

VisionScript VisionScript::healthy(Random& dice) {
  VisionScript script;
  if (dice.chance(20)) script.start = Start::ready_late;
  script.start_delay = milliseconds(dice.between(0, 3000));
  script.in_pieces = dice.chance(20);
  script.chatters = dice.chance(20);
  script.reads_after = milliseconds(dice.chance(70) ? 0 : dice.between(1, 100));
  script.takes = milliseconds(dice.between(1, 600));
  for (int64_t n = dice.between(1, 3); n > 0; --n) {
    script.encodings.push_back(dice.chance(70) ? Encoding::normal : static_cast<Encoding>(dice.between(0, first_bad_encoding - 1)));
  }
  return script;
}

VisionScript VisionScript::draw(Random& dice) {
  VisionScript script = healthy(dice);
  if (dice.chance(40)) return script;
  if (dice.chance(25)) script.start = static_cast<Start>(dice.between(0, start_kinds - 1));
  script.encodings.clear();
  for (int64_t n = dice.between(1, 4); n > 0; --n) {
    script.encodings.push_back(dice.chance(45) ? Encoding::normal : static_cast<Encoding>(dice.between(0, encoding_kinds - 1)));
  }
  script.on_term = dice.chance(50) ? OnTerm::exits : static_cast<OnTerm>(dice.between(0, term_kinds - 1));
  if (dice.chance(10)) script.dies_after = milliseconds(dice.between(1, 20000));
  return script;
}

VisionChild::VisionChild(Scheduler& clock, Random dice, VisionScript script, Disk& disk, ProcessHost& host)
    : Process(clock, dice, script, host), script_(std::move(script)), disk_(disk) {
  // Of this load no progress is known, and no limit of its own bounds the execve.
  if (script_.start == Start::slow_with_progress || script_.start == Start::exec_hangs) healthy_ = false;
}

void VisionChild::ready() {
  print_line("READY " + std::to_string(script_.width));
  if (script_.dies_after > Duration::zero()) later(script_.dies_after, [this] { die("exited with status 3"); });
}

void VisionChild::receive(const protocol::VisionCommand& command) {
  if (!leader_) return;  // the pipe of a dead process
  const auto* order = std::get_if<protocol::Encode>(&command);
  if (!order) return;
  later(script_.reads_after, [this, order = *order] { encode(order); });
}

void VisionChild::encode(const protocol::Encode& order) {
  if (hangs_) return;
  if (std::exchange(busy_, true)) host_.on_violation("ENC while a picture is with the child");
  const auto* picture = disk_.find(order.image_path);
  if (!picture && healthy_) host_.on_violation("ENC of a picture whose file is not there");  // after an OK too many it may be gone
  Encoding how = script_.encodings[std::min(pictures_++, script_.encodings.size() - 1)];
  const std::string_view bytes = picture ? std::string_view(picture->front().picture) : std::string_view();
  if (bytes.starts_with(poison)) how = Encoding::crashes;
  else if (bytes.starts_with(broken) && static_cast<int>(how) < first_bad_encoding) how = Encoding::refuses;
  if (static_cast<int>(how) >= first_bad_encoding) healthy_ = false;
  const Duration takes = how == Encoding::slow ? milliseconds(dice_.between(700, 1500)) : script_.takes;
  if (how == Encoding::informs) {
    for (int n = 1; n <= 4; ++n) later(n * script_.takes / 5, [this] { print_line("INFO load=0.9 tiles=4"); });
  }
  later(takes, [this, order, how] {
    if (hangs_) return;
    if (how == Encoding::refuses) refuse();
    else if (static_cast<int>(how) < first_bad_encoding) answer(order);
    else misbehave(order, how);
  });
}

void VisionChild::misbehave(const protocol::Encode& order, Encoding how) {
  const int64_t rows = dice_.between(1, 5);
  switch (how) {
    case Encoding::refuses_and_exits:
      refuse();
      return later(milliseconds(dice_.between(0, 400)), [this] { die("exited with status 1"); });
    case Encoding::refuses_and_babbles:
      refuse();
      return later(milliseconds(dice_.between(0, 300)), [this] { print_line("OK 2 2 1 1"); });
    case Encoding::says_ok_twice:
      answer(order);
      return later(milliseconds(dice_.between(0, 800)), [this] { print_line("OK 2 2 1 1"); });
    case Encoding::goes_silent: hangs_ = true; return;
    case Encoding::only_chatters: chatter(milliseconds(300)); hangs_ = true; return;
    case Encoding::only_informs: say_again(milliseconds(300), "INFO load=0.5"); hangs_ = true; return;
    case Encoding::late:
      hangs_ = true;
      return later(milliseconds(dice_.between(6500, 9000)), [this, order] { answer(order); });
    case Encoding::wrong_width: record(order, rows, script_.width + 1, true); return say_ok(rows);
    case Encoding::wrong_count: record(order, rows + 1, script_.width, true); return say_ok(rows);
    case Encoding::no_record: return say_ok(rows);
    case Encoding::half_record: record(order, rows, script_.width, false); return say_ok(rows);
    case Encoding::garbage: garbage(); return answer(order);
    case Encoding::only_garbage: garbage(); hangs_ = true; return;
    case Encoding::ready_again: print_line("READY 16"); return answer(order);
    case Encoding::half_line: print_bytes("OK 2 2"); return die("killed by signal 6 (SIGABRT)");
    case Encoding::crashes: return die("killed by signal 11 (SIGSEGV)");
    case Encoding::crashes_in_record: record(order, rows, script_.width, false); return die("killed by signal 9 (SIGKILL)");
    case Encoding::leaves_grandchild: leave_grandchild(); return die("killed by signal 11 (SIGSEGV)");
    case Encoding::exits_zero: return die("exited with status 0");
    case Encoding::closes_output:
    case Encoding::closes_output_and_exits:
      hangs_ = true;
      close_output();
      if (how == Encoding::closes_output_and_exits) later(milliseconds(dice_.between(0, 300)), [this] { die("exited with status 6"); });
      return;
    default: return;
  }
}

void VisionChild::answer(const protocol::Encode& order) {
  const int64_t rows = dice_.between(1, 5);
  record(order, rows, script_.width, true);
  say_ok(rows);
}

void VisionChild::say_ok(int64_t rows) {
  busy_ = false;
  print_line("OK " + std::to_string(rows) + " " + std::to_string(rows) + " 1 3.5");
}

void VisionChild::refuse() {
  busy_ = false;
  print_line("ERR not a picture");
}

void VisionChild::record(const protocol::Encode& order, int64_t rows, int64_t width, bool whole) {
  const auto* picture = disk_.find(order.image_path);
  disk_.write_record(order.out_path, {picture ? picture->front().picture : "", script_.program, rows, width, whole});
}

void VisionChild::garbage() {
  switch (dice_.between(0, 4)) {
    case 0: return print_line("\xFF\xFE garbage");
    case 1: return print_line("OK 0 0 0 1");
    case 2: return print_line("OK");
    case 3: return print_line(std::string(5000, 'x'));  // over the cap
    default: return print_line("T 5");                  // an engine's word
  }
}

}  // namespace vigil::sim
