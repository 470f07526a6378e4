// Programs that this machine has.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// Where distributions install programs.
inline constexpr std::string_view kProgramFolders = "/usr/local/bin:/usr/bin";

// Returns the path of an executable file of this name in a folder of this process's PATH, else in
// one of `more`, which are separated by ':' as in PATH; "" if there is none. Relative folders do
// not count. A name with a '/' is a path itself.
std::string findProgram(const std::string& name, std::string_view more = {});

}  // namespace lockstep
