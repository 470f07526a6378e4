// Runs a program on this machine and waits for it, with a limit.
#pragma once

#include <chrono>
#include <cstddef>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::app {

struct ProcessResult {
  int exitStatus = -1;  // 128 + signal when a signal ended it
  std::string output;
  std::string errorOutput;
};

struct ProcessOptions {
  std::string_view input = {};  // stdin
  // A process group of its own, which is killed as a whole and gets no Ctrl-C of the terminal.
  bool ownGroup = false;
  std::size_t kept = std::size_t{16} << 20;  // first bytes of each output; the rest is dropped
};

// argv[0] is sought on PATH. Descriptors beyond 2 are not
// inherited if marked so.
// Done when the program has exited and what it had written by then is read: a child that it leaves
// behind with an inherited stdout is not waited for. Errors: kNotFound (no such program),
// kDeadlineExceeded, kCancelled (the program is killed).
Result<ProcessResult> runProcess(const std::vector<std::string>& argv,
                                 std::chrono::milliseconds timeout, std::stop_token stop = {},
                                 const ProcessOptions& options = {});

}  // namespace lockstep::app
