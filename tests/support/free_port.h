// A port for a server that is told which one to listen at.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <random>

namespace lockstep::test {

// Of those below the ports that the kernel gives to sockets of other processes, which may take one
// of these at any moment.
inline int freePort() {
  std::random_device random;
  for (;;) {
    const int port = 10'000 + static_cast<int>(random() % 20'000);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool isFree =
        ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    ::close(fd);
    if (isFree) return port;
  }
}

}  // namespace lockstep::test
