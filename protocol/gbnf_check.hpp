// The second half of reading a grammar: what its rules mean together. Private to the parser.
#pragma once

#include "protocol/gbnf.hpp"

namespace vigil::protocol::gbnf {

// Fills nullable and productive; an error for left recursion, a root that cannot end, and long repetitions of what may be empty.
Result<void> check(Grammar& grammar);

}  // namespace vigil::protocol::gbnf
