// The hosts that an SSH configuration names, for lists to choose from.
#pragma once

#include <string>
#include <vector>

namespace lockstep::app {

// Names of Host lines in the order of the file, each once, with those of included files; patterns
// are left out. `file` "": ~/.ssh/config. A file that cannot be read has none.
std::vector<std::string> sshConfigHosts(const std::string& file);

}  // namespace lockstep::app
