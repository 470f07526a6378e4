// bridge: stdio ⇄ unix socket, for where SSH refuses to forward one. Half-close aware: the end of
// one direction is passed on and the other goes on.
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <string>

#include "agent/base/commands.h"
#include "agent/base/unix_server.h"

namespace lockstep::agent {
namespace {

// One direction with its own buffer.
struct Pump {
  int from, to;
  bool toSocket;
  std::array<char, 1 << 16> buffer{};
  std::size_t begin = 0, end = 0;
  bool ended = false;  // no more to read and all written

  bool wantsRead() const { return !ended && begin == end; }
  bool wantsWrite() const { return begin != end; }
  void finish() {
    ended = true;
    begin = end = 0;
    if (toSocket)
      shutdown(to, SHUT_WR);
    else
      close(to);
  }
  void read() {
    const ssize_t count = ::read(from, buffer.data(), buffer.size());
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (count <= 0) {
      finish();
      return;
    }
    begin = 0;
    end = static_cast<std::size_t>(count);
  }
  void write() {
    const ssize_t count = ::write(to, buffer.data() + begin, end - begin);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (count < 0) {
      finish();
      return;
    }
    begin += static_cast<std::size_t>(count);
  }
};

}  // namespace

Result<int> bridgeCommand(const Arguments& arguments) {
  signal(SIGPIPE, SIG_IGN);
  auto socket = connectUnix(arguments.text("socket"), nullptr);
  if (!socket.ok()) {
    std::fprintf(stderr, "lockstep-agent bridge: %s\n", socket.error().text().c_str());
    return 3;
  }
  Pump up{STDIN_FILENO, *socket, true};
  Pump down{*socket, STDOUT_FILENO, false};
  // When the socket's side has ended, nothing more can come of what stdin says.
  while (!down.ended) {
    std::array<pollfd, 4> fds = {{{up.wantsRead() ? up.from : -1, POLLIN, 0},
                                  {up.wantsWrite() ? up.to : -1, POLLOUT, 0},
                                  {down.wantsRead() ? down.from : -1, POLLIN, 0},
                                  {down.wantsWrite() ? down.to : -1, POLLOUT, 0}}};
    if (poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) return 1;
    if (fds[0].revents != 0) up.read();
    if (fds[1].revents != 0) up.write();
    if (fds[2].revents != 0) down.read();
    if (fds[3].revents != 0) down.write();
  }
  return 0;
}

}  // namespace lockstep::agent
