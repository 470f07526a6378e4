// Connections of programs that do not belong to a run, at its ports.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::test {

// Keeps so many connections to a port of the loopback under way, on a thread, and opens another for
// each that is closed: silent ones, garbage, HTTP, the begin of a TLS handshake, and single bytes.
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

// A connection to a port of the loopback that has said this; -1 where there is none.
int connectAndSay(std::uint16_t port, const std::string& words);
// What a client begins a TLS handshake with, a record of 16384 bytes without its end.
std::string beginOfHandshake();
// Whether the other end closes the connection within `seconds`; what it sends is dropped.
bool isClosed(int fd, double seconds);

}  // namespace lockstep::test
