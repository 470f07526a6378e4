#include "agent/workload/nccl_ras.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "engine/base/file.h"
#include "engine/base/unique_fd.h"
#include "engine/base/utf8.h"

namespace lockstep::agent {
namespace {

constexpr std::string_view kPrefix = "NCCL RAS: ";
constexpr std::size_t kMostBytes = std::size_t{64} << 10, kMostLines = 200, kLongestLine = 500;
constexpr std::size_t kMostProblems = 4;
constexpr Nanoseconds kMillisecond = 1'000'000;

class Connection {
 public:
  explicit Connection(Nanoseconds end) : end_(end) {}

  // Returns "", or why there is no connection.
  std::string open(const std::string& host, const std::string& port) {
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (port.empty() || getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0)
      return "is no address";
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> hold(found, freeaddrinfo);
    socket_ = UniqueFd(
        socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, found->ai_protocol));
    int failed = 0;
    if (!socket_) return std::strerror(errno);
    if (connect(socket_.get(), found->ai_addr, found->ai_addrlen) != 0) failed = errno;
    if (failed == EINPROGRESS) {
      if (!await(POLLOUT)) return "does not answer";
      socklen_t size = sizeof failed;
      getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &failed, &size);
    }
    return failed == 0 ? "" : std::strerror(failed);
  }

  bool say(std::string_view line) {
    const std::string text = std::string(line) + "\n";
    return await(POLLOUT) && send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
                                 static_cast<ssize_t>(text.size());
  }

  // Says a line, and returns the one that answers; "": none.
  std::string ask(std::string_view line) {
    if (!say(line)) return "";
    std::size_t end = 0;
    while ((end = heard_.find('\n')) == std::string::npos)
      if (!hear()) return "";
    std::string out = heard_.substr(0, end);
    heard_.erase(0, end + 1);
    return out;
  }

  // All that comes until the other side closes, or the time is over.
  std::string rest() {
    while (hear()) {
    }
    return std::exchange(heard_, {});
  }
  bool whole() const { return closed_; }

 private:
  bool await(short what) const {
    const Nanoseconds left = end_ - monotonicNow();
    pollfd fd{socket_.get(), what, 0};
    return left > 0 && poll(&fd, 1, static_cast<int>(left / kMillisecond + 1)) > 0;
  }

  bool hear() {
    std::array<char, 4096> buffer;
    if (heard_.size() >= kMostBytes || !await(POLLIN)) return false;
    const ssize_t count = recv(socket_.get(), buffer.data(), buffer.size(), 0);
    closed_ = count == 0;
    if (count > 0) heard_.append(buffer.data(), static_cast<std::size_t>(count));
    return count > 0;
  }

  const Nanoseconds end_;
  UniqueFd socket_;
  std::string heard_;
  bool closed_ = false;
};

// Host and port; NCCL writes IPv6 addresses in brackets.
std::pair<std::string, std::string> partsOf(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) return {address, ""};
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  return {host == "localhost" ? "127.0.0.1" : host, address.substr(colon + 1)};
}

std::vector<std::string> noAnswer(const std::string& address, std::string_view why) {
  return rasLines(fmt::format("{}: {}", address, why));
}

}  // namespace

std::vector<std::string> rasLines(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty() && out.size() < kMostLines) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string line = validUtf8(text.substr(0, std::min(end, kLongestLine)));
    std::replace_if(
        line.begin(), line.end(), [](char c) { return c >= 0 && c < ' '; }, ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    if (!line.empty()) out.push_back(fmt::format("{}{}", kPrefix, line));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

// NCCL may be in a library of its own, or in PyTorch's for CUDA.
bool hasNccl(int pid) {
  constexpr std::size_t kMostMaps = std::size_t{16} << 20;
  const auto maps = readFile(fmt::format("/proc/{}/maps", pid), kMostMaps);
  return maps.ok() && (maps->find("/libnccl.so") != std::string::npos ||
                       maps->find("/libtorch_cuda.so") != std::string::npos);
}

std::vector<std::string> askRas(const std::string& address, Nanoseconds limit) {
  Connection connection(monotonicNow() + limit);
  const auto [host, port] = partsOf(address);
  if (const std::string failed = connection.open(host, port); !failed.empty())
    return noAnswer(address, failed);
  if (!connection.ask("CLIENT PROTOCOL 2").starts_with("SERVER PROTOCOL "))
    return noAnswer(address, "what answers is not NCCL's RAS");
  // How long it waits for other processes, in seconds.
  if (!connection.ask("TIMEOUT 1").starts_with("OK") || !connection.say("VERBOSE STATUS"))
    return noAnswer(address, "does not answer");
  std::vector<std::string> out = rasLines(connection.rest());
  if (!connection.whole()) out.push_back(fmt::format("{}the rest did not come", kPrefix));
  return out;
}

bool isRasLine(std::string_view line) { return line.starts_with(kPrefix); }

// They follow the headings "Errors" and "Warnings", which are underlined.
std::string rasProblems(const std::vector<std::string>& lines) {
  std::vector<std::string_view> found;
  bool inside = false;
  for (std::string_view line : lines) {
    if (!isRasLine(line)) continue;
    line.remove_prefix(kPrefix.size());
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    const bool heading = line == "Errors" || line == "Warnings";
    inside |= heading;
    if (!inside || heading || line.find_first_not_of("=-") == std::string_view::npos) continue;
    if (found.size() < kMostProblems) found.push_back(line);
  }
  return fmt::format("{}", fmt::join(found, ", "));
}

}  // namespace lockstep::agent
