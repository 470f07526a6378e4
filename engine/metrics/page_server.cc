#include "engine/metrics/page_server.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <memory>
#include <utility>
#include <vector>

#include "engine/base/clock.h"

namespace lockstep::metrics {
namespace {

constexpr std::size_t kMostClients = 64;
constexpr Nanoseconds kLimit = 5'000'000'000;

struct Client {
  UniqueFd fd;
  Nanoseconds until = 0;
  PageRequest request;
  std::string answer;
  std::size_t sent = 0;
  bool over = false;
};

Error wrongAddress(const std::string& address) {
  Error error = invalidArgument("\"{}\" is not an address to listen on", address);
  error.next = "an address is a port, or a numeric address and a port: 127.0.0.1:9464, [::1]:9464";
  return error;
}

struct Endpoint {
  std::string host = "127.0.0.1", port;
};
Result<Endpoint> endpointOf(const std::string& address) {
  Endpoint out;
  const std::size_t colon = address.rfind(':');
  out.port = colon == std::string::npos ? address : address.substr(colon + 1);
  if (colon != std::string::npos) {
    out.host = address.substr(0, colon);
    const bool inBrackets = out.host.starts_with('[') && out.host.ends_with(']');
    if (inBrackets) out.host = out.host.substr(1, out.host.size() - 2);
    if (inBrackets != (out.host.find(':') != std::string::npos)) return wrongAddress(address);
  }
  unsigned port = 0;
  const auto [end, error] =
      std::from_chars(out.port.data(), out.port.data() + out.port.size(), port);
  if (error != std::errc() || end != out.port.data() + out.port.size() || port > 65535)
    return wrongAddress(address);
  return out;
}

void receive(Client& client, const Page& page) {
  char bytes[4096];
  const ssize_t got = ::recv(client.fd.get(), bytes, sizeof bytes, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    client.over = true;
    return;
  }
  const auto state = client.request.add({bytes, static_cast<std::size_t>(got)});
  if (state == PageRequest::State::kComplete) {
    client.answer = client.request.answer(page);
    client.until = monotonicNow() + kLimit;  // what the page took is no time of the client's
  }
  client.over = state == PageRequest::State::kTooLong;
}

void send(Client& client) {
  const ssize_t put = ::send(client.fd.get(), client.answer.data() + client.sent,
                             client.answer.size() - client.sent, MSG_NOSIGNAL);
  if (put < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (put > 0) client.sent += static_cast<std::size_t>(put);
  client.over = put <= 0 || client.sent == client.answer.size();
}

}  // namespace

Result<PageServer> PageServer::listen(const std::string& address) {
  LOCKSTEP_ASSIGN(const Endpoint at, endpointOf(address));
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  if (::getaddrinfo(at.host.c_str(), at.port.c_str(), &hints, &list) != 0)
    return wrongAddress(address);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> own(list, ::freeaddrinfo);
  const auto failed = [&] { return systemError(errno, message("cannot listen on {}", address)); };
  PageServer out;
  const int flags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
  out.listener_ = UniqueFd(::socket(list->ai_family, flags, 0));
  const int fd = out.listener_.get(), on = 1;
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (!out.listener_ || ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(fd, list->ai_addr, list->ai_addrlen) != 0 || ::listen(fd, 16) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0)
    return failed();
  if (::getnameinfo(reinterpret_cast<sockaddr*>(&bound), size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return wrongAddress(address);
  const bool isV6 = bound.ss_family == AF_INET6;
  out.address_ = fmt::format("{}{}{}:{}", isV6 ? "[" : "", host, isV6 ? "]" : "", port);
  out.loopback_ = std::string_view(host) == "::1" || std::string_view(host).starts_with("127.");
  return out;
}

void PageServer::serve(const Page& page, const std::function<bool()>& done) {
  std::vector<Client> clients;
  while (!done()) {
    std::vector<pollfd> polled;
    for (const Client& client : clients)
      polled.push_back(
          {client.fd.get(), static_cast<short>(client.answer.empty() ? POLLIN : POLLOUT), 0});
    if (clients.size() < kMostClients) polled.push_back({listener_.get(), POLLIN, 0});
    (void)::poll(polled.data(), polled.size(), 100);
    const Nanoseconds now = monotonicNow();
    for (std::size_t i = 0; i < clients.size(); ++i) {
      Client& client = clients[i];
      if (polled[i].revents != 0) client.answer.empty() ? receive(client, page) : send(client);
      client.over = client.over || now > client.until;
    }
    if (polled.size() > clients.size() && polled.back().revents != 0) {
      UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (fd) clients.push_back({std::move(fd), now + kLimit, {}, {}, 0, false});
    }
    std::erase_if(clients, [](const Client& client) { return client.over; });
  }
}

}  // namespace lockstep::metrics
