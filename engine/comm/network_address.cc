#include "engine/comm/network_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>

namespace lockstep::comm {
namespace {

constexpr int kBacklog = 1024;

constexpr socklen_t lengthOf(const sockaddr* address) {
  return address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

std::string numeric(const sockaddr* address) {
  std::array<char, NI_MAXHOST> text{};
  if (getnameinfo(address, lengthOf(address), text.data(), text.size(), nullptr, 0,
                  NI_NUMERICHOST) != 0)
    return {};
  return text.data();
}

// Whether the address is of this host, i.e. a socket can be bound to it.
bool bindable(const addrinfo& entry) {
  const int fd = socket(entry.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool ok = bind(fd, entry.ai_addr, entry.ai_addrlen) == 0;
  close(fd);
  return ok;
}

Error refused(Message what, Message why, Message next) {
  Error error = makeError(Code::kFailedPrecondition, "{}", what);
  error.why = std::move(why);
  error.next = std::move(next);
  return error;
}

Result<std::string> byInterface(const std::string& interface) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return systemError(errno, "the list of network interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::string names;
  bool exists = false;
  std::string ipv6;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const std::string name = entry->ifa_name;
    if ((" " + names + ",").find(" " + name + ",") == std::string::npos)
      names += (names.empty() ? "" : ", ") + name;
    if (name != interface) continue;
    exists = true;
    if (entry->ifa_addr == nullptr) continue;
    if (entry->ifa_addr->sa_family == AF_INET) return numeric(entry->ifa_addr);
    if (entry->ifa_addr->sa_family != AF_INET6 || !ipv6.empty()) continue;
    const auto* address = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
    if (!IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr)) ipv6 = numeric(entry->ifa_addr);
  }
  if (!ipv6.empty()) return ipv6;
  const Message what = message("network interface {}", interface);
  if (exists) return refused(what, "it has no address", "give another `interface` or an `address`");
  return refused(what, message("this host has no such interface; it has {}", names),
                 "give one of these as `interface`");
}

}  // namespace

Result<std::string> ownAddress(const std::string& address, const std::string& interface) {
  if (address.empty() && interface.empty()) return std::string("127.0.0.1");
  if (address.empty()) return byInterface(interface);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const Message what = message("address {}", address);
  if (const int code = getaddrinfo(address.c_str(), nullptr, &hints, &list); code != 0)
    return refused(what, gai_strerror(code), "give an address of this host that its peers reach");
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next)
    if (bindable(*entry)) return numeric(entry->ai_addr);
  return refused(what, "this host does not have this address",
                 "give an address of this host that its peers reach");
}

std::string interfaceOf(const std::string& address) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if ((family == AF_INET || family == AF_INET6) && numeric(entry->ifa_addr) == address)
      return entry->ifa_name;
  }
  return {};
}

Result<Listener> listenAt(const std::string& address) {
  const Message what = message("cannot listen on {}", address);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  if (getaddrinfo(address.c_str(), "0", &hints, &list) != 0)
    return systemError(EADDRNOTAVAIL, what);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
  Listener out;
  out.socket = UniqueFd(socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (!out.socket || bind(out.socket.get(), list->ai_addr, list->ai_addrlen) != 0 ||
      listen(out.socket.get(), kBacklog) != 0 ||
      getsockname(out.socket.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0)
    return systemError(errno, what);
  out.port = ntohs(bound.ss_family == AF_INET ? reinterpret_cast<sockaddr_in&>(bound).sin_port
                                              : reinterpret_cast<sockaddr_in6&>(bound).sin6_port);
  return out;
}

}  // namespace lockstep::comm
