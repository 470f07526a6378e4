// stdin and stdout ⇄ a unix socket, with half-closes: `socket_bridge bridge --socket PATH`.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "tests/support/sshd.h"

int main(int argc, char** argv) {
  if (argc != 4 || std::string(argv[1]) != "bridge") return 2;
  const int fd = lockstep::test::connectUnix(argv[3]);
  if (fd < 0) {
    std::fprintf(stderr, "nothing listens on %s\n", argv[3]);
    return 1;
  }
  bool in = true, out = true;
  char bytes[65536];
  while (in || out) {
    pollfd fds[] = {{in ? 0 : -1, POLLIN, 0}, {out ? fd : -1, POLLIN, 0}};
    if (::poll(fds, 2, -1) < 0) return 1;
    for (int side = 0; side < 2; ++side) {
      if (!fds[side].revents) continue;
      const int from = side == 0 ? 0 : fd, to = side == 0 ? fd : 1;
      const ssize_t n = ::read(from, bytes, sizeof bytes);
      if (n <= 0) {
        (side == 0 ? in : out) = false;
        if (side == 0)
          ::shutdown(fd, SHUT_WR);
        else
          ::close(1);
        continue;
      }
      for (ssize_t at = 0; at < n;) {
        const ssize_t sent = ::write(to, bytes + at, static_cast<std::size_t>(n - at));
        if (sent <= 0) return 1;
        at += sent;
      }
    }
    if (!out) break;
  }
  return 0;
}
