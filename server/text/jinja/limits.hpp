// The limits of templates: what a hostile one runs into instead of time and memory. Not here: what counts against them (interpreter.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace vigil::text::jinja {

inline constexpr size_t max_source_bytes = 1u << 20;       // of a template; the largest of the field has 20 KB
inline constexpr size_t max_syntax_depth = 200;            // expressions and blocks inside each other
inline constexpr size_t max_syntax_nodes = 400'000;        // of one template
inline constexpr size_t max_syntax_heap_bytes = 48u << 20; // of its tree
inline constexpr size_t max_call_depth = 600;              // evaluations inside each other while rendering: macros that call themselves
inline constexpr size_t max_value_depth = 180;             // lists and dicts inside each other
inline constexpr uint64_t max_steps = 12'000'000;          // one evaluated node, or about 64 bytes of text worked through
inline constexpr size_t max_heap_bytes = 60u << 20;        // values and texts of one rendering, the prompt included
inline constexpr size_t max_output_bytes = 24u << 20;      // of a prompt
inline constexpr int64_t max_range = 100'000;              // elements of range(), as in Jinja2's sandbox
inline constexpr size_t max_time_format_bytes = 256;       // of strftime_now

}  // namespace vigil::text::jinja
