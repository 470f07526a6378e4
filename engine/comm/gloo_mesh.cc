#include "engine/comm/gloo_mesh.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/device.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/memory.h"
#include "engine/base/unique_fd.h"
#include "engine/comm/rendezvous.h"

namespace lockstep::comm {
namespace {

constexpr int kSendBuffer = 1 << 20;
// Before a rank connects to a lower one, which does so itself if it takes part in the same call.
constexpr Nanoseconds kPatience = 1'000'000'000;

// Runs a call into Gloo; converts an exception to an error without Gloo's source location.
template <typename Call>
Status guarded(Call&& call) {
  std::string why;
  try {
    call();
    return {};
  } catch (const std::exception& exception) {
    why = exception.what();
  } catch (...) {
    why = "an unknown exception of Gloo";
  }
  if (why.starts_with('['))
    if (const auto end = why.find("] "); end != std::string::npos) why.erase(0, end + 2);
  const bool late =
      why.find("imeout") != std::string::npos || why.find("imed out") != std::string::npos;
  Error error =
      makeError(late ? Code::kDeadlineExceeded : Code::kAborted, "communication over Gloo failed");
  error.why = std::move(why);
  return error;
}

// Gloo writes to sockets without MSG_NOSIGNAL, so a closed one raises SIGPIPE for the thread. The
// signal is blocked and consumed here, whatever the process's disposition.
template <typename Call>
Status withoutPipeSignal(Call&& call) {
  sigset_t pipe, before;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  auto status = guarded(std::forward<Call>(call));
  if (!status.ok() && sigismember(&before, SIGPIPE) == 0) {
    const timespec now{};
    while (sigtimedwait(&pipe, nullptr, &now) < 0 && errno == EINTR) continue;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return status;
}

using Endpoint = std::pair<std::string, int>;  // numeric host, port

Endpoint endpointOf(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const auto& in = reinterpret_cast<const sockaddr_in&>(address);
  if (address.ss_family != AF_INET) return {};
  inet_ntop(AF_INET, &in.sin_addr, text.data(), text.size());
  return {text.data(), ntohs(in.sin_port)};
}
Endpoint endpointOf(int fd, decltype(getsockname)* end) {
  sockaddr_storage name{};
  socklen_t length = sizeof name;
  return end(fd, reinterpret_cast<sockaddr*>(&name), &length) == 0 ? endpointOf(name) : Endpoint{};
}

// Gloo does not expose a pair's descriptor; it is identified by the two endpoints of its
// connection.
Result<int> findDescriptor(const Endpoint& own, const Endpoint& other) {
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return systemError(errno, "/proc/self/fd");
  const std::unique_ptr<DIR, int (*)(DIR*)> owner(folder, closedir);
  while (const dirent* entry = readdir(folder)) {
    const std::string_view name = entry->d_name;
    int fd = -1;
    if (std::from_chars(name.data(), name.data() + name.size(), fd).ec != std::errc()) continue;
    if (endpointOf(fd, getsockname) == own && endpointOf(fd, getpeername) == other) return fd;
  }
  return makeError(Code::kUnavailable, "Gloo used a connection that was not made for it");
}

Error lost(Message why) {
  Error error = makeError(Code::kAborted, "communication over Gloo failed");
  error.why = std::move(why);
  return error;
}

// Message buffers of all peers in one mapping: pages are taken when a message is first there, so
// that a peer of small messages takes one in each direction, and one without messages none.
class MessageBoxes {
 public:
  MessageBoxes() = default;
  ~MessageBoxes() {
    if (boxes_ != nullptr) munmap(boxes_, bytes_);
  }
  MessageBoxes(const MessageBoxes&) = delete;
  MessageBoxes& operator=(const MessageBoxes&) = delete;

  Status reserve(std::size_t peers) {
    const std::size_t bytes = 2 * peers * kBoxBytes;
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
      return outOfMemory(message("the messages of {} ranks", peers),
                         static_cast<std::int64_t>(bytes));
    madvise(at, bytes, MADV_NOHUGEPAGE);
    boxes_ = static_cast<std::byte*>(at), bytes_ = bytes;
    return {};
  }
  std::byte* inbox(int peer) { return boxes_ + 2 * static_cast<std::size_t>(peer) * kBoxBytes; }
  std::byte* outbox(int peer) { return inbox(peer) + kBoxBytes; }

 private:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kBoxBytes = (kMessageBytes + kPage - 1) / kPage * kPage;
  std::byte* boxes_ = nullptr;
  std::size_t bytes_ = 0;
};

struct Peer {
  std::atomic<bool> open{false};  // what follows is there
  gloo::transport::Pair* pair = nullptr;
  int fd = -1;
  Preamble preamble;    // of the message that is being received
  std::size_t got = 0;  // bytes of it, and of its preamble
  FarewellReader received;
  std::unique_ptr<gloo::transport::Buffer> out;
};

}  // namespace

struct GlooMesh::State {
  const GlooOptions options;
  std::unique_ptr<Rendezvous> rendezvous;
  std::shared_ptr<gloo::transport::Device> device;
  std::shared_ptr<gloo::transport::Context> context;
  MessageBoxes boxes;  // outlive the peers' buffers
  std::mutex adopting;
  std::vector<Peer> peers;

  explicit State(const GlooOptions& given)
      : options(given), peers(static_cast<std::size_t>(given.size)) {}
  ~State() {
    for (Peer& peer : peers) {
      peer.out.reset();
      if (peer.fd >= 0) close(peer.fd);
    }
  }

  Peer& at(int rank) { return peers[static_cast<std::size_t>(rank)]; }

  // Calls visit(peer) for open connections, among them all that were taken before this call.
  template <typename Visit>
  void forOpen(Visit&& visit) {
    { const std::lock_guard taken(adopting); }
    for (Peer& peer : peers)
      if (peer.open.load(std::memory_order_acquire)) visit(peer);
  }

  void make() {
    // For the placeholder connections: a random loopback address, since Gloo ends the process if a
    // stray connection breaks off while being accepted.
    std::random_device random;
    const std::string address =
        fmt::format("127.{}.{}.{}", 1 + random() % 254, random() % 256, 1 + random() % 200);
    device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(address.c_str()));
    context = device->createContext(options.rank, options.size);
    context->setTimeout(std::chrono::milliseconds(1000));  // of the placeholder connections
  }

  // Builds a Gloo pair over an already established and greeted connection. Gloo accepts whoever
  // connects first to a pair's listener, so the pair gets a listener on the loopback and a
  // placeholder connection of our own. Once that is in synchronous mode, where only the calling
  // thread reads and writes, the real connection replaces it under Gloo's descriptor.
  Status adopt(int r, UniqueFd connection) {
    Peer& peer = at(r);
    if (!connection) return makeError(Code::kAborted, "communication over Gloo failed");
    LOCKSTEP_TRY(prepare(connection.get(), options));
    UniqueFd standIn;
    Endpoint listener;
    Status made = guarded([&] {
      peer.pair = context->createPair(r).get();
      const sockaddr_storage place =
          gloo::transport::tcp::Address(peer.pair->address().bytes()).getSockaddr();
      listener = endpointOf(place);
      standIn = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (::connect(standIn.get(), reinterpret_cast<const sockaddr*>(&place),
                    sizeof(sockaddr_in)) != 0)
        throw std::runtime_error(std::strerror(errno));
      // The lower of two addresses listens.
      sockaddr_storage higher = place;
      auto& number = reinterpret_cast<sockaddr_in&>(higher).sin_addr.s_addr;
      number = htonl(ntohl(number) + 1);
      peer.pair->connect(gloo::transport::tcp::Address(higher).bytes());
      peer.pair->setSync(true, false);
      peer.out = peer.pair->createSendBuffer(kDataSlot, boxes.outbox(r), kMessageBytes);
      // Gloo sizes a send buffer for the largest message so far; this one keeps it from resizing
      // later.
      peer.out->send(0, kMessageBytes);
      peer.out->waitSend();
    });
    if (!made.ok()) {
      made.error().code = Code::kResourceExhausted;  // no peer takes part in this
      return made;
    }
    LOCKSTEP_ASSIGN(const int descriptor,
                    findDescriptor(listener, endpointOf(standIn.get(), getsockname)));
    if (dup3(connection.get(), descriptor, O_CLOEXEC) < 0)
      return systemError(errno, "a descriptor for a connection");
    peer.fd = connection.release();
    return {};
  }

  // The socket options Gloo sets in synchronous mode, and our send-buffer size.
  static Status prepare(int fd, const GlooOptions& options) {
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const timeval limit{options.timeout / 1'000'000'000, options.timeout / 1000 % 1'000'000};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    int size = kSendBuffer;
    socklen_t length = sizeof size;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, length);
    if (getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, &length) == 0 && size < 4 * kChunkBytes) {
      Error error = makeError(Code::kFailedPrecondition, "the send buffer of a connection");
      error.why = message("this host limits it to {} bytes; expected {}", size, 4 * kChunkBytes);
      error.next = "raise net.core.wmem_max";
      return error;
    }
    return {};
  }
};

GlooMesh::GlooMesh(std::unique_ptr<State> state) : state_(std::move(state)) {}
GlooMesh::~GlooMesh() = default;

Result<std::unique_ptr<GlooMesh>> GlooMesh::join(const GlooOptions& options, Store& store) {
  auto state = std::make_unique<State>(options);
  LOCKSTEP_ASSIGN(state->rendezvous, Rendezvous::join(options, store));
  LOCKSTEP_TRY(state->boxes.reserve(state->peers.size()));
  LOCKSTEP_TRY(guarded([&] { state->make(); }));
  std::unique_ptr<GlooMesh> mesh(new GlooMesh(std::move(state)));
  for (const int r : ringNeighbours(options.rank, options.size))
    LOCKSTEP_TRY(mesh->open(r, 0).status());
  return mesh;
}

bool GlooMesh::isOpen(int peer) const {
  return state_->at(peer).open.load(std::memory_order_acquire);
}

Status GlooMesh::request(int peer) {
  return isOpen(peer) ? Status() : state_->rendezvous->connect(peer, 0, kPatience).status();
}

Status GlooMesh::requestNow(int peer) {
  return isOpen(peer) ? Status() : state_->rendezvous->connect(peer, 0, 0).status();
}

Result<bool> GlooMesh::open(int peer, Nanoseconds wait) {
  return openWithin(peer, wait, kPatience);
}

Result<bool> GlooMesh::openWithin(int r, Nanoseconds wait, Nanoseconds patience) {
  if (isOpen(r)) return true;
  LOCKSTEP_ASSIGN(const bool met, state_->rendezvous->connect(r, wait, patience));
  if (!met) return false;
  const std::lock_guard lock(state_->adopting);
  if (isOpen(r)) return true;  // by another thread
  LOCKSTEP_TRY(state_->adopt(r, state_->rendezvous->take(r)));
  state_->at(r).open.store(true, std::memory_order_release);
  return true;
}

std::string GlooMesh::placeOf(int peer) const { return state_->rendezvous->placeOf(peer); }

int GlooMesh::descriptor(int peer) const { return state_->at(peer).fd; }
std::byte* GlooMesh::outbox(int peer) { return state_->boxes.outbox(peer); }
const std::byte* GlooMesh::inbox(int peer) const { return state_->boxes.inbox(peer); }

Status GlooMesh::sendMessage(int peer, std::int64_t payload) {
  auto& out = *state_->at(peer).out;
  return withoutPipeSignal([&] {
    out.send(0, sizeof(MessageHeader) + static_cast<std::size_t>(payload));
    out.waitSend();
  });
}

Result<GlooMesh::Received> GlooMesh::receiveMessage(int r) {
  Peer& peer = state_->at(r);
  constexpr std::size_t kHead = sizeof peer.preamble;
  for (;;) {
    const bool inHead = peer.got < kHead;
    std::byte* const to = inHead ? reinterpret_cast<std::byte*>(&peer.preamble) + peer.got
                                 : state_->boxes.inbox(r) + (peer.got - kHead);
    const std::size_t end = inHead ? kHead : kHead + peer.preamble.length;
    const ssize_t n = recv(peer.fd, to, end - peer.got, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return Received::kPart;
    if (n <= 0)
      return lost(n < 0 ? Message(std::strerror(errno)) : "the peer closed the connection");
    peer.got += static_cast<std::size_t>(n);
    if (peer.got < end) continue;
    if (!inHead) {
      peer.got = 0;
      return Received::kMessage;
    }
    const auto slot = slotOf(peer.preamble);
    if (!slot)
      return lost(message("the peer announced a message of {} bytes, which does not fit the buffer",
                          peer.preamble.length));
    if (*slot == kFarewellSlot) return Received::kFarewell;
  }
}

int GlooMesh::watch() const { return state_->rendezvous->watch(); }

std::optional<int> GlooMesh::endedPeer() {
  while (const std::optional<int> peer = state_->rendezvous->endedPeer())
    if (const auto open = openWithin(*peer, 0, 0); open.ok() && *open) return peer;
  return std::nullopt;
}

bool GlooMesh::hasEnded(int peer) const {
  if (!isOpen(peer)) return false;
  pollfd event{descriptor(peer), POLLRDHUP, 0};
  return poll(&event, 1, 0) == 1;
}

std::optional<Farewell> GlooMesh::farewellOf(int peer) const {
  const int fd = descriptor(peer);
  int unread = 0;
  if (ioctl(fd, FIONREAD, &unread) != 0 || unread <= 0) return std::nullopt;
  std::vector<std::byte> bytes(static_cast<std::size_t>(unread));
  const ssize_t n = recv(fd, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  FarewellReader reader;
  if (n > 0) reader.add({bytes.data(), static_cast<std::size_t>(n)});
  return reader.farewell(static_cast<int>(state_->peers.size()));
}

void GlooMesh::sayFarewell(const Farewell& words) {
  const std::string message = farewellMessage(words);
  state_->rendezvous->sayFarewell(message);
  // Messages, which are sent only while the socket polls writable, leave room for it.
  state_->forOpen([&](const Peer& peer) { sendLast(peer.fd, message); });
}

Heard GlooMesh::lastOf(int r, Nanoseconds limit) {
  Peer& peer = state_->at(r);
  const Nanoseconds deadline = monotonicNow() + limit;
  const auto open = openWithin(r, limit, 0);
  if (!open.ok()) return {Last::kUnreachable, {}};
  if (!*open) return {Last::kSilence, {}};
  std::array<std::byte, 16384> bytes;
  for (;;) {
    const ssize_t n = recv(peer.fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    const bool ends = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    if (n > 0) peer.received.add({bytes.data(), static_cast<std::size_t>(n)});
    const auto farewell = peer.received.farewell(static_cast<int>(state_->peers.size()));
    if (farewell) return {Last::kFarewell, *farewell};
    if (ends) return {Last::kEnd, {}};
    const Nanoseconds left = deadline - monotonicNow();
    // A peer that goes on sending gets twice the limit.
    if (left <= (n > 0 ? -limit : 0)) return {Last::kSilence, {}};
    pollfd event{peer.fd, POLLIN, 0};
    if (n < 0) poll(&event, 1, static_cast<int>(left / 1'000'000 + 1));
  }
}

void GlooMesh::cut() {
  state_->rendezvous->close();
  state_->forOpen([](const Peer& peer) { shutdown(peer.fd, SHUT_RDWR); });
}

}  // namespace lockstep::comm
