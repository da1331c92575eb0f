// Why a template could not be read or rendered. Thrown inside this room, where every function would otherwise pass it on, and caught at its
// door (template.cpp), which gives a value. Not here: what callers see.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace vigil::text::jinja {

struct Failure {
  enum class Kind {
    syntax,    // the source is no template that we know
    runtime,   // an operation on values that have no such operation, or a limit
    refusal    // raise_exception: the template's own words
  };
  Kind kind = Kind::runtime;
  std::string message;
};

// What a rendering may still do. One step is an evaluated node, or about 64 bytes of text worked through.
struct Work {
  uint64_t steps_left;
  void charge(uint64_t steps);
  void charge_bytes(size_t bytes) { charge(bytes / 64 + 1); }
};

[[noreturn]] inline void fail(std::string message) { throw Failure{Failure::Kind::runtime, std::move(message)}; }

inline void Work::charge(uint64_t steps) {
  if (steps_left < steps) fail("the template works for too long (max_steps)");
  steps_left -= steps;
}

}  // namespace vigil::text::jinja
