// A command run on a host through the channel of an SSH session.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "engine/base/status.h"
#include "engine/base/unique_fd.h"

namespace lockstep::app {

struct StreamRequest;
class StreamOutcome;

struct ExecOptions {
  std::string input;  // to its stdin, which then ends
  std::chrono::milliseconds timeout{30000};
  std::size_t outputLimit = std::size_t{16} << 20;  // of stdout and of stderr; more is an error
};
struct ExecResult {
  int exitStatus = -1;     // -1: ended by a signal
  std::string signalName;  // "KILL"
  std::string output;
  std::string errorOutput;
};

// As SshSession::attach, of the session there is.
using AttachStream = std::function<Result<std::shared_ptr<StreamOutcome>>(
    StreamRequest request, UniqueFd local, UniqueFd localError)>;

// Errors as SshConnection::exec; their node is `node`.
Result<ExecResult> runRemoteCommand(const AttachStream& attach, const std::string& command,
                                    const ExecOptions& options, const std::string& node,
                                    std::stop_token stop);

// What a command said of its failure: its errors, else its output, in one line where it is one.
std::string failureText(const ExecResult& ran);
// "`command` failed", with its status and that text. kFailedPrecondition.
Error commandError(const std::string& command, const ExecResult& ran);

}  // namespace lockstep::app
