// Programs that the node has.
#pragma once

#include <string>

namespace lockstep::agent {

// Returns the path of an executable file of this name in a folder of this process's PATH, or in one
// that distributions install to; "" if there is none.
std::string findInstalledProgram(const std::string& name);

}  // namespace lockstep::agent
