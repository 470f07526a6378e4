#include "app/ssh/agent_filter.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "app/ssh/wire.h"

namespace lockstep::app {
namespace {

constexpr char kRequestIdentities = 11;
constexpr char kIdentitiesAnswer = 12;
constexpr char kSignRequest = 13;
constexpr std::uint32_t kLargestMessage = 256 * 1024;

bool receive(int fd, char* bytes, std::size_t size) {
  return ::recv(fd, bytes, size, MSG_WAITALL) == static_cast<ssize_t>(size);
}
std::optional<std::string> receiveMessage(int fd) {
  std::string head(4, '\0');
  if (!receive(fd, head.data(), 4)) return std::nullopt;
  std::string_view view = head;
  const std::uint32_t size = *takeU32(&view);
  if (size == 0 || size > kLargestMessage) return std::nullopt;
  std::string body(size, '\0');
  if (!receive(fd, body.data(), size)) return std::nullopt;
  return body;
}
bool sendMessage(int fd, const std::string& body) {
  const std::string bytes = wireString(body);
  return ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

struct Identity {
  std::string blob, comment;
};
std::optional<std::vector<Identity>> parseIdentities(const std::string& answer) {
  if (answer.empty() || answer[0] != kIdentitiesAnswer) return std::nullopt;
  std::string_view rest = std::string_view(answer).substr(1);
  const auto count = takeU32(&rest);
  if (!count) return std::nullopt;
  std::vector<Identity> identities;
  for (std::uint32_t i = 0; i < *count; ++i) {
    const auto blob = takeString(&rest), comment = blob ? takeString(&rest) : std::nullopt;
    if (!comment) return std::nullopt;
    identities.push_back({std::string(*blob), std::string(*comment)});
  }
  return identities;
}

}  // namespace

UniqueFd connectToAgent(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return {};
  path.copy(address.sun_path, path.size());
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return {};
  return fd;
}

std::vector<std::string> agentKeys(int agent) {
  const timeval limit{5, 0}, none{0, 0};
  ::setsockopt(agent, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  std::vector<std::string> blobs;
  if (sendMessage(agent, std::string(1, kRequestIdentities))) {
    const auto answer = receiveMessage(agent);
    const auto identities = answer ? parseIdentities(*answer) : std::nullopt;
    if (identities)
      for (const Identity& identity : *identities) blobs.push_back(identity.blob);
  }
  ::setsockopt(agent, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
  return blobs;
}

AgentFilter::AgentFilter(UniqueFd agent, std::vector<AgentIdentity> shown)
    : agent_(std::move(agent)), shown_(std::move(shown)) {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) return;
  client_.reset(fds[0]);
  server_.reset(fds[1]);
  thread_ = std::thread([this] { run(); });
}

AgentFilter::~AgentFilter() {
  ::shutdown(server_.get(), SHUT_RDWR);
  ::shutdown(agent_.get(), SHUT_RDWR);
  if (thread_.joinable()) thread_.join();
}

// The list that is shown, in place of the agent's own.
std::string AgentFilter::identities(const std::string& answer) const {
  const auto held = parseIdentities(answer);
  if (!held) return answer;
  std::string list;
  std::size_t count = 0;
  for (const AgentIdentity& one : shown_)
    for (const Identity& identity : *held) {
      if (identity.blob != one.key) continue;
      ++count;
      list += wireString(one.blob) + wireString(identity.comment);
      break;
    }
  return std::string(1, kIdentitiesAnswer) + wireU32(count) + list;
}

// A request to sign with a certificate becomes one to sign with the key it certifies.
std::string AgentFilter::signRequest(const std::string& request) const {
  std::string_view rest = std::string_view(request).substr(1);
  const auto blob = takeString(&rest);
  if (!blob) return request;
  const auto at = std::find_if(shown_.begin(), shown_.end(),
                               [&](const AgentIdentity& one) { return one.blob == *blob; });
  if (at == shown_.end()) return request;
  return request.substr(0, 1) + wireString(at->key) + std::string(rest);
}

void AgentFilter::run() {
  while (auto request = receiveMessage(server_.get())) {
    const char kind = (*request)[0];
    if (kind == kSignRequest) request = signRequest(*request);
    if (!sendMessage(agent_.get(), *request)) break;
    auto answer = receiveMessage(agent_.get());
    if (!answer) break;
    if (kind == kRequestIdentities) answer = identities(*answer);
    if (!sendMessage(server_.get(), *answer)) break;
  }
  ::shutdown(server_.get(), SHUT_RDWR);
}

}  // namespace lockstep::app
