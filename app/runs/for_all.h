// Work at all nodes of a launch at once.
#pragma once

#include <cstddef>
#include <functional>
#include <stop_token>

#include "engine/base/status.h"

namespace lockstep::app {

// Runs `work` for every index below `count`, each on a thread; the first that fails stops the
// others. Returns its error; kCancelled if `stop` was requested.
Status forAll(std::size_t count, const std::stop_token& stop,
              const std::function<Status(std::size_t, const std::stop_token&)>& work);

}  // namespace lockstep::app
