// Attaches gdbserver to a process of this account while a debugger is connected to a unix socket.
//
// gdbserver talks over a socket pair; the debugger's connection is relayed to it. The relay follows
// GDB's remote serial protocol: gdbserver leaves the breakpoints of a debugger that was cut off in
// the program, which would end it. When a debugger goes without detaching, the relay interrupts the
// program, removes the breakpoints and detaches.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "engine/base/clock.h"
#include "engine/base/status.h"

namespace lockstep::agent {

struct DebuggerOptions {
  int pid = 0;
  std::string socket;    // to listen at
  Nanoseconds wait = 0;  // for a debugger, each time
};
enum class DebuggerState : std::uint8_t {
  kWaiting,   // it may connect
  kAttached,  // gdbserver has stopped the process; it runs when the debugger says so
  kLeft,      // the process goes on
};

// Lets one debugger after another attach to the process. Blocks until `tell` returns false,
// `cancelled`, or the process has ended. Errors: kFailedPrecondition without gdbserver or where
// another debugger is attached, kPermissionDenied where it may not attach, kDeadlineExceeded if
// none has connected in time.
Status serveDebugger(const DebuggerOptions& options, const std::function<bool(DebuggerState)>& tell,
                     const std::function<bool()>& cancelled);

// Splits one direction of the protocol into packets, "$body#checksum". Keeps the first 256 bytes of
// a body.
class PacketScanner {
 public:
  // Calls `packet` with the body of each one that is complete.
  void feed(std::string_view bytes, const std::function<void(std::string_view body)>& packet);

 private:
  enum class At : std::uint8_t { kBetween, kBody, kChecksum1, kChecksum2 };
  At at_ = At::kBetween;
  std::string body_;
  bool isNotice_ = false;  // "%…": asynchronous
};

// What a debugger has changed and has to be undone when it goes.
class DebuggerWatch {
 public:
  void fromDebugger(std::string_view bytes);
  void fromServer(std::string_view bytes);

  bool isRunning() const { return running_; }  // the program, until a stop is reported
  bool awaitsReply() const { return !pending_.empty(); }
  bool isDetached() const { return detached_; }  // or the program was ended
  bool namesProcesses() const { return namesProcesses_; }
  // "0,401136,1": type, address and kind of each.
  const std::set<std::string>& breakpoints() const { return breakpoints_; }

 private:
  void onRequest(std::string_view body);
  void onAnswer(std::string_view body);

  PacketScanner requests_, answers_;
  std::string pending_;  // the request that has no answer yet
  std::set<std::string> breakpoints_;
  bool running_ = false, detached_ = false, namesProcesses_ = false;
};

}  // namespace lockstep::agent
