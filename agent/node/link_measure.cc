#include "agent/node/link_measure.h"

#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/hash.h"
#include "engine/base/statistics.h"
#include "engine/base/unique_fd.h"
#include "engine/comm/network_address.h"

namespace lockstep::agent {
namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;
constexpr Nanoseconds kListenLimit = 600 * kSecond;
constexpr int kPollMs = 100;
constexpr time_t kSilenceSeconds = 2;
constexpr std::size_t kMostConnections = 16;
constexpr std::size_t kKeyBytes = 64;  // hex
constexpr std::size_t kChunk = 1U << 20U;
constexpr int kMostTrips = 50;
constexpr double kMostPauses = 5;  // seconds, above twice those asked for
constexpr char kAnswer = 'k';

void limitSilence(int socket) {
  const timeval limit{kSilenceSeconds, 0};
  const int on = 1;
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// Whether a transfer ends early: the errno with which it does, or 0.
using Stops = std::function<int()>;

int never() { return 0; }

// False, with errno, once `stops`, or if the other side is silent or gone.
bool sendAll(int socket, const char* data, std::size_t size, const Stops& stops = never) {
  while (size > 0) {
    if ((errno = stops()) != 0) return false;
    const ssize_t sent = send(socket, data, std::min(size, kChunk), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    data += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receiveAll(int socket, char* data, std::size_t size, const Stops& stops = never) {
  while (size > 0) {
    if ((errno = stops()) != 0) return false;
    const ssize_t got = recv(socket, data, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) errno = ECONNRESET;
    if (got <= 0) return false;
    data += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

// Whether the connection begins with the key, all of it within kSilenceSeconds.
bool hasKey(int socket, const std::string& key) {
  const Nanoseconds end = monotonicNow() + kSilenceSeconds * kSecond;
  std::array<char, kKeyBytes> said{};
  for (std::size_t size = 0; size < said.size();) {
    pollfd event{socket, POLLIN, 0};
    const Nanoseconds left = std::max<Nanoseconds>(end - monotonicNow(), 0);
    const int ready = poll(&event, 1, static_cast<int>(left / 1'000'000));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t got = recv(socket, said.data() + size, said.size() - size, MSG_DONTWAIT);
    if (got <= 0) return false;
    size += static_cast<std::size_t>(got);
  }
  return std::string_view(said.data(), said.size()) == key;
}

void serve(int socket) {
  std::vector<char> chunk(kChunk);
  for (;;) {
    std::array<unsigned char, 8> length{};
    if (!receiveAll(socket, reinterpret_cast<char*>(length.data()), length.size())) return;
    std::uint64_t left = 0;
    for (const unsigned char byte : length) left = left << 8U | byte;
    if (left > kMostMeasuredBytes) return;
    while (left > 0) {
      const std::size_t part = std::min<std::uint64_t>(left, chunk.size());
      if (!receiveAll(socket, chunk.data(), part)) return;
      left -= part;
    }
    if (!sendAll(socket, &kAnswer, 1)) return;
  }
}

// A connection that is served on a thread of its own.
class Served {
 public:
  Served(UniqueFd socket, const std::string& key)
      : socket_(std::move(socket)), thread_([this, key] {
          greeted_ = hasKey(socket_.get(), key);
          if (greeted_) serve(socket_.get());
          over_ = true;
        }) {}
  ~Served() {
    shutdown(socket_.get(), SHUT_RDWR);
    thread_.join();
  }
  bool over() const { return over_; }
  bool greeted() const { return greeted_; }  // it has the key

 private:
  UniqueFd socket_;
  std::atomic<bool> greeted_ = false, over_ = false;
  std::thread thread_;
};

Error lost(const node::v1::MeasurePeerRequest& request, int code) {
  if (code == ECANCELED) return makeError(Code::kCancelled, "the measurement was cancelled");
  Error error = makeError(Code::kUnavailable, "no connection to {} port {} for a measurement",
                          request.address(), request.port());
  if (code == ETIME) {
    error.why = "the link is too slow to be measured in time";
    return error;
  }
  error.why = code == EINPROGRESS || code == EAGAIN
                  ? message("no answer in {} s", std::int64_t{kSilenceSeconds})
                  : Message(std::strerror(code));
  error.next = "allow TCP connections between the nodes";
  return error;
}

// Sends so many bytes. Returns the seconds until the answer; < 0: none came.
double timed(int socket, std::uint64_t bytes, const std::vector<char>& chunk, const Stops& stops) {
  std::array<char, 8> length{};
  for (std::size_t i = 0; i < length.size(); ++i)
    length[i] = static_cast<char>(bytes >> (8 * (7 - i)));
  const Nanoseconds begin = monotonicNow();
  if (!sendAll(socket, length.data(), length.size(), stops)) return -1;
  for (std::uint64_t left = bytes; left > 0;) {
    const std::size_t part = std::min<std::uint64_t>(left, chunk.size());
    if (!sendAll(socket, chunk.data(), part, stops)) return -1;
    left -= part;
  }
  char answer = 0;
  if (!receiveAll(socket, &answer, 1, stops)) return -1;
  return static_cast<double>(monotonicNow() - begin) * 1e-9;
}

}  // namespace

Status listenForMeasurements(
    const node::v1::ListenForMeasurementsRequest& request,
    const std::function<bool(const node::v1::ListenForMeasurementsReply&)>& ready,
    const std::function<bool()>& cancelled) {
  LOCKSTEP_ASSIGN(const comm::Listener listener, comm::listenAt(request.address()));
  std::array<char, 32> random{};
  if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
    return makeError(Code::kInternal, "the system has no random numbers");
  node::v1::ListenForMeasurementsReply reply;
  reply.set_port(listener.port);
  reply.set_key(sha256Hex(std::string_view(random.data(), random.size())));
  if (!ready(reply)) return {};
  std::list<Served> connections;
  const Nanoseconds end = monotonicNow() + kListenLimit;
  while (!cancelled() && monotonicNow() < end) {
    pollfd event{listener.socket.get(), POLLIN, 0};
    const bool comes = poll(&event, 1, kPollMs) > 0;
    connections.remove_if([](const Served& one) { return one.over(); });
    if (!comes) continue;
    UniqueFd socket(accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) {  // this process has too many descriptors: the connection waits
      poll(nullptr, 0, kPollMs);
      continue;
    }
    if (connections.size() >= kMostConnections) {
      const auto oldest = std::find_if(connections.begin(), connections.end(),
                                       [](const Served& one) { return !one.greeted(); });
      if (oldest == connections.end()) continue;
      connections.erase(oldest);
    }
    limitSilence(socket.get());
    connections.emplace_back(std::move(socket), reply.key());
  }
  return {};
}

Result<node::v1::MeasurePeerReply> measurePeer(const node::v1::MeasurePeerRequest& request,
                                               const std::function<bool()>& cancelled) {
  const double seconds = request.seconds() > 0 ? std::min(request.seconds(), 10.0) : 0.5;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  if (getaddrinfo(request.address().c_str(), std::to_string(request.port()).c_str(), &hints,
                  &list) != 0)
    return lost(request, EADDRNOTAVAIL);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> at(list, freeaddrinfo);
  const UniqueFd socket(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return lost(request, errno);
  limitSilence(socket.get());
  if (connect(socket.get(), at->ai_addr, at->ai_addrlen) != 0) return lost(request, errno);
  const std::vector<char> chunk(kChunk);
  const Nanoseconds begin = monotonicNow();
  const auto passed = [&] { return static_cast<double>(monotonicNow() - begin) * 1e-9; };
  const Stops stops = [&] {
    return cancelled() ? ECANCELED : passed() > kMostPauses + 2 * seconds ? ETIME : 0;
  };
  if (!sendAll(socket.get(), request.key().data(), request.key().size(), stops))
    return lost(request, errno);
  std::vector<double> trips, rates;
  for (int i = 0; i < kMostTrips && (trips.size() < 4 || passed() < 0.25 * seconds); ++i) {
    const double trip = timed(socket.get(), 1, chunk, stops);
    if (trip < 0) return lost(request, errno);
    if (i > 0) trips.push_back(trip);  // the first one also opens the connection's window
  }
  node::v1::MeasurePeerReply reply;
  reply.set_round_trip(median(std::move(trips)));
  for (std::uint64_t bytes = 1U << 18U; rates.size() < 2 || passed() < seconds;) {
    const double took = timed(socket.get(), bytes, chunk, stops);
    if (took < 0) return lost(request, errno);
    if (took < 0.15 * seconds && bytes < kMostMeasuredBytes)
      bytes *= 2;
    else
      rates.push_back(static_cast<double>(bytes) /
                      (took > 2 * reply.round_trip() ? took - reply.round_trip() : took));
  }
  reply.set_bytes_per_second(median(std::move(rates)));
  return reply;
}

}  // namespace lockstep::agent
