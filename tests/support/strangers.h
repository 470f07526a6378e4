// Unauthenticated connections to a run's ports.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::test {

// Keeps a number of connections to a loopback port open, on a thread, and reopens each that is
// closed: idle ones, garbage, HTTP, the start of a TLS handshake, and single bytes.
class Strangers {
 public:
  Strangers(std::uint16_t port, int count);
  ~Strangers();
  int opened() const { return opened_; }  // so far
  int cutOff() const { return cutOff_; }  // by the other end, so far

 private:
  void run();
  int open(int kind);

  const std::uint16_t port_;
  const int count_;
  std::atomic<int> opened_{0}, cutOff_{0};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

// Connects to a port of 127.0.0.<host> and sends the text; -1 and errno on failure.
int connectAndSay(std::uint16_t port, const std::string& words, std::uint8_t host = 1);
// The start of a TLS handshake: an incomplete record of 16384 bytes.
std::string beginOfHandshake();
// Returns whether the other end closes the connection within `seconds`; discards what it sends.
bool isClosed(int fd, double seconds);

}  // namespace lockstep::test
