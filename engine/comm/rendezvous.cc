#include "engine/comm/rendezvous.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <memory>
#include <string_view>
#include <utility>

#include "engine/comm/greeting.h"
#include "engine/comm/network_address.h"

namespace lockstep::comm {
namespace {

constexpr Nanoseconds kMillisecond = 1'000'000;
constexpr Nanoseconds kGreetingLimit =
    5'000 * kMillisecond;  // of an incoming connection, from accept to proof
constexpr Nanoseconds kDialPause = 50 * kMillisecond;  // before reconnecting
// Maximum number of unauthenticated incoming connections; beyond, the oldest is closed.
constexpr std::size_t kMostStrangers = 256;
constexpr std::size_t kAcceptedAtOnce = 64;

Error unavailable(Message what, Message why) {
  Error error = makeError(Code::kUnavailable, "{}", what);
  error.why = std::move(why);
  error.next = "check that the node is up and that its peers reach the address in the cluster file";
  return error;
}

std::string secondsText(Nanoseconds time) {
  return fmt::format("{:.3g} s", static_cast<double>(time) * 1e-9);
}

struct Endpoint {
  sockaddr_storage address{};
  socklen_t size = 0;
};

Result<Endpoint> endpointOf(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  if (const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
      code != 0)
    return unavailable("address " + host, gai_strerror(code));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
  Endpoint endpoint;
  std::memcpy(&endpoint.address, list->ai_addr, list->ai_addrlen);
  endpoint.size = list->ai_addrlen;
  return endpoint;
}

// A connection during the greeting. Nothing here blocks.
struct Handshake {
  UniqueFd connection;
  Greeting greeting;
  bool connecting = false;  // TCP has not connected yet
  Nanoseconds since = 0;
};

class Rendezvous {
 public:
  Rendezvous(const GlooOptions& options, Store& store)
      : options_(options),
        store_(store),
        deadline_(monotonicNow() + options.timeout),
        peers_(static_cast<std::size_t>(options.size)),
        announced_(static_cast<std::size_t>(options.size)),
        dials_(static_cast<std::size_t>(options.size)) {}

  Result<std::vector<MetPeer>> run() {
    LOCKSTEP_TRY(announce());
    for (int r = 0; r < options_.size; ++r)
      if (r != options_.rank) LOCKSTEP_TRY(readAnnouncement(r));
    while (met_ < options_.size - 1) {
      if (monotonicNow() >= deadline_) return late();
      LOCKSTEP_TRY(dialTheRest());
      LOCKSTEP_TRY(turn());
    }
    return std::move(peers_);
  }

 private:
  struct Dial {
    Nanoseconds notBefore = 0;
    bool underWay = false;
    std::string last;  // why the previous attempt ended
  };

  Status announce() {
    Announcement own;
    LOCKSTEP_ASSIGN(own.host, ownAddress(options_.address, options_.interface));
    auto listener = listenAt(own.host);
    if (!listener.ok())
      return unavailable(std::move(listener.error().what), std::move(listener.error().why));
    listener_ = std::move(listener->socket);
    own.port = listener->port;
    own.key = Announcement::newKey();
    announced_[static_cast<std::size_t>(options_.rank)] = own;
    return store_.set(fmt::format("{}/{}", options_.prefix, options_.rank), own.text());
  }

  Status readAnnouncement(int r) {
    const Nanoseconds left = std::max(kMillisecond, deadline_ - monotonicNow());
    auto text = store_.get(fmt::format("{}/{}", options_.prefix, r), left);
    const std::string what = fmt::format("joining rank {}", options_.names(r));
    if (!text.ok()) {
      Error error = std::move(text.error());
      if (error.code != Code::kDeadlineExceeded && error.code != Code::kNotFound) return error;
      return unavailable(
          what, message("it announced no address within {}", secondsText(options_.timeout)));
    }
    const auto announced = Announcement::parse(*text);
    if (!announced)
      return unavailable(what, "it announced the address of another group or version");
    announced_[static_cast<std::size_t>(r)] = *announced;
    peers_[static_cast<std::size_t>(r)].place = announced->place();
    return {};
  }

  // Lower ranks connect to higher ones.
  bool dials(int r) const { return r > options_.rank; }
  bool met(int r) const { return peers_[static_cast<std::size_t>(r)].connection.get() >= 0; }
  const Announcement& announcementOf(int r) const {
    return announced_[static_cast<std::size_t>(r)];
  }
  Message connectingTo(int r) const {
    return message("connecting to rank {} at {}", options_.names(r), announcementOf(r).place());
  }

  Status dialTheRest() {
    const Nanoseconds now = monotonicNow();
    for (int r = options_.rank + 1; r < options_.size; ++r) {
      Dial& dial = dials_[static_cast<std::size_t>(r)];
      if (met(r) || dial.underWay || now < dial.notBefore) continue;
      LOCKSTEP_ASSIGN(const Endpoint endpoint,
                      endpointOf(announcementOf(r).host, announcementOf(r).port));
      UniqueFd connection(
          ::socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (!connection) return unavailable(connectingTo(r), std::strerror(errno));
      if (::connect(connection.get(), reinterpret_cast<const sockaddr*>(&endpoint.address),
                    endpoint.size) != 0 &&
          errno != EINPROGRESS)
        return unavailable(connectingTo(r), std::strerror(errno));
      dial.underWay = true;
      handshakes_.push_back({std::move(connection),
                             Greeting::dialled(options_, r, announcementOf(r).key), true, now});
    }
    return {};
  }

  // One pass over all sockets.
  Status turn() {
    std::vector<pollfd> events{{listener_.get(), POLLIN, 0}};
    for (const Handshake& one : handshakes_) {
      const bool writes = one.connecting || !one.greeting.out.empty();
      events.push_back(
          {one.connection.get(), static_cast<short>(POLLIN | (writes ? POLLOUT : 0)), 0});
    }
    const Nanoseconds left = deadline_ - monotonicNow();
    ::poll(events.data(), events.size(),
           static_cast<int>(std::clamp<Nanoseconds>(left / kMillisecond, 1, 50)));
    const Nanoseconds now = monotonicNow();
    std::size_t slot = 1;
    for (auto at = handshakes_.begin(); at != handshakes_.end(); ++slot) {
      const short happened = events[slot].revents;
      const bool late = !at->greeting.isDialled() && now - at->since > kGreetingLimit;
      Result<bool> goesOn = !late;
      if (happened != 0 && !late) goesOn = advance(*at);
      if (!goesOn.ok()) return goesOn.error();
      at = *goesOn ? std::next(at) : handshakes_.erase(at);
    }
    accept(now);
    return {};
  }

  void accept(Nanoseconds now) {
    for (std::size_t i = 0; i < kAcceptedAtOnce; ++i) {
      UniqueFd connection(
          ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!connection) break;
      handshakes_.push_back({std::move(connection),
                             Greeting::accepted(options_, announcementOf(options_.rank).key), false,
                             now});
    }
    const auto stranger = [](const Handshake& one) { return !one.greeting.isDialled(); };
    auto strangers =
        static_cast<std::size_t>(std::count_if(handshakes_.begin(), handshakes_.end(), stranger));
    for (; strangers > kMostStrangers + peers_.size(); --strangers)
      handshakes_.erase(std::find_if(handshakes_.begin(), handshakes_.end(), stranger));
  }

  // Advances the greeting as far as the socket permits. Returns false when it is over, either way;
  // an error ends the rendezvous.
  Result<bool> advance(Handshake& one) {
    Greeting& greeting = one.greeting;
    if (one.connecting) {
      int fault = 0;
      socklen_t size = sizeof fault;
      ::getsockopt(one.connection.get(), SOL_SOCKET, SO_ERROR, &fault, &size);
      if (fault != 0) return unavailable(connectingTo(greeting.peer()), std::strerror(fault));
      one.connecting = false;
    }
    for (;;) {
      if (!write(one)) return hungUp(greeting);
      char bytes[Greeting::kLongest];
      const ssize_t n = ::recv(one.connection.get(), bytes, greeting.expected(), 0);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
      if (n <= 0) return hungUp(greeting);
      switch (greeting.take({bytes, static_cast<std::size_t>(n)})) {
        case Greeting::Outcome::kContinues:
          break;
        case Greeting::Outcome::kMet:
          // One byte into an empty buffer is accepted at once, or the connection is broken.
          if (write(one) && greeting.out.empty()) join(one);
          return false;
        case Greeting::Outcome::kImpostor:
          if (!greeting.isDialled()) return false;
          return unavailable(connectingTo(greeting.peer()),
                             "another program, or another rank, answered");
      }
    }
  }

  bool write(Handshake& one) {
    std::string& out = one.greeting.out;
    while (!out.empty()) {
      const ssize_t n = ::send(one.connection.get(), out.data(), out.size(), MSG_NOSIGNAL);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
      if (n <= 0) return false;
      out.erase(0, static_cast<std::size_t>(n));
    }
    return true;
  }

  // An unauthenticated connection that closes is dropped. A peer that hangs up was overloaded:
  // retry.
  bool hungUp(const Greeting& greeting) {
    if (!greeting.isDialled()) return false;
    Dial& dial = dials_[static_cast<std::size_t>(greeting.peer())];
    dial.underWay = false;
    dial.notBefore = monotonicNow() + kDialPause;
    dial.last = "it hung up during the greeting";
    return false;
  }

  // A peer that reconnects has lost its previous connection.
  void join(Handshake& one) {
    const int peer = one.greeting.peer();
    if (!met(peer)) ++met_;
    peers_[static_cast<std::size_t>(peer)].connection = std::move(one.connection);
  }

  Error late() const {
    for (int r = 0; r < options_.size; ++r) {
      if (r == options_.rank || met(r)) continue;
      if (!dials(r))
        return unavailable(message("joining rank {}", options_.names(r)),
                           message("it did not connect within {}", secondsText(options_.timeout)));
      const std::string& last = dials_[static_cast<std::size_t>(r)].last;
      return unavailable(connectingTo(r), last.empty() ? message("it did not answer within {}",
                                                                 secondsText(options_.timeout))
                                                       : Message(last));
    }
    return unavailable("joining the group", "no rank is missing");
  }

  const GlooOptions& options_;
  Store& store_;
  const Nanoseconds deadline_;
  std::vector<MetPeer> peers_;
  std::vector<Announcement> announced_;
  std::vector<Dial> dials_;
  UniqueFd listener_;
  std::list<Handshake> handshakes_;
  int met_ = 0;
};

}  // namespace

Result<std::vector<MetPeer>> meet(const GlooOptions& options, Store& store) {
  return Rendezvous(options, store).run();
}

}  // namespace lockstep::comm
