#include "agent/node/reachability.h"

#include <netdb.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/hash.h"
#include "engine/base/unique_fd.h"
#include "engine/comm/network_address.h"
#include "engine/specs/error_info.h"

namespace lockstep::agent {
namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;
constexpr Nanoseconds kListenLimit = 60 * kSecond;
constexpr int kPollMs = 100;
constexpr std::size_t kMostTargets = 4096;

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

AddressList numericAddress(const std::string& address, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &list) != 0)
    list = nullptr;
  return {list, freeaddrinfo};
}

std::string newGreeting() {
  std::array<char, 32> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return {};
  return sha256Hex(std::string_view(bytes.data(), bytes.size())).substr(0, 32);
}

// Binds `address` on a free port.
UniqueFd listenAt(const std::string& address, node::v1::ListenForPeersReply::Listener& out) {
  const auto own = comm::ownAddress(address, {});
  if (!own.ok()) {
    out.set_address(address);
    *out.mutable_problem() = specs::toText(own.error().why);
    return {};
  }
  out.set_address(*own);
  auto listener = comm::listenAt(*own);
  if (!listener.ok()) {
    *out.mutable_problem() = specs::toText(listener.error().why);
    return {};
  }
  out.set_port(listener->port);
  return std::move(listener->socket);
}

Message connectProblem(int code) {
  if (code == ECONNREFUSED) return "the connection is refused";
  if (code == EHOSTUNREACH || code == ENETUNREACH) return "there is no route to it";
  return std::strerror(code);
}

// A connection under way to a target.
struct Attempt {
  UniqueFd socket;
  bool connected = false, over = false;
  std::string received;
};

}  // namespace

void listenForPeers(const node::v1::ListenForPeersRequest& request,
                    const std::function<bool(const node::v1::ListenForPeersReply&)>& ready,
                    const std::function<bool()>& cancelled) {
  node::v1::ListenForPeersReply reply;
  reply.set_greeting(newGreeting());
  std::vector<UniqueFd> listeners;
  std::vector<pollfd> events;
  for (const std::string& address : request.addresses()) {
    UniqueFd listener = listenAt(address, *reply.add_listeners());
    if (!listener) continue;
    events.push_back({listener.get(), POLLIN, 0});
    listeners.push_back(std::move(listener));
  }
  if (!ready(reply)) return;
  const Nanoseconds end = monotonicNow() + kListenLimit;
  while (!cancelled() && monotonicNow() < end) {
    if (poll(events.data(), events.size(), kPollMs) <= 0) continue;
    for (const pollfd& event : events) {
      if (event.revents == 0) continue;
      const UniqueFd peer(accept4(event.fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!peer) continue;
      // A new socket's buffer takes so little at once. Whoever it is learns nothing but this.
      [[maybe_unused]] const ssize_t sent =
          send(peer.get(), reply.greeting().data(), reply.greeting().size(), MSG_NOSIGNAL);
    }
  }
}

node::v1::ReachPeersReply reachPeers(const node::v1::ReachPeersRequest& request,
                                     const std::function<bool()>& cancelled) {
  node::v1::ReachPeersReply reply;
  const double seconds = request.seconds() > 0 ? std::min(request.seconds(), 30.0) : 3;
  const Nanoseconds end = monotonicNow() + static_cast<Nanoseconds>(seconds * 1e9);
  const std::size_t count =
      std::min(static_cast<std::size_t>(request.targets_size()), kMostTargets);
  std::vector<Attempt> attempts(count);
  const auto tell = [&reply](int target, const Message& problem) {
    *reply.mutable_problems(target) = specs::toText(problem);
  };
  for (std::size_t i = 0; i < count; ++i) {
    const auto& target = request.targets(static_cast<int>(i));
    *reply.add_problems() = specs::toText(message("no answer in {:g} s", seconds));
    const AddressList at = numericAddress(target.address(), target.port());
    Attempt& attempt = attempts[i];
    int code = at ? 0 : EADDRNOTAVAIL;
    if (at) {
      attempt.socket =
          UniqueFd(socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (!attempt.socket || connect(attempt.socket.get(), at->ai_addr, at->ai_addrlen) != 0)
        code = errno;
    }
    if (code == 0 || code == EINPROGRESS) continue;
    attempt.over = true;
    tell(static_cast<int>(i), connectProblem(code));
  }
  for (;;) {
    std::vector<pollfd> events;
    std::vector<std::size_t> of;
    for (std::size_t i = 0; i < count; ++i) {
      if (attempts[i].over) continue;
      events.push_back({attempts[i].socket.get(),
                        static_cast<short>(attempts[i].connected ? POLLIN : POLLOUT), 0});
      of.push_back(i);
    }
    const Nanoseconds left = end - monotonicNow();
    if (events.empty() || left <= 0 || cancelled()) break;
    poll(events.data(), events.size(),
         static_cast<int>(std::min<Nanoseconds>(left / 1'000'000 + 1, kPollMs)));
    for (std::size_t e = 0; e < events.size(); ++e) {
      if (events[e].revents == 0) continue;
      Attempt& attempt = attempts[of[e]];
      const int index = static_cast<int>(of[e]);
      const std::string& greeting = request.targets(index).greeting();
      if (!attempt.connected) {
        int code = 0;
        socklen_t size = sizeof code;
        getsockopt(attempt.socket.get(), SOL_SOCKET, SO_ERROR, &code, &size);
        attempt.connected = code == 0;
        attempt.over = code != 0;
        tell(index, code != 0 ? connectProblem(code)
                              : message("it connects, and says nothing in {:g} s", seconds));
        continue;
      }
      std::array<char, 64> bytes{};
      const ssize_t got = recv(attempt.socket.get(), bytes.data(), bytes.size(), 0);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (got > 0) attempt.received.append(bytes.data(), static_cast<std::size_t>(got));
      if (got > 0 && attempt.received.size() < greeting.size()) continue;
      attempt.over = true;
      tell(index, attempt.received == greeting ? "" : "another program answers there");
    }
  }
  for (int i = static_cast<int>(count); i < request.targets_size(); ++i)
    *reply.add_problems() = specs::toText("too many targets");
  return reply;
}

}  // namespace lockstep::agent
