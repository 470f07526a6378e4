#include "agent/supervisor/peer_listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "agent/supervisor/tls_record.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/comm/network_address.h"

namespace lockstep::agent {
namespace {

constexpr Nanoseconds kMillisecond = 1'000'000;
constexpr int kAcceptedAtOnce = 16;
// Pause between two rounds of accept() while many connections are unauthenticated, which bounds a
// flood to 320 connections per second and little CPU time. A node that reconnects waits at most for
// the backlog, 3 s.
constexpr Nanoseconds kPause = 50 * kMillisecond;
constexpr Nanoseconds kPollLimit = 1000 * kMillisecond;
constexpr Nanoseconds kReportEvery = 60'000 * kMillisecond;

// Returns the address and port as gRPC writes them, without the scheme: part of a URI, escaped.
std::string peerText(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> host{};
  if (address.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &in.sin_addr, host.data(), host.size());
    return fmt::format("{}:{}", host.data(), ntohs(in.sin_port));
  }
  const auto& in = reinterpret_cast<const sockaddr_in6&>(address);
  inet_ntop(AF_INET6, &in.sin6_addr, host.data(), host.size());
  const std::string scope = in.sin6_scope_id == 0 ? "" : fmt::format("%25{}", in.sin6_scope_id);
  return fmt::format("%5B{}{}%5D:{}", host.data(), scope, ntohs(in.sin6_port));
}

struct Guest {
  // The connection until it has sent the first record of a handshake; then a duplicate, by which it
  // can be shut down.
  UniqueFd connection;
  std::string peer;
  Nanoseconds since = 0;
  FirstRecord record;
  bool handedOver = false, authenticated = false;
};

}  // namespace

struct PeerListener::State {
  comm::Listener listener;
  UniqueFd wake;
  PeerListenerLimits limits;
  Accepted accepted;
  std::mutex mutex;
  std::list<Guest> guests;  // oldest first; mutex_, except for reading on the thread
  std::uint64_t refused = 0;
  Nanoseconds reported = 0, acceptAfter = 0;
  std::thread thread;

  void run() {
    for (;;) {
      const Nanoseconds now = monotonicNow();
      const bool paused = now < acceptAfter;
      std::vector<pollfd> events{
          {wake.get(), POLLIN, 0},
          {paused ? -1 : listener.socket.get(), POLLIN, 0},
      };
      for (const Guest& guest : guests)
        events.push_back({guest.connection.get(),
                          static_cast<short>(guest.handedOver ? POLLRDHUP : POLLIN | POLLRDHUP),
                          0});
      poll(events.data(), events.size(), timeoutMs(now, paused));
      if (events[0].revents != 0 && stopping()) return;
      const std::lock_guard lock(mutex);
      visit(events);
      if (events[1].revents != 0) acceptSome();
      report();
    }
  }

  bool stopping() {
    std::uint64_t count = 0;
    return read(wake.get(), &count, sizeof count) == sizeof count;
  }

  int timeoutMs(Nanoseconds now, bool paused) const {
    if (guests.empty() && !paused) return -1;
    Nanoseconds until = paused ? acceptAfter : now + kPollLimit;
    if (!guests.empty())
      until = std::min(until, guests.front().since + limits.greetingMs * kMillisecond);
    return static_cast<int>(std::max<Nanoseconds>((until - now) / kMillisecond + 1, 1));
  }

  void visit(const std::vector<pollfd>& events) {
    const Nanoseconds now = monotonicNow();
    std::size_t slot = 2;
    for (auto at = guests.begin(); at != guests.end(); ++slot) {
      const bool late = now - at->since >= limits.greetingMs * kMillisecond;
      const short found = events[slot].revents;
      if (at->authenticated)
        at = guests.erase(at);
      else if (late || (found != 0 && (at->handedOver || !advance(*at, (found & ~POLLIN) != 0))))
        at = refuse(at);
      else
        ++at;
    }
  }

  // Returns whether the connection, which poll() has reported, may go on.
  bool advance(Guest& guest, bool hasLeft) {
    const auto state = guest.record.look(guest.connection.get(), hasLeft);
    return state == FirstRecord::State::kCame ? handOver(guest)
                                              : state == FirstRecord::State::kComing;
  }

  bool handOver(Guest& guest) {
    UniqueFd watched(fcntl(guest.connection.get(), F_DUPFD_CLOEXEC, 0));
    if (!watched) return false;
    guest.handedOver = true;
    accepted(std::exchange(guest.connection, std::move(watched)));
    return true;
  }

  std::list<Guest>::iterator refuse(std::list<Guest>::iterator guest) {
    ++refused;
    shutdown(guest->connection.get(), SHUT_RDWR);
    return guests.erase(guest);
  }

  void acceptSome() {
    for (int i = 0; i < kAcceptedAtOnce; ++i) {
      sockaddr_storage from{};
      socklen_t size = sizeof from;
      UniqueFd connection(accept4(listener.socket.get(), reinterpret_cast<sockaddr*>(&from), &size,
                                  SOCK_CLOEXEC | SOCK_NONBLOCK));
      // A connection that ended while it waited; EMFILE and the like pass as others are refused.
      if (!connection) {
        if (errno != EAGAIN && errno != EINTR) acceptAfter = monotonicNow() + kPause;
        break;
      }
      if (FirstRecord::await(connection.get()))
        guests.push_back({std::move(connection), peerText(from), monotonicNow()});
    }
    while (guests.size() > limits.unauthenticated) {
      // Idle connections are closed before those in a handshake.
      const auto silent = std::find_if(guests.begin(), guests.end(),
                                       [](const Guest& guest) { return !guest.handedOver; });
      refuse(silent != guests.end() ? silent : guests.begin());
    }
    if (guests.size() * 2 > limits.unauthenticated) acceptAfter = monotonicNow() + kPause;
  }

  void report() {
    if (refused == 0 || (reported != 0 && monotonicNow() - reported < kReportEvery)) return;
    logWarning("port {}: closed unauthenticated connections: {}", listener.port,
               std::exchange(refused, 0));
    reported = monotonicNow();
  }
};

PeerListener::PeerListener(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<PeerListener>> PeerListener::open(const std::string& address,
                                                         PeerListenerLimits limits) {
  auto state = std::make_unique<State>();
  LOCKSTEP_ASSIGN(state->listener, comm::listenAt(address));
  // Connections inherit it.
  const int on = 1;
  setsockopt(state->listener.socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  state->wake = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!state->wake) return systemError(errno, message("cannot listen on {}", address));
  state->limits = limits;
  return std::unique_ptr<PeerListener>(new PeerListener(std::move(state)));
}

PeerListener::~PeerListener() {
  if (!state_->thread.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(state_->wake.get(), &one, sizeof one);
  state_->thread.join();
  for (const Guest& guest : state_->guests)
    if (!guest.authenticated) shutdown(guest.connection.get(), SHUT_RDWR);
}

int PeerListener::port() const { return state_->listener.port; }

void PeerListener::begin(Accepted accepted) {
  state_->accepted = std::move(accepted);
  state_->thread = std::thread([raw = state_.get()] { raw->run(); });
}

void PeerListener::authenticated(const std::string& peer) {
  const std::string address = peer.substr(peer.find(':') + 1);
  const std::lock_guard lock(state_->mutex);
  for (Guest& guest : state_->guests)
    if (guest.peer == address) guest.authenticated = true;
}

}  // namespace lockstep::agent
