#include "app/ssh/ssh_forwards.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <random>

namespace lockstep::app {
namespace {

constexpr std::size_t kLongestSocketPath = 100;
constexpr int kMostLosses = 5;  // links one connection may outlive before its channel is open
constexpr int kPauseMs = 50;    // before accept() is tried again

}  // namespace

Result<std::string> SshForwards::listen(const std::string& folder, StreamRequest request) {
  std::random_device device;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = fmt::format("{}/{:08x}{:08x}.sock", folder, device(), device());
  if (path.size() > kLongestSocketPath)
    return invalidArgument("the socket path {} is longer than {} bytes", path, kLongestSocketPath);
  path.copy(address.sun_path, path.size());
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // The folder lets nobody else in; the mode of the socket says so a second time.
  if (!listener ||
      ::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::chmod(path.c_str(), 0600) != 0 || ::listen(listener.get(), 128) != 0)
    return systemError(errno, message("cannot listen on {}", path));
  const std::lock_guard lock(mutex_);
  if (refusing_) {
    ::unlink(path.c_str());
    return makeError(Code::kCancelled, "the connection to {} is closed", host_);
  }
  forwards_.push_back({path, std::move(listener), std::move(request)});
  wake_.notify();
  return path;
}

void SshForwards::stop(const std::string& path) {
  const std::lock_guard lock(mutex_);
  std::erase_if(forwards_, [&](const Forward& forward) {
    if (forward.path != path) return false;
    ::unlink(path.c_str());
    return true;
  });
  std::erase_if(callers_, [&](const Caller& caller) { return caller.path == path; });
  wake_.notify();
}

void SshForwards::refuse() {
  const std::lock_guard lock(mutex_);
  refusing_ = true;
}

void SshForwards::clear() {
  const std::lock_guard lock(mutex_);
  for (const Forward& forward : forwards_) ::unlink(forward.path.c_str());
  forwards_.clear();
  callers_.clear();
}

void SshForwards::addListeners(std::vector<pollfd>& fds) const {
  const std::lock_guard lock(mutex_);
  for (const Forward& forward : forwards_) fds.push_back({forward.listener.get(), POLLIN, 0});
}

std::vector<std::pair<SshForwards::Caller, StreamRequest>> SshForwards::takeCallers() {
  bool failed = false;
  std::unique_lock lock(mutex_);
  for (const Forward& forward : forwards_) {
    for (;;) {
      UniqueFd local(::accept4(forward.listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!local) {
        failed = failed || errno != EAGAIN;
        break;
      }
      callers_.push_back({forward.path, std::move(local), 0});
    }
  }
  std::vector<std::pair<Caller, StreamRequest>> taken;
  for (Caller& caller : callers_) {
    const auto forward = std::find_if(forwards_.begin(), forwards_.end(),
                                      [&](const Forward& one) { return one.path == caller.path; });
    if (forward != forwards_.end()) taken.emplace_back(std::move(caller), forward->request);
  }
  callers_.clear();
  lock.unlock();
  // As where no descriptor is left: the connection waits, and its listener stays readable.
  pollfd change{wake_.fd(), POLLIN, 0};
  if (failed) ::poll(&change, 1, kPauseMs);
  return taken;
}

// The link may be lost before it is known to be: a connection whose channel never opened has
// lost nothing, and waits for the next link like those in the backlog.
void SshForwards::attachCallers(const Attach& attach) {
  for (auto& [caller, request] : takeCallers()) {
    request.giveBack = [this, path = caller.path, losses = caller.losses + 1](UniqueFd local) {
      const std::lock_guard lock(mutex_);
      if (refusing_ || losses > kMostLosses) return;
      callers_.push_back({path, std::move(local), losses});
      wake_.notify();
    };
    attach(std::move(request), std::move(caller.local));
  }
}

void SshForwards::turnAway() { takeCallers(); }

}  // namespace lockstep::app
