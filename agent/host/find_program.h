// Programs of the node.
#pragma once

#include <string>

namespace lockstep::agent {

// Returns the path of a program in a folder of PATH, or where distributions put programs; "": there
// is none.
std::string findProgram(const std::string& name);

}  // namespace lockstep::agent
