#include "tests/support/strangers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <random>

namespace lockstep::test {

int connectAndSay(std::uint16_t port, const std::string& words, std::uint8_t host) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl((INADDR_LOOPBACK & ~0xffu) | host);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) {
    ::close(fd);
    return -1;
  }
  static_cast<void>(::send(fd, words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  return fd;
}

std::string beginOfHandshake() {
  using namespace std::string_literals;
  return "\x16\x03\x01\x40\x00\x01\xff\xff\xff\x03\x03"s;
}

bool isClosed(int fd, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::array<char, 4096> bytes{};
  while (std::chrono::steady_clock::now() < end) {
    pollfd event{fd, POLLIN, 0};
    if (::poll(&event, 1, 20) == 0) continue;
    const ssize_t count = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) return true;
  }
  return false;
}

Strangers::Strangers(std::uint16_t port, int count)
    : port_(port), count_(count), thread_([this] { run(); }) {}

Strangers::~Strangers() {
  ending_ = true;
  thread_.join();
}

int Strangers::open(int kind) {
  switch (kind) {
    case 0:
      return connectAndSay(port_, "");
    case 1: {
      std::minstd_rand random(static_cast<unsigned>(opened_));
      std::string garbage(1 + random() % 3000, '\0');
      for (char& byte : garbage) byte = static_cast<char>(random());
      return connectAndSay(port_, garbage);
    }
    case 2:
      return connectAndSay(port_, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    case 3:
      return connectAndSay(port_, beginOfHandshake());
    default:
      return connectAndSay(port_, "\x16");
  }
}

void Strangers::run() {
  constexpr int kKinds = 5;
  std::vector<int> held;
  while (!ending_) {
    while (static_cast<int>(held.size()) < count_ && !ending_) {
      const int fd = open(opened_ % kKinds);
      if (fd < 0) break;
      ++opened_;
      held.push_back(fd);
    }
    std::vector<pollfd> events;
    for (const int fd : held) events.push_back({fd, POLLIN, 0});
    ::poll(events.data(), events.size(), 20);
    held.clear();
    for (const pollfd& event : events) {
      if (event.revents != 0 && isClosed(event.fd, 0.001)) {
        ++cutOff_;
        ::close(event.fd);
      } else {
        held.push_back(event.fd);
      }
    }
    ::usleep(2000);
  }
  for (const int fd : held) ::close(fd);
}

}  // namespace lockstep::test
