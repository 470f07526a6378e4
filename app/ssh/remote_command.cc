#include "app/ssh/remote_command.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "app/ssh/stream_outcome.h"
#include "app/ssh/stream_request.h"
#include "app/ssh/wake.h"
#include "engine/base/text.h"

namespace lockstep::app {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

}  // namespace

Result<ExecResult> runRemoteCommand(const AttachStream& attach, const std::string& command,
                                    const ExecOptions& options, const std::string& node,
                                    std::stop_token stop) {
  LOCKSTEP_ASSIGN(auto outPair, streamPair());
  LOCKSTEP_ASSIGN(auto errPair, streamPair());
  StreamRequest request;
  request.kind = StreamRequest::Kind::kExec;
  request.what = command;
  LOCKSTEP_ASSIGN(const auto outcome,
                  attach(std::move(request), std::move(outPair.second), std::move(errPair.second)));
  UniqueFd out = std::move(outPair.first), err = std::move(errPair.first);
  ::shutdown(err.get(), SHUT_WR);
  const auto deadline = Clock::now() + options.timeout;
  Wake wake;
  std::stop_callback onStop(stop, [&] { wake.notify(); });
  const auto failure = [&](Code code, const char* how) {
    Error error = makeError(code, "`{}` {}", command, how);
    error.node = node;
    return error;
  };
  ExecResult result;
  std::size_t sent = 0;
  bool outOpen = true, errOpen = true, inputOpen = true;
  std::vector<char> bytes(64 * 1024);
  while (outOpen || errOpen) {
    if (stop.stop_requested()) return failure(Code::kCancelled, "was cancelled");
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return failure(Code::kDeadlineExceeded, "did not end in time");
    if (inputOpen && sent == options.input.size()) {
      ::shutdown(out.get(), SHUT_WR);
      inputOpen = false;
    }
    pollfd fds[] = {{outOpen || inputOpen ? out.get() : -1,
                     static_cast<short>((outOpen ? POLLIN : 0) | (inputOpen ? POLLOUT : 0)), 0},
                    {errOpen ? err.get() : -1, POLLIN, 0},
                    {wake.fd(), POLLIN, 0}};
    ::poll(fds, 3, static_cast<int>(std::min<long long>(left + 1, 60000)));
    if ((fds[0].revents & POLLOUT) && inputOpen) {
      const ssize_t n = ::send(out.get(), options.input.data() + sent, options.input.size() - sent,
                               MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n > 0)
        sent += static_cast<std::size_t>(n);
      else if (n < 0 && errno != EAGAIN && errno != EINTR)
        sent = options.input.size();
    }
    const auto read = [&](int fd, std::string* text) {
      const ssize_t n = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (n > 0) text->append(bytes.data(), static_cast<std::size_t>(n));
      return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
    };
    if (outOpen && (fds[0].revents & (POLLIN | POLLHUP | POLLERR)))
      outOpen = read(out.get(), &result.output);
    if (errOpen && fds[1].revents) errOpen = read(err.get(), &result.errorOutput);
    if (std::max(result.output.size(), result.errorOutput.size()) > options.outputLimit)
      return failure(Code::kResourceExhausted, "printed more than the limit");
  }
  const auto end = outcome->waitEnd(deadline);
  if (!end) return failure(Code::kDeadlineExceeded, "did not end in time");
  if (!end->status.ok()) {
    Error error = failure(Code::kUnavailable, "was cut off");
    error.why = end->status.error().text();
    return error;
  }
  result.exitStatus = end->exitStatus;
  result.signalName = end->signalName;
  return result;
}

std::string failureText(const ExecResult& ran) {
  constexpr std::size_t kLongest = 2000;
  return withoutLineEnds(
      (ran.errorOutput.empty() ? ran.output : ran.errorOutput).substr(0, kLongest));
}

Error commandError(const std::string& command, const ExecResult& ran) {
  Error error = makeError(Code::kFailedPrecondition, "`{}` failed", command);
  error.why = message("status {}: {}", ran.exitStatus, failureText(ran));
  return error;
}

}  // namespace lockstep::app
