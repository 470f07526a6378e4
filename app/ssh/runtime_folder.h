// The folder for sockets of this user's programs.
#pragma once

#include <string>

#include "engine/base/status.h"

namespace lockstep::app {

// $XDG_RUNTIME_DIR/lockstep, else /tmp/lockstep-UID: made with mode 0700, ours, and not a link.
Result<std::string> runtimeFolder();

}  // namespace lockstep::app
