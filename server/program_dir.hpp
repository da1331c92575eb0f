// Where this program lies: children and the bundled model are looked for beside it.
#pragma once

#include <string>

namespace vigil {

std::string own_program_dir();  // absolute, links resolved; "." when the system does not tell

}  // namespace vigil
