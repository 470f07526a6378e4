#include "app/ssh/stream_request.h"

#include <errno.h>
#include <sys/socket.h>

namespace lockstep::app {

void StreamOutcome::setOpened() {
  const std::lock_guard lock(mutex_);
  opened_ = true;
  changed_.notify_all();
}
void StreamOutcome::setEnd(End end) {
  const std::lock_guard lock(mutex_);
  if (!end_) end_ = std::move(end);
  changed_.notify_all();
}
std::optional<StreamOutcome::End> StreamOutcome::waitEnd(
    std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [&] { return end_.has_value(); });
  return end_;
}
bool StreamOutcome::opened() const {
  const std::lock_guard lock(mutex_);
  return opened_;
}
std::optional<StreamOutcome::End> StreamOutcome::end() const {
  const std::lock_guard lock(mutex_);
  return end_;
}

Result<std::pair<UniqueFd, UniqueFd>> streamPair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
    return systemError(errno, "cannot make a pair of sockets");
  return std::pair(UniqueFd(fds[0]), UniqueFd(fds[1]));
}

}  // namespace lockstep::app
