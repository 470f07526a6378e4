// The subcommands of lockstep-agent. Each returns the exit code of the process, or an error of its
// arguments. Their grammars are in agent/main.cc.
#pragma once

#include <string_view>

#include "engine/base/arguments.h"

namespace lockstep::agent {

Result<int> serveCommand(const Arguments& arguments);
Result<int> superviseCommand(const Arguments& arguments);
Result<int> workerCommand(const Arguments& arguments);
Result<int> forwardCommand(const Arguments& arguments);
Result<int> bridgeCommand(const Arguments& arguments);
Result<int> leaveCommand(const Arguments& arguments);
Result<int> metricsCommand(const Arguments& arguments);
Result<int> selftestCommand(const Arguments& arguments);
Result<int> stacksCommand(const Arguments& arguments);

// A flag that is a number of seconds.
inline Result<double> seconds(const Arguments& arguments, std::string_view flag, double fallback) {
  constexpr double kMost = 1e9;
  return arguments.number(flag, fallback, 0, kMost);
}

}  // namespace lockstep::agent
