#include "engine/comm/rendezvous.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

#include "engine/base/threads.h"
#include "engine/comm/network_address.h"

namespace lockstep::comm {
namespace {

constexpr Nanoseconds kMillisecond = 1'000'000;
constexpr Nanoseconds kGreetingLimit =
    5'000 * kMillisecond;  // of an incoming connection, from accept to proof
constexpr Nanoseconds kDialPause = 50 * kMillisecond;    // before reconnecting
constexpr Nanoseconds kAcceptPause = 50 * kMillisecond;  // without descriptors
// For an address: the store may be slow, so each attempt waits twice as long as the one before.
constexpr Nanoseconds kStoreWait = 250 * kMillisecond, kLongestStoreWait = 4'000 * kMillisecond;
constexpr int kDialsAtOnce = 64;
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

bool outOfDescriptors(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

void sendLast(int fd, const std::string& words) {
  // A broken connection needs no farewell.
  static_cast<void>(::send(fd, words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  ::shutdown(fd, SHUT_WR);
}

std::vector<int> ringNeighbours(int rank, int size) {
  std::vector<int> out{(rank + 1) % size, (rank + size - 1) % size};
  if (size <= 2) out.pop_back();
  std::erase(out, rank);
  return out;
}

Rendezvous::Rendezvous(const GlooOptions& options, Store& store)
    : options_(options), store_(store), peers_(static_cast<std::size_t>(options.size)) {}

Rendezvous::~Rendezvous() {
  close();
  if (thread_.joinable()) thread_.join();
}

Result<std::unique_ptr<Rendezvous>> Rendezvous::join(const GlooOptions& options, Store& store) {
  std::unique_ptr<Rendezvous> out(new Rendezvous(options, store));
  LOCKSTEP_TRY(out->announce());
  LOCKSTEP_TRY(out->joinRing());
  return out;
}

Status Rendezvous::announce() {
  Announcement own;
  LOCKSTEP_ASSIGN(own.host, ownAddress(options_.address, options_.interface));
  if (options_.size == 1) return {};
  auto listener = listenAt(own.host);
  if (!listener.ok())
    return unavailable(std::move(listener.error().what), std::move(listener.error().why));
  listener_ = std::move(listener->socket);
  wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  watch_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!wake_ || !watch_) return systemError(errno, "a descriptor for a connection");
  own.port = listener->port;
  own.key = key_ = Announcement::newKey();
  thread_ = helperThread("rendezvous", [this] { run(); });
  return store_.set(fmt::format("{}/{}", options_.prefix, options_.rank), own.text());
}

// Each rank is missed by two, at the least, while the group forms.
Status Rendezvous::joinRing() {
  const Nanoseconds deadline = monotonicNow() + options_.timeout;
  const Nanoseconds never = 2 * options_.timeout;  // a lower neighbour connects itself
  const std::vector<int> neighbours = ringNeighbours(options_.rank, options_.size);
  for (const int r : neighbours) {
    LOCKSTEP_ASSIGN(const bool found, find(r, deadline - monotonicNow()));
    if (!found)
      return unavailable(
          message("joining rank {}", options_.names(r)),
          message("it announced no address within {}", secondsText(options_.timeout)));
  }
  for (const int r : neighbours) LOCKSTEP_TRY(connect(r, 0, never).status());
  for (const int r : neighbours) {
    LOCKSTEP_ASSIGN(const bool met, connect(r, deadline - monotonicNow(), never));
    if (!met) return late(r);
  }
  return {};
}

Result<bool> Rendezvous::find(int peer, Nanoseconds wait) {
  auto text = store_.get(fmt::format("{}/{}", options_.prefix, peer), std::max(wait, kMillisecond));
  if (!text.ok()) {
    if (text.error().code != Code::kDeadlineExceeded && text.error().code != Code::kNotFound)
      return std::move(text.error());
    return false;
  }
  auto announced = Announcement::parse(*text);
  if (!announced)
    return unavailable(message("joining rank {}", options_.names(peer)),
                       "it announced the address of another group or version");
  const std::lock_guard lock(mutex_);
  at(peer).announced = std::move(*announced);
  return true;
}

Error Rendezvous::late(int peer) {
  const std::lock_guard lock(mutex_);
  if (!at(peer).wanted)
    return unavailable(message("joining rank {}", options_.names(peer)),
                       message("it did not connect within {}", secondsText(options_.timeout)));
  const std::string& last = at(peer).last;
  return unavailable(connectingTo(peer), last.empty() ? message("it did not answer within {}",
                                                                secondsText(options_.timeout))
                                                      : Message(last));
}

Result<bool> Rendezvous::connect(int r, Nanoseconds wait, Nanoseconds patience) {
  const Nanoseconds now = monotonicNow();
  std::unique_lock lock(mutex_);
  Peer& peer = at(r);
  if (peer.since == 0) peer.since = now;
  const bool dials = r > options_.rank || now - peer.since >= patience;
  if (dials && !peer.wanted && !peer.met && !closed_) {
    if (!peer.announced) {
      const Nanoseconds storeWait = std::clamp(2 * peer.storeWait, kStoreWait, kLongestStoreWait);
      peer.storeWait = storeWait;
      lock.unlock();
      LOCKSTEP_ASSIGN(const bool found, find(r, storeWait));
      if (!found) return false;
      lock.lock();
    }
    peer.wanted = true;
    wake();
  }
  changed_.wait_for(lock, std::chrono::nanoseconds(now + wait - monotonicNow()),
                    [&] { return peer.met || peer.failure || closed_; });
  if (closed_) return makeError(Code::kAborted, "connecting to rank {}", options_.names(r));
  if (!peer.met && peer.failure) return *peer.failure;
  return peer.met;
}

UniqueFd Rendezvous::take(int peer) {
  const std::lock_guard lock(mutex_);
  return std::move(at(peer).connection);
}

std::optional<int> Rendezvous::endedPeer() {
  epoll_event event{};
  if (::epoll_wait(watch(), &event, 1, 0) != 1) return std::nullopt;
  return static_cast<int>(event.data.fd);
}

std::string Rendezvous::placeOf(int peer) {
  const std::lock_guard lock(mutex_);
  return at(peer).announced ? at(peer).announced->place() : "";
}

void Rendezvous::sayFarewell(std::string words) {
  const std::lock_guard lock(mutex_);
  farewell_ = std::move(words);
  for (const Peer& peer : peers_)
    if (peer.connection) sendLast(peer.connection.get(), farewell_);
}

void Rendezvous::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (Peer& peer : peers_) peer.connection.reset();
  wake();
  changed_.notify_all();
}

void Rendezvous::wake() const {
  if (wake_) ::eventfd_write(wake_.get(), 1);
}

void Rendezvous::run() {
  std::unique_lock lock(mutex_);
  while (!closed_ && listener_) {
    dialAll();
    std::vector<pollfd> watched = events();
    const int milliseconds = pollMilliseconds();
    lock.unlock();
    ::poll(watched.data(), watched.size(), milliseconds);
    lock.lock();
    ::eventfd_t woken = 0;
    ::eventfd_read(wake_.get(), &woken);
    advanceAll(watched);
  }
  listener_.reset();
  handshakes_.clear();
}

bool Rendezvous::isToDial(const Peer& peer) const {
  return peer.wanted && !peer.met && !peer.dialling && !peer.failure;
}

// From this rank on around the ring, so that not all connect to the same rank first.
void Rendezvous::dialAll() {
  const Nanoseconds now = monotonicNow();
  for (int step = 1; step < options_.size && dialling_ < kDialsAtOnce; ++step) {
    const int r = (options_.rank + step) % options_.size;
    if (!isToDial(at(r)) || now < at(r).notBefore) continue;
    if (Status status = dial(r); !status.ok()) fail(r, std::move(status.error()));
  }
}

Status Rendezvous::dial(int r) {
  const Announcement& announced = *at(r).announced;
  LOCKSTEP_ASSIGN(const Endpoint endpoint, endpointOf(announced.host, announced.port));
  UniqueFd connection(
      ::socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!connection && outOfDescriptors(errno)) return systemError(errno, connectingTo(r));
  if (!connection) return unavailable(connectingTo(r), std::strerror(errno));
  if (::connect(connection.get(), reinterpret_cast<const sockaddr*>(&endpoint.address),
                endpoint.size) != 0 &&
      errno != EINPROGRESS)
    return unavailable(connectingTo(r), std::strerror(errno));
  at(r).dialling = true;
  ++dialling_;
  handshakes_.push_back(
      {std::move(connection), Greeting::dialled(options_, r, announced.key), true, monotonicNow()});
  return {};
}

void Rendezvous::endDial(Peer& peer) { dialling_ -= std::exchange(peer.dialling, false) ? 1 : 0; }

// wake_, listener_, then the handshakes.
std::vector<pollfd> Rendezvous::events() const {
  const bool accepts = monotonicNow() >= acceptFrom_;
  std::vector<pollfd> out{{wake_.get(), POLLIN, 0}, {accepts ? listener_.get() : -1, POLLIN, 0}};
  for (const Handshake& one : handshakes_) {
    const bool writes = one.connecting || !one.greeting.out.empty();
    out.push_back({one.connection.get(), static_cast<short>(POLLIN | (writes ? POLLOUT : 0)), 0});
  }
  return out;
}

int Rendezvous::pollMilliseconds() const {
  constexpr int kStep = 50, kForever = -1;
  const bool pending =
      !handshakes_.empty() || monotonicNow() < acceptFrom_ ||
      std::any_of(peers_.begin(), peers_.end(), [&](const Peer& peer) { return isToDial(peer); });
  return pending ? kStep : kForever;
}

void Rendezvous::advanceAll(const std::vector<pollfd>& events) {
  const Nanoseconds now = monotonicNow();
  std::size_t slot = 2;
  for (auto one = handshakes_.begin(); one != handshakes_.end(); ++slot) {
    const bool goesOn = !isOver(*one, now) && (events[slot].revents == 0 || advance(*one));
    one = goesOn ? std::next(one) : handshakes_.erase(one);
  }
  std::erase_if(handshakes_, [&](const Handshake& one) { return isOver(one, now); });
  if (listener_ && now >= acceptFrom_) accept(now);
}

bool Rendezvous::isOver(const Handshake& one, Nanoseconds now) {
  return one.greeting.isDialled() ? at(one.greeting.peer()).met : now - one.since > kGreetingLimit;
}

void Rendezvous::accept(Nanoseconds now) {
  for (std::size_t i = 0; i < kAcceptedAtOnce; ++i) {
    UniqueFd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection) {
      if (outOfDescriptors(errno)) acceptFrom_ = now + kAcceptPause;
      break;
    }
    handshakes_.push_back({std::move(connection), Greeting::accepted(options_, key_), false, now});
  }
  const auto stranger = [](const Handshake& one) { return !one.greeting.isDialled(); };
  auto strangers =
      static_cast<std::size_t>(std::count_if(handshakes_.begin(), handshakes_.end(), stranger));
  for (; strangers > kMostStrangers + peers_.size(); --strangers)
    handshakes_.erase(std::find_if(handshakes_.begin(), handshakes_.end(), stranger));
}

bool Rendezvous::advance(Handshake& one) {
  Greeting& greeting = one.greeting;
  if (one.connecting && !isConnected(one)) return false;
  for (;;) {
    if (!write(one)) {
      hungUp(greeting);
      return false;
    }
    char bytes[Greeting::kLongest];
    const ssize_t n = ::recv(one.connection.get(), bytes, greeting.expected(), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (n <= 0) {
      hungUp(greeting);
      return false;
    }
    switch (greeting.take({bytes, static_cast<std::size_t>(n)})) {
      case Greeting::Outcome::kContinues:
        break;
      case Greeting::Outcome::kMet:
        // One byte into an empty buffer is accepted at once, or the connection is broken.
        if (admits(greeting) && write(one) && greeting.out.empty()) add(one);
        return false;
      case Greeting::Outcome::kImpostor:
        if (greeting.isDialled())
          fail(greeting.peer(), unavailable(connectingTo(greeting.peer()),
                                            "another program, or another rank, answered"));
        return false;
    }
  }
}

bool Rendezvous::isConnected(Handshake& one) {
  int fault = 0;
  socklen_t size = sizeof fault;
  ::getsockopt(one.connection.get(), SOL_SOCKET, SO_ERROR, &fault, &size);
  one.connecting = false;
  if (fault == 0) return true;
  const int peer = one.greeting.peer();
  fail(peer, unavailable(connectingTo(peer), std::strerror(fault)));
  return false;
}

bool Rendezvous::write(Handshake& one) {
  std::string& out = one.greeting.out;
  while (!out.empty()) {
    const ssize_t n = ::send(one.connection.get(), out.data(), out.size(), MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (n <= 0) return false;
    out.erase(0, static_cast<std::size_t>(n));
  }
  return true;
}

// Whether the connection is to be the one with its peer. The lower rank decides if both connect. A
// peer that connects again before the first connection was used has lost that.
bool Rendezvous::admits(const Greeting& greeting) {
  const Peer& peer = at(greeting.peer());
  if (peer.met) return peer.connection && peer.dialled == greeting.isDialled();
  return greeting.isDialled() || greeting.peer() < options_.rank || !peer.dialling;
}

void Rendezvous::add(Handshake& one) {
  const int r = one.greeting.peer();
  Peer& peer = at(r);
  epoll_event ended{EPOLLRDHUP | EPOLLONESHOT, {}};
  ended.data.fd = r;
  if (::epoll_ctl(watch(), EPOLL_CTL_ADD, one.connection.get(), &ended) != 0)
    return fail(r, systemError(errno, "a descriptor for a connection"));
  endDial(peer);
  peer.dialled = one.greeting.isDialled();
  peer.connection = std::move(one.connection);
  if (!farewell_.empty()) sendLast(peer.connection.get(), farewell_);
  met_ += std::exchange(peer.met, true) ? 0 : 1;
  if (met_ == options_.size - 1) listener_.reset();
  changed_.notify_all();
}

void Rendezvous::fail(int peer, Error error) {
  endDial(at(peer));
  at(peer).failure = std::move(error);
  changed_.notify_all();
}

// An unauthenticated connection that closes is dropped. A peer that hangs up is overloaded, or
// connects itself: retry.
void Rendezvous::hungUp(const Greeting& greeting) {
  if (!greeting.isDialled()) return;
  Peer& peer = at(greeting.peer());
  endDial(peer);
  peer.notBefore = monotonicNow() + kDialPause;
  peer.last = "it hung up during the greeting";
}

Message Rendezvous::connectingTo(int peer) {
  return message("connecting to rank {} at {}", options_.names(peer), at(peer).announced->place());
}

}  // namespace lockstep::comm
