// The process's limit of open files. Not here: who opens them.
#pragma once

#include <cstdint>
#include <string>

namespace vigil {

// The limit that a service manager or shell gave us, which children get; our own is raised to the hard limit. 0 when it cannot be read.
uint64_t raise_open_files();

// How many connections of `wanted` (0 = any number) this process may hold open and still have descriptors for children and files.
int64_t connections_with_room(int64_t wanted);
std::string note_on_connections(int64_t wanted);  // when these are fewer; empty when not

}  // namespace vigil
