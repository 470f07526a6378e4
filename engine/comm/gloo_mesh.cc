#include "engine/comm/gloo_mesh.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/device.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <vector>

#include "engine/base/hash.h"
#include "engine/comm/network_address.h"

namespace lockstep::comm {
namespace {

constexpr int kDataSlot = 1;
constexpr int kFarewellSlot = 2;
constexpr std::uint64_t kFarewellMagic = 0x6c6f636b62796521u;
constexpr std::uint8_t kHello = 0xff;
constexpr int kSendBuffer = 1 << 20;
constexpr std::size_t kMessageBytes = sizeof(MessageHeader) + kChunkBytes;

// Runs a call into Gloo; what it throws becomes an error without the place in Gloo's sources.
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
  const bool late = why.find("imeout") != std::string::npos || why.find("imed out") != std::string::npos;
  Error error = makeError(late ? Code::kDeadlineExceeded : Code::kAborted, "communication over Gloo");
  error.why = std::move(why);
  return error;
}

// Gloo writes to sockets as to files, so a closed one raises SIGPIPE, which is the thread's own: it
// is held back and taken away here, whatever the process does about it.
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

std::string toHex(const std::vector<char>& bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

// Empty where the text is not hexadecimal.
std::vector<char> fromHex(std::string_view text) {
  std::vector<char> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    unsigned value = 0;
    const auto [end, code] = std::from_chars(text.data() + i, text.data() + i + 2, value, 16);
    if (code != std::errc() || end != text.data() + i + 2) return {};
    bytes.push_back(static_cast<char>(value));
  }
  return text.size() % 2 == 0 ? bytes : std::vector<char>{};
}

// One line an entry; entry i is the address for rank i.
std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out(1);
  for (const char c : text) {
    if (c == '\n') out.emplace_back();
    else out.back() += c;
  }
  return out;
}

bool sameEndpoint(const sockaddr_storage& a, const sockaddr_storage& b) {
  if (a.ss_family != b.ss_family) return false;
  if (a.ss_family == AF_INET) {
    const auto& x = reinterpret_cast<const sockaddr_in&>(a);
    const auto& y = reinterpret_cast<const sockaddr_in&>(b);
    return x.sin_port == y.sin_port && x.sin_addr.s_addr == y.sin_addr.s_addr;
  }
  const auto& x = reinterpret_cast<const sockaddr_in6&>(a);
  const auto& y = reinterpret_cast<const sockaddr_in6&>(b);
  return x.sin6_port == y.sin6_port &&
         std::memcmp(&x.sin6_addr, &y.sin6_addr, sizeof x.sin6_addr) == 0;
}

bool connectedFrom(int fd, const sockaddr_storage& local) {
  sockaddr_storage name{};
  socklen_t length = sizeof name;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length) != 0) return false;
  if (!sameEndpoint(name, local)) return false;
  length = sizeof name;
  return getpeername(fd, reinterpret_cast<sockaddr*>(&name), &length) == 0;
}

// Gloo shows a pair's local endpoint and not its descriptor. Endpoints of connected sockets are
// unique within the process, since every pair has a listener or an ephemeral port of its own.
Result<int> duplicateSocket(const sockaddr_storage& local) {
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return systemError(errno, "/proc/self/fd");
  const std::unique_ptr<DIR, int (*)(DIR*)> owner(folder, closedir);
  while (const dirent* entry = readdir(folder)) {
    const std::string_view name = entry->d_name;
    int fd = -1;
    if (std::from_chars(name.data(), name.data() + name.size(), fd).ec != std::errc()) continue;
    if (!connectedFrom(fd, local)) continue;
    const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) return systemError(errno, "a descriptor for a connection");
    if (connectedFrom(copy, local)) return copy;
    close(copy);
  }
  return makeError(Code::kUnavailable, "a connection ended while the group was formed");
}

std::string endpointText(const sockaddr_storage& address) {
  std::array<char, 64> text{};
  const bool v4 = address.ss_family == AF_INET;
  const auto port = v4 ? reinterpret_cast<const sockaddr_in&>(address).sin_port
                       : reinterpret_cast<const sockaddr_in6&>(address).sin6_port;
  const void* host = v4 ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr)
                        : &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  inet_ntop(address.ss_family, host, text.data(), text.size());
  return v4 ? fmt::format("{}:{}", text.data(), ntohs(port))
            : fmt::format("[{}]:{}", text.data(), ntohs(port));
}

Error unavailable(std::string what, std::string why) {
  Error error = makeError(Code::kUnavailable, "{}", what);
  error.why = std::move(why);
  error.next = "check that the node is up and that its peers reach the address in the cluster file";
  return error;
}

struct Peer {
  gloo::transport::Pair* pair = nullptr;
  int fd = -1;
  std::string place = "an unknown address";
  // Aligned, so that payloads can be reduced where they lie.
  std::unique_ptr<std::byte[]> inbox, outbox;
  Farewell received, sent;
  std::unique_ptr<gloo::transport::Buffer> in, out, farewellIn, farewellOut;
};

}  // namespace

struct GlooMesh::State {
  int rank = 0;
  std::shared_ptr<gloo::transport::Device> device;
  std::shared_ptr<gloo::transport::Context> context;
  std::vector<Peer> peers;

  ~State() {
    for (Peer& peer : peers) {
      peer.in.reset(), peer.out.reset(), peer.farewellIn.reset(), peer.farewellOut.reset();
      if (peer.fd >= 0) close(peer.fd);
    }
  }

  // Pairs that listen, their addresses announced under `prefix`/rank.
  Status announce(const GlooOptions& options, Store& store) {
    LOCKSTEP_ASSIGN(const std::string address, ownAddress(options.address, options.interface));
    std::string announced;
    auto status = guarded([&] {
      gloo::transport::tcp::attr attributes(address.c_str());
      device = gloo::transport::tcp::CreateDevice(attributes);
      context = device->createContext(rank, options.size);
      // A pair waits five times its time limit for its connection.
      context->setTimeout(std::chrono::milliseconds(
          std::max<Nanoseconds>(1, options.timeout / 1'000'000 / 5)));
      for (int r = 0; r < options.size; ++r) {
        if (r > 0) announced += '\n';
        if (r == rank) continue;
        auto& pair = context->createPair(r);
        peers[static_cast<std::size_t>(r)].pair = pair.get();
        announced += toHex(pair->address().bytes());
      }
    });
    if (!status.ok()) return unavailable("listening on " + address, status.error().why);
    return store.set(fmt::format("{}/{}", options.prefix, rank), announced);
  }

  Status join(int r, const GlooOptions& options, Store& store, Nanoseconds deadline) {
    Peer& peer = peers[static_cast<std::size_t>(r)];
    const Nanoseconds left = std::max<Nanoseconds>(1'000'000, deadline - monotonicNow());
    auto announced = store.get(fmt::format("{}/{}", options.prefix, r), left);
    if (!announced.ok()) {
      Error error = std::move(announced.error());
      if (error.code == Code::kDeadlineExceeded || error.code == Code::kNotFound)
        return unavailable(fmt::format("joining rank {}", r),
                           fmt::format("it announced no address within {:.3g} s",
                                       static_cast<double>(options.timeout) * 1e-9));
      return error;
    }
    const auto entries = lines(*announced);
    const auto bytes = entries.size() == peers.size()
                           ? fromHex(entries[static_cast<std::size_t>(rank)])
                           : std::vector<char>{};
    if (bytes.size() != context->getPair(r)->address().bytes().size())
      return unavailable(fmt::format("joining rank {}", r),
                         "it announced the addresses of another group or version");
    peer.place = endpointText(gloo::transport::tcp::Address(bytes).getSockaddr());
    const std::string what = fmt::format("connecting to rank {} at {}", r, peer.place);
    if (auto status = guarded([&] { peer.pair->connect(bytes); }); !status.ok())
      return unavailable(what, status.error().why);
    const auto* local = dynamic_cast<const gloo::transport::tcp::Address*>(&peer.pair->address());
    LOCKSTEP_CHECK(local != nullptr, "a TCP pair with another kind of address");
    LOCKSTEP_ASSIGN(peer.fd, duplicateSocket(local->getSockaddr()));
    peer.inbox = std::make_unique<std::byte[]>(kMessageBytes);
    peer.outbox = std::make_unique<std::byte[]>(kMessageBytes);
    auto status = guarded([&] {
      peer.in = peer.pair->createRecvBuffer(kDataSlot, peer.inbox.get(), kMessageBytes);
      peer.out = peer.pair->createSendBuffer(kDataSlot, peer.outbox.get(), kMessageBytes);
      peer.farewellIn =
          peer.pair->createRecvBuffer(kFarewellSlot, &peer.received, sizeof peer.received);
      peer.farewellOut =
          peer.pair->createSendBuffer(kFarewellSlot, &peer.sent, sizeof peer.sent);
      peer.pair->setSync(true, false);
    });
    if (!status.ok()) return unavailable(what, status.error().why);
    const timeval limit{options.timeout / 1'000'000'000, options.timeout / 1000 % 1'000'000};
    setsockopt(peer.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(peer.fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    return {};
  }

  // A message of full size each way. It shows that the other end is the peer and no stray
  // connection; and Gloo, which sizes a send buffer for the largest message so far, leaves the
  // buffer alone afterwards.
  Status greet(int r, const GlooOptions& options) {
    Peer& peer = peers[static_cast<std::size_t>(r)];
    const auto hello = [&](int from) {
      MessageHeader header;
      header.call.operation = kHello;
      header.call.tag = from;
      header.call.total = static_cast<std::int64_t>(
          stableHash(fmt::format("{}/{}", options.prefix, options.size)));
      return header;
    };
    const MessageHeader mine = hello(rank);
    std::memcpy(peer.outbox.get(), &mine, sizeof mine);
    const auto send = [&] { peer.out->send(0, kMessageBytes), peer.out->waitSend(); };
    auto status = withoutPipeSignal([&] {
      if (rank < r) send();
      peer.in->waitRecv();
      if (rank > r) send();
    });
    const std::string what = fmt::format("greeting rank {} at {}", r, peer.place);
    if (!status.ok()) return unavailable(what, status.error().why);
    const MessageHeader theirs = hello(r);
    if (std::memcmp(peer.inbox.get(), &theirs, sizeof theirs) != 0)
      return unavailable(what, "something else than this rank of this group answered");
    int size = kSendBuffer;
    socklen_t length = sizeof size;
    setsockopt(peer.fd, SOL_SOCKET, SO_SNDBUF, &size, length);
    if (getsockopt(peer.fd, SOL_SOCKET, SO_SNDBUF, &size, &length) == 0 && size < 4 * kChunkBytes) {
      Error error = makeError(Code::kFailedPrecondition, "the send buffer of a connection");
      error.why = fmt::format("this host limits it to {} bytes; expected {}", size, 4 * kChunkBytes);
      error.next = "raise net.core.wmem_max";
      return error;
    }
    return {};
  }
};

GlooMesh::GlooMesh(std::unique_ptr<State> state) : state_(std::move(state)) {}
GlooMesh::~GlooMesh() = default;

Result<std::unique_ptr<GlooMesh>> GlooMesh::connect(const GlooOptions& options, Store& store) {
  auto state = std::make_unique<State>();
  state->rank = options.rank;
  state->peers.resize(static_cast<std::size_t>(options.size));
  const Nanoseconds deadline = monotonicNow() + options.timeout;
  LOCKSTEP_TRY(state->announce(options, store));
  for (int r = 0; r < options.size; ++r)
    if (r != options.rank) LOCKSTEP_TRY(state->join(r, options, store, deadline));
  // All ranks greet in one order of pairs, so nobody waits in a circle.
  for (int r = 0; r < options.size; ++r)
    if (r != options.rank) LOCKSTEP_TRY(state->greet(r, options));
  return std::unique_ptr<GlooMesh>(new GlooMesh(std::move(state)));
}

int GlooMesh::descriptor(int peer) const { return state_->peers[static_cast<std::size_t>(peer)].fd; }
std::byte* GlooMesh::outbox(int peer) {
  return state_->peers[static_cast<std::size_t>(peer)].outbox.get();
}
const std::byte* GlooMesh::inbox(int peer) const {
  return state_->peers[static_cast<std::size_t>(peer)].inbox.get();
}

Status GlooMesh::sendMessage(int peer, std::int64_t payload) {
  auto& out = *state_->peers[static_cast<std::size_t>(peer)].out;
  return withoutPipeSignal([&] {
    out.send(0, sizeof(MessageHeader) + static_cast<std::size_t>(payload));
    out.waitSend();
  });
}

Status GlooMesh::receiveMessage(int peer) {
  return guarded([&] { state_->peers[static_cast<std::size_t>(peer)].in->waitRecv(); });
}

void GlooMesh::sayFarewell(int culprit, Code code) {
  for (Peer& peer : state_->peers) {
    if (peer.fd < 0) continue;
    pollfd event{peer.fd, POLLOUT, 0};
    if (poll(&event, 1, 0) == 1 && event.revents == POLLOUT) {
      peer.sent = {kFarewellMagic, culprit, static_cast<std::uint32_t>(code)};
      // A connection that is broken already needs no farewell.
      static_cast<void>(withoutPipeSignal(
          [&] { peer.farewellOut->send(), peer.farewellOut->waitSend(); }));
    }
    shutdown(peer.fd, SHUT_WR);
  }
}

GlooMesh::Last GlooMesh::lastOf(int r, Nanoseconds limit, Farewell* farewell) {
  Peer& peer = state_->peers[static_cast<std::size_t>(r)];
  const Nanoseconds deadline = monotonicNow() + limit;
  std::array<std::byte, 16384> bytes;
  for (;;) {
    if (peer.received.magic == kFarewellMagic) {
      *farewell = peer.received;
      return Last::kFarewell;
    }
    // A farewell is the last of the stream: its end suffices.
    const ssize_t n = recv(peer.fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n > 0) {
      auto* last = reinterpret_cast<std::byte*>(&peer.received);
      const auto length = std::min(static_cast<std::size_t>(n), sizeof(Farewell));
      std::memmove(last, last + length, sizeof(Farewell) - length);
      std::memcpy(last + sizeof(Farewell) - length, bytes.data() + n - length, length);
      continue;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) return Last::kEnd;
    const Nanoseconds left = deadline - monotonicNow();
    if (left <= 0) return Last::kSilence;
    pollfd event{peer.fd, POLLIN, 0};
    poll(&event, 1, static_cast<int>(left / 1'000'000 + 1));
  }
}

void GlooMesh::cut() {
  for (const Peer& peer : state_->peers)
    if (peer.fd >= 0) shutdown(peer.fd, SHUT_RDWR);
}

}  // namespace lockstep::comm
