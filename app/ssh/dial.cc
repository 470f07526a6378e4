#include "app/ssh/dial.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace lockstep::app {
namespace {

using Clock = std::chrono::steady_clock;

struct Address {
  int family = 0;
  sockaddr_storage bytes{};
  socklen_t size = 0;
};

int millisecondsTo(Clock::time_point deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left + 1, 0, 3600000));
}

// getaddrinfo cannot be interrupted: it runs on a thread of its own, which is left behind if it is
// not awaited to the end.
struct Lookup {
  Wake done;
  std::mutex mutex;
  bool finished = false;
  int answer = 0;
  std::vector<Address> addresses;
};

void lookUp(const std::shared_ptr<Lookup>& lookup, const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  int answer = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (answer != 0) {  // a loopback-only host has no configured address, and still reaches itself
    hints.ai_flags = AI_NUMERICSERV;
    answer = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  }
  const std::lock_guard lock(lookup->mutex);
  lookup->answer = answer;
  for (const addrinfo* one = answer == 0 ? list : nullptr; one; one = one->ai_next) {
    Address address;
    address.family = one->ai_family;
    ::memcpy(&address.bytes, one->ai_addr, one->ai_addrlen);
    address.size = one->ai_addrlen;
    lookup->addresses.push_back(address);
  }
  if (answer == 0) ::freeaddrinfo(list);
  lookup->finished = true;
  lookup->done.notify();
}

}  // namespace

Result<UniqueFd> dialTcp(const std::string& host, int port, Clock::time_point deadline,
                         std::chrono::milliseconds perAddress, const Wake& wake,
                         const std::function<bool()>& cancelled) {
  // Waits for the descriptor; an error for the limit and for cancelling.
  const auto await = [&](int fd, short events, Clock::time_point until) -> Status {
    for (;;) {
      if (cancelled()) return makeError(Code::kCancelled, "connecting to {} was cancelled", host);
      const int left = millisecondsTo(until);
      if (left == 0)
        return makeError(Code::kDeadlineExceeded, "{} port {} does not answer", host, port);
      pollfd fds[] = {{fd, events, 0}, {wake.fd(), POLLIN, 0}};
      ::poll(fds, 2, left);
      if (fds[1].revents) wake.clear();
      if (fds[0].revents) return {};
    }
  };

  auto lookup = std::make_shared<Lookup>();
  std::thread([lookup, host, port] { lookUp(lookup, host, port); }).detach();
  LOCKSTEP_TRY(await(lookup->done.fd(), POLLIN, deadline));
  std::vector<Address> addresses;
  {
    const std::lock_guard lock(lookup->mutex);
    if (lookup->answer != 0) {
      Error error = makeError(Code::kUnavailable, "the name {} is not found", host);
      error.why = ::gai_strerror(lookup->answer);
      error.next = "check the host's name in the cluster and in the SSH configuration";
      return error;
    }
    addresses = lookup->addresses;
  }

  Error last = makeError(Code::kUnavailable, "{} has no address", host);
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const Address& address = addresses[i];
    UniqueFd fd(::socket(address.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) continue;
    const int on = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    int fault = 0;
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.bytes), address.size) != 0) {
      fault = errno;
      if (fault == EINPROGRESS) {
        // A silent address leaves time for those after it.
        const auto share = std::min<Clock::duration>(
            perAddress, (deadline - Clock::now()) / static_cast<int>(addresses.size() - i));
        Status waited = await(fd.get(), POLLOUT, Clock::now() + share);
        if (waited.code() == Code::kCancelled) return waited.error();
        if (!waited.ok()) {
          last = waited.error();
          last.next = "check that the host is up and that no firewall drops the connection";
          continue;
        }
        socklen_t size = sizeof fault;
        ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &fault, &size);
      }
    }
    if (fault == 0) return fd;
    last = makeError(Code::kUnavailable, "cannot connect to {} port {}", host, port);
    last.why = ::strerror(fault);
    last.next = fault == ECONNREFUSED ? "check that sshd runs there and listens on this port"
                                      : "check the network and the address";
  }
  return last;
}

}  // namespace lockstep::app
