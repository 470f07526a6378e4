// TCP to a host by name, with a limit, and given up at once when cancelled.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "app/ssh/wake.h"
#include "engine/base/status.h"
#include "engine/base/unique_fd.h"

namespace lockstep::app {

// Tries the addresses in the resolver's order, each for at most `perAddress`. `wake` is looked at
// together with `cancelled`. Errors: kUnavailable, kDeadlineExceeded, kCancelled. The socket has
// TCP_NODELAY.
Result<UniqueFd> dialTcp(const std::string& host, int port,
                         std::chrono::steady_clock::time_point deadline,
                         std::chrono::milliseconds perAddress, const Wake& wake,
                         const std::function<bool()>& cancelled);

}  // namespace lockstep::app
