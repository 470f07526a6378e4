// An HTTP server on 127.0.0.1 that keeps what it is sent.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/unique_fd.h"

namespace lockstep::tests {

class LoopbackServer {
 public:
  // Answers each request with `answer`; "": accepts and says nothing.
  explicit LoopbackServer(std::string answer) : answer_(std::move(answer)) {
    listener_ = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    LOCKSTEP_CHECK(bind(listener_.get(), any, size) == 0 && listen(listener_.get(), 8) == 0 &&
                       getsockname(listener_.get(), any, &size) == 0,
                   "loopback");
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
  }

  std::string url(const std::string& path) const {
    return fmt::format("http://user:hunter2@127.0.0.1:{}{}", port_, path);
  }
  std::vector<std::string> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  static std::string receive(int fd) {
    std::string out;
    char bytes[4096];
    for (;;) {
      const std::size_t head = out.find("\r\n\r\n");
      const std::size_t length = out.find("Content-Length: ");
      if (head != std::string::npos && length != std::string::npos &&
          out.size() >= head + 4 + std::stoul(out.substr(length + 16)))
        return out;
      const ssize_t n = recv(fd, bytes, sizeof bytes, 0);
      if (n <= 0) return out;
      out.append(bytes, static_cast<std::size_t>(n));
    }
  }
  void serve(const std::stop_token& stop) {
    std::vector<UniqueFd> silent;
    while (!stop.stop_requested()) {
      pollfd waiting{listener_.get(), POLLIN, 0};
      if (poll(&waiting, 1, 20) <= 0) continue;
      UniqueFd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client) continue;
      std::string request = receive(client.get());
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(std::move(request));
      }
      if (answer_.empty())
        silent.push_back(std::move(client));
      else
        (void)send(client.get(), answer_.data(), answer_.size(), MSG_NOSIGNAL);
    }
  }

  std::string answer_;
  UniqueFd listener_;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  std::jthread thread_;
};

inline constexpr const char* kHttpOk = "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";

}  // namespace lockstep::tests
