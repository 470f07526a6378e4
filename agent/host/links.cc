#include "agent/host/links.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>
#include <string_view>
#include <system_error>

#include "engine/base/file.h"
#include "engine/comm/network_address.h"

namespace lockstep::agent {
namespace {

constexpr std::uint32_t kEstablished = 1U << 1U;  // TCP_ESTABLISHED, in a set of states

// Returns the inodes of the sockets of these processes.
std::set<std::uint64_t> socketsOf(const std::vector<int>& processes) {
  namespace fs = std::filesystem;
  constexpr std::string_view kPrefix = "socket:[";
  std::set<std::uint64_t> out;
  for (const int process : processes) {
    std::error_code failed;
    for (fs::directory_iterator file("/proc/" + std::to_string(process) + "/fd", failed), end;
         !failed && file != end; file.increment(failed)) {
      std::error_code closed;
      const std::string target = fs::read_symlink(file->path(), closed).string();
      if (closed || !target.starts_with(kPrefix)) continue;
      std::uint64_t inode = 0;
      const char* const first = target.data() + kPrefix.size();
      if (std::from_chars(first, target.data() + target.size(), inode).ec == std::errc())
        out.insert(inode);
    }
  }
  return out;
}

// The address as text; of an IPv4 address mapped to IPv6, the former.
std::string addressText(int family, const std::uint32_t* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool isMapped =
      family == AF_INET6 && address[0] == 0 && address[1] == 0 && address[2] == htonl(0xffffU);
  if (isMapped) {
    family = AF_INET;
    address += 3;
  }
  ::inet_ntop(family, address, text.data(), static_cast<socklen_t>(text.size()));
  return text.data();
}

struct Connection {
  std::uint64_t inode = 0;
  std::string peer;
  tcp_info info{};
};

// Reads the messages of one answer. Returns false at the end of the list, or where it is an error.
bool readAnswer(const char* data, std::size_t size,
                const std::function<void(const Connection&)>& visit) {
  const auto* header = reinterpret_cast<const nlmsghdr*>(data);
  auto left = static_cast<int>(size);
  for (; NLMSG_OK(header, static_cast<unsigned>(left)); header = NLMSG_NEXT(header, left)) {
    if (header->nlmsg_type == NLMSG_DONE || header->nlmsg_type == NLMSG_ERROR) return false;
    if (header->nlmsg_len < NLMSG_LENGTH(sizeof(inet_diag_msg))) return false;
    const auto* socket = static_cast<const inet_diag_msg*>(NLMSG_DATA(header));
    Connection connection;
    connection.inode = socket->idiag_inode;
    connection.peer = addressText(socket->idiag_family, socket->id.idiag_dst);
    const auto* attribute = reinterpret_cast<const rtattr*>(socket + 1);
    auto rest = static_cast<int>(header->nlmsg_len - NLMSG_LENGTH(sizeof(inet_diag_msg)));
    for (; RTA_OK(attribute, rest); attribute = RTA_NEXT(attribute, rest))
      if (attribute->rta_type == INET_DIAG_INFO)  // shorter on older kernels
        std::memcpy(&connection.info, RTA_DATA(attribute),
                    std::min<std::size_t>(RTA_PAYLOAD(attribute), sizeof connection.info));
    visit(connection);
  }
  return true;
}

// Visits all established TCP connections in this network namespace. Visits none where the kernel
// does not list them.
void forConnections(int family, const std::function<void(const Connection&)>& visit) {
  const int fd = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  if (fd < 0) return;
  struct {
    nlmsghdr header;
    inet_diag_req_v2 request;
  } ask{};
  ask.header.nlmsg_len = sizeof ask;
  ask.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  ask.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  ask.request.sdiag_family = static_cast<std::uint8_t>(family);
  ask.request.sdiag_protocol = IPPROTO_TCP;
  ask.request.idiag_ext = 1U << (INET_DIAG_INFO - 1U);
  ask.request.idiag_states = kEstablished;
  const timeval limit{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (::send(fd, &ask, sizeof ask, 0) == static_cast<ssize_t>(sizeof ask)) {
    alignas(nlmsghdr) std::array<char, 1 << 15> answer{};
    ssize_t size = 0;
    do {
      size = ::recv(fd, answer.data(), answer.size(), 0);
    } while (size > 0 && readAnswer(answer.data(), static_cast<std::size_t>(size), visit));
  }
  ::close(fd);
}

}  // namespace

double adapterSpeed(const std::string& address) {
  const auto text = readFile("/sys/class/net/" + comm::interfaceOf(address) + "/speed");
  return text.ok() ? adapterSpeedIn(*text) : 0;
}

double adapterSpeedIn(std::string_view text) {
  double megabits = 0;
  std::from_chars(text.data(), text.data() + text.size(), megabits);
  return std::max(0.0, megabits * 1e6 / 8);
}

std::vector<run::v1::LinkSample> LinkSampler::sample(
    const std::vector<int>& processes, const std::map<std::string, std::string>& nodes) {
  const Nanoseconds now = monotonicNow();
  if (before_ != 0 && now - before_ < kInterval) return {};
  const double seconds = before_ == 0 ? 0 : static_cast<double>(now - before_) * 1e-9;
  before_ = now;
  if (nodes.empty()) return {};
  const std::set<std::uint64_t> own = socketsOf(processes);
  std::map<std::uint64_t, Totals> connections;
  std::map<std::string, run::v1::LinkSample> links;
  std::map<std::string, std::pair<double, double>> segments;  // of each link: all, sent again
  const auto visit = [&](const Connection& connection) {
    const auto node = nodes.find(connection.peer);
    if (node == nodes.end() || !own.contains(connection.inode)) return;
    const tcp_info& info = connection.info;
    const Totals totals{
        info.tcpi_bytes_acked, info.tcpi_data_segs_out, info.tcpi_total_retrans,
        1e-6 * static_cast<double>(info.tcpi_busy_time),
        1e-6 * static_cast<double>(info.tcpi_busy_time -
                                   std::min(info.tcpi_busy_time, info.tcpi_rwnd_limited))};
    connections.emplace(connection.inode, totals);
    const Totals old = connections_[connection.inode];
    if (seconds <= 0 || totals.sent <= old.sent) return;
    run::v1::LinkSample& link = links[node->second];
    link.set_node(node->second);
    link.set_sent(link.sent() + static_cast<double>(totals.sent - old.sent) / seconds);
    const double sending = std::clamp((totals.sending - old.sending) / seconds, 0.0, 1.0);
    if (sending > link.sending()) {
      link.set_sending(sending);
      link.set_pace(static_cast<double>(totals.sent - old.sent) / (totals.underWay - old.underWay));
    }
    if (info.tcpi_delivery_rate_app_limited == 0 && info.tcpi_delivery_rate > 0) {
      const auto rate = static_cast<double>(info.tcpi_delivery_rate);
      link.set_rate(link.rate() > 0 ? std::min(link.rate(), rate) : rate);
    }
    link.set_round_trip(std::max(link.round_trip(), 1e-6 * static_cast<double>(info.tcpi_rtt)));
    auto& [all, again] = segments[node->second];
    all += static_cast<double>(totals.segments - std::min(totals.segments, old.segments));
    again += static_cast<double>(totals.resent - std::min(totals.resent, old.resent));
    if (all > 0) link.set_resent(std::min(again / all, 1.0));
  };
  // The kernel goes through all sockets of a family. Those of IPv6 may be connected to IPv4 too.
  const bool anyIpv4 = std::any_of(nodes.begin(), nodes.end(), [](const auto& node) {
    return node.first.find(':') == std::string::npos;
  });
  if (!own.empty() && anyIpv4) forConnections(AF_INET, visit);
  if (!own.empty()) forConnections(AF_INET6, visit);
  connections_ = std::move(connections);
  std::vector<run::v1::LinkSample> out;
  for (auto& [name, link] : links) out.push_back(std::move(link));
  return out;
}

}  // namespace lockstep::agent
