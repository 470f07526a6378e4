#include "engine/comm/rendezvous.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <list>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "engine/base/hex.h"
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

// The greeting, after TCP has connected:
// - connecting side: magic, its rank, the rank it wants, a nonce
// - accepting side: a nonce, the proof of "accept"
// - connecting side: the proof of "connect"
// - accepting side: kWelcome
// A proof is HMAC-SHA-256 under the published key over the word, the group, both ranks and both
// nonces.
constexpr std::string_view kMagic = "LSGROUP2";
constexpr std::size_t kNonceBytes = 16, kProofBytes = 32, kKeyBytes = 32;
constexpr std::size_t kHelloBytes = 8 + 4 + 4 + kNonceBytes;
constexpr char kWelcome = '+';

std::string randomBytes(std::size_t count) {
  std::string bytes(count, '\0');
  LOCKSTEP_CHECK(
      RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) == 1,
      "no random numbers");
  return bytes;
}

std::string rankBytes(int rank) {
  const std::uint32_t word = htonl(static_cast<std::uint32_t>(rank));
  std::string bytes(sizeof word, '\0');
  std::memcpy(bytes.data(), &word, sizeof word);
  return bytes;
}
int rankAt(std::string_view bytes) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data(), sizeof word);
  return static_cast<int>(ntohl(word));
}

bool sameBytes(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

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

// A rank's entry in the store: "host port key".
struct Announcement {
  std::string host, key;
  int port = 0;
  std::string text() const { return fmt::format("{} {} {}", host, port, toHex(key)); }
  std::string place() const {
    return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                               : fmt::format("[{}]:{}", host, port);
  }
  static std::optional<Announcement> parse(std::string_view text) {
    Announcement out;
    const auto first = text.find(' '), second = text.rfind(' ');
    if (first == std::string_view::npos || second == first) return std::nullopt;
    out.host = text.substr(0, first);
    const std::string_view port = text.substr(first + 1, second - first - 1);
    const auto [end, code] = std::from_chars(port.data(), port.data() + port.size(), out.port);
    out.key = fromHex(text.substr(second + 1)).value_or("");
    if (code != std::errc() || end != port.data() + port.size() || out.key.size() != kKeyBytes)
      return std::nullopt;
    return out;
  }
};

// A connection during the greeting. Nothing here blocks.
struct Greeting {
  enum class Stage { kConnecting, kHello, kChallenge, kProof, kWelcome };
  UniqueFd connection;
  Stage stage = Stage::kConnecting;
  int peer = -1;         // −1: not yet known
  bool dialled = false;  // opened by this rank
  Nanoseconds since = 0;
  std::string mine, theirs;  // nonces
  std::string in, out;
  std::size_t expected = 0;  // size of the message being read
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
    own.key = randomBytes(kKeyBytes);
    announced_[static_cast<std::size_t>(options_.rank)] = own;
    return store_.set(fmt::format("{}/{}", options_.prefix, options_.rank), own.text());
  }

  Status readAnnouncement(int r) {
    const Nanoseconds left = std::max(kMillisecond, deadline_ - monotonicNow());
    auto text = store_.get(fmt::format("{}/{}", options_.prefix, r), left);
    const std::string what = fmt::format("joining rank {}", r);
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
    return message("connecting to rank {} at {}", r, announcementOf(r).place());
  }

  Status dialTheRest() {
    const Nanoseconds now = monotonicNow();
    for (int r = options_.rank + 1; r < options_.size; ++r) {
      Dial& dial = dials_[static_cast<std::size_t>(r)];
      if (met(r) || dial.underWay || now < dial.notBefore) continue;
      LOCKSTEP_ASSIGN(const Endpoint endpoint,
                      endpointOf(announcementOf(r).host, announcementOf(r).port));
      Greeting greeting;
      greeting.connection = UniqueFd(
          ::socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (greeting.connection.get() < 0) return unavailable(connectingTo(r), std::strerror(errno));
      greeting.peer = r;
      greeting.dialled = true;
      greeting.since = now;
      if (::connect(greeting.connection.get(), reinterpret_cast<const sockaddr*>(&endpoint.address),
                    endpoint.size) != 0 &&
          errno != EINPROGRESS)
        return unavailable(connectingTo(r), std::strerror(errno));
      dial.underWay = true;
      greetings_.push_back(std::move(greeting));
    }
    return {};
  }

  // One pass over all sockets.
  Status turn() {
    std::vector<pollfd> events{{listener_.get(), POLLIN, 0}};
    for (const Greeting& greeting : greetings_) {
      const bool writes = greeting.stage == Greeting::Stage::kConnecting || !greeting.out.empty();
      events.push_back(
          {greeting.connection.get(), static_cast<short>(POLLIN | (writes ? POLLOUT : 0)), 0});
    }
    const Nanoseconds left = deadline_ - monotonicNow();
    ::poll(events.data(), events.size(),
           static_cast<int>(std::clamp<Nanoseconds>(left / kMillisecond, 1, 50)));
    const Nanoseconds now = monotonicNow();
    std::size_t slot = 1;
    for (auto at = greetings_.begin(); at != greetings_.end(); ++slot) {
      const short happened = events[slot].revents;
      const bool late = !at->dialled && now - at->since > kGreetingLimit;
      Result<bool> goesOn = !late;
      if (happened != 0 && !late) goesOn = advance(*at);
      if (!goesOn.ok()) return goesOn.error();
      at = *goesOn ? std::next(at) : greetings_.erase(at);
    }
    accept(now);
    return {};
  }

  void accept(Nanoseconds now) {
    for (std::size_t i = 0; i < kAcceptedAtOnce; ++i) {
      Greeting greeting;
      greeting.connection =
          UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (greeting.connection.get() < 0) break;
      greeting.stage = Greeting::Stage::kHello;
      greeting.expected = kHelloBytes;
      greeting.since = now;
      greetings_.push_back(std::move(greeting));
    }
    const auto stranger = [](const Greeting& greeting) { return !greeting.dialled; };
    auto strangers =
        static_cast<std::size_t>(std::count_if(greetings_.begin(), greetings_.end(), stranger));
    for (; strangers > kMostStrangers + peers_.size(); --strangers)
      greetings_.erase(std::find_if(greetings_.begin(), greetings_.end(), stranger));
  }

  // Advances the greeting as far as the socket permits. Returns false when it is over, either way;
  // an error ends the rendezvous.
  Result<bool> advance(Greeting& greeting) {
    if (greeting.stage == Greeting::Stage::kConnecting) {
      int fault = 0;
      socklen_t size = sizeof fault;
      ::getsockopt(greeting.connection.get(), SOL_SOCKET, SO_ERROR, &fault, &size);
      if (fault != 0) return unavailable(connectingTo(greeting.peer), std::strerror(fault));
      greeting.mine = randomBytes(kNonceBytes);
      greeting.out =
          std::string(kMagic) + rankBytes(options_.rank) + rankBytes(greeting.peer) + greeting.mine;
      greeting.stage = Greeting::Stage::kChallenge;
      greeting.expected = kNonceBytes + kProofBytes;
    }
    for (;;) {
      if (!write(greeting)) return hungUp(greeting);
      const bool whole = greeting.in.size() == greeting.expected;
      if (!whole) {
        char bytes[kHelloBytes + kProofBytes];
        // Never reads beyond the greeting: what follows belongs to the group.
        const ssize_t n =
            ::recv(greeting.connection.get(), bytes, greeting.expected - greeting.in.size(), 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
        if (n <= 0) return hungUp(greeting);
        greeting.in.append(bytes, static_cast<std::size_t>(n));
        continue;
      }
      const std::string message = std::exchange(greeting.in, {});
      LOCKSTEP_ASSIGN(const bool goesOn, answer(greeting, message));
      if (!goesOn) return false;
    }
  }

  bool write(Greeting& greeting) {
    while (!greeting.out.empty()) {
      const ssize_t n =
          ::send(greeting.connection.get(), greeting.out.data(), greeting.out.size(), MSG_NOSIGNAL);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
      if (n <= 0) return false;
      greeting.out.erase(0, static_cast<std::size_t>(n));
    }
    return true;
  }

  // An unauthenticated connection that closes is dropped. A peer that hangs up was overloaded:
  // retry.
  bool hungUp(Greeting& greeting) {
    if (!greeting.dialled) return false;
    Dial& dial = dials_[static_cast<std::size_t>(greeting.peer)];
    dial.underWay = false;
    dial.notBefore = monotonicNow() + kDialPause;
    dial.last = "it hung up during the greeting";
    return false;
  }

  Result<bool> answer(Greeting& greeting, std::string_view message) {
    switch (greeting.stage) {
      case Greeting::Stage::kConnecting:
        break;
      case Greeting::Stage::kHello: {
        const int from = rankAt(message.substr(8)), to = rankAt(message.substr(12));
        if (!message.starts_with(kMagic) || to != options_.rank || from < 0 || from >= to)
          return false;
        greeting.peer = from;
        greeting.theirs = message.substr(16);
        greeting.mine = randomBytes(kNonceBytes);
        greeting.out = greeting.mine + proof(greeting, "accept");
        greeting.stage = Greeting::Stage::kProof;
        greeting.expected = kProofBytes;
        return true;
      }
      case Greeting::Stage::kChallenge:
        greeting.theirs = message.substr(0, kNonceBytes);
        if (!sameBytes(message.substr(kNonceBytes), proof(greeting, "accept")))
          return unavailable(connectingTo(greeting.peer),
                             "another program, or another rank, answered");
        greeting.out = proof(greeting, "connect");
        greeting.stage = Greeting::Stage::kWelcome;
        greeting.expected = 1;
        return true;
      case Greeting::Stage::kProof:
        if (!sameBytes(message, proof(greeting, "connect"))) return false;
        greeting.out = kWelcome;
        // One byte into an empty buffer is accepted at once, or the connection is broken.
        if (!write(greeting) || !greeting.out.empty()) return false;
        return join(greeting);
      case Greeting::Stage::kWelcome:
        return join(greeting);
    }
    return false;
  }

  // A peer that reconnects has lost its previous connection.
  bool join(Greeting& greeting) {
    if (!met(greeting.peer)) ++met_;
    peers_[static_cast<std::size_t>(greeting.peer)].connection = std::move(greeting.connection);
    return false;
  }

  std::string proof(const Greeting& greeting, std::string_view word) const {
    const int from = greeting.dialled ? options_.rank : greeting.peer;
    const int to = greeting.dialled ? greeting.peer : options_.rank;
    const std::string text =
        fmt::format("{} {} of {} ranks\n", word, options_.prefix, options_.size) + rankBytes(from) +
        rankBytes(to) +
        (greeting.dialled ? greeting.mine + greeting.theirs : greeting.theirs + greeting.mine);
    const std::string& key = announcementOf(to).key;
    std::string out(kProofBytes, '\0');
    LOCKSTEP_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                        reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                        reinterpret_cast<unsigned char*>(out.data()), nullptr) != nullptr);
    return out;
  }

  Error late() const {
    for (int r = 0; r < options_.size; ++r) {
      if (r == options_.rank || met(r)) continue;
      if (!dials(r))
        return unavailable(message("joining rank {}", r),
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
  std::list<Greeting> greetings_;
  int met_ = 0;
};

}  // namespace

Result<std::vector<MetPeer>> meet(const GlooOptions& options, Store& store) {
  return Rendezvous(options, store).run();
}

}  // namespace lockstep::comm
