// A scripted vision child in the virtual world: a process that is told to encode one picture after the other, and does it well or badly.
// Knows the protocol and its files from the outside only.
#pragma once

#include <string>
#include <vector>

#include "protocol/lines.hpp"
#include "tests/sim/disk.hpp"
#include "tests/sim/process.hpp"

namespace vigil::sim {

enum class Encoding : uint8_t {
  normal,               // its record, then OK
  slow,                 // the same, much later
  refuses,              // ERR: the picture is at fault
  informs,              // INFO all the while, then OK
  // from here on it is to blame for something
  refuses_and_exits,    // ERR, then death within the time in which that is awaited, or after it
  refuses_and_babbles,  // ERR, then OK for the same picture
  says_ok_twice,        // the second one perhaps when the next picture is with it
  goes_silent,
  only_chatters,        // stderr without end
  only_informs,         // INFO without end
  late,                 // OK when everybody has given up
  wrong_width,          // OK, but the record's rows are of another width
  wrong_count,          // OK, but the record has another number of rows
  no_record,            // OK, and no file
  half_record,          // OK, and the file ends in the middle
  garbage,              // malformed, overlong and foreign lines, then OK
  only_garbage,
  ready_again,          // READY in the middle of it, with another width, then OK
  half_line,            // part of OK, then death
  crashes,
  crashes_in_record,    // the file ends in the middle
  leaves_grandchild,    // dies, and one of its tree lives on with its pipes
  exits_zero,
  closes_output,
  closes_output_and_exits
};
constexpr int encoding_kinds = static_cast<int>(Encoding::closes_output_and_exits) + 1;
constexpr int first_bad_encoding = static_cast<int>(Encoding::refuses_and_exits);

struct VisionScript : ProcessScript {
  Duration reads_after{}, takes{};
  std::vector<Encoding> encodings;  // by picture, the last one repeats
  uint64_t program = 1;             // whose embeddings these are
  int64_t width = 4;                // of a row

  static VisionScript draw(Random& dice);
  static VisionScript healthy(Random& dice);
};

// A picture whose bytes begin so kills every child; one that is broken is refused by every child that answers at all.
constexpr std::string_view poison = "poison", broken = "broken";

class VisionChild final : public Process {
 public:
  VisionChild(Scheduler& clock, Random dice, VisionScript script, Disk& disk, ProcessHost& host);
  void receive(const protocol::VisionCommand& command);

 private:
  void ready() override;
  void encode(const protocol::Encode& order);
  void misbehave(const protocol::Encode& order, Encoding how);
  void answer(const protocol::Encode& order);
  void refuse();
  void record(const protocol::Encode& order, int64_t rows, int64_t width, bool whole);
  void garbage();
  void say_ok(int64_t rows);

  VisionScript script_;
  Disk& disk_;
  size_t pictures_ = 0;
  bool busy_ = false, hangs_ = false;
};

}  // namespace vigil::sim
