// The process's limit of open files. Not here: who opens them.
#pragma once

#include <cstdint>

namespace vigil {

// The limit that a service manager or shell gave us, which children get; our own is raised to the hard limit. 0 when it cannot be read.
uint64_t raise_open_files();

// How many connections of `wanted` (0 = any number) this process may hold open and still have descriptors for children and files.
int64_t connections_with_room(int64_t wanted);

}  // namespace vigil
