// The stacks of all threads of a process, with symbols.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "agent/base/commands.h"
#include "agent/base/event_loop.h"
#include "engine/base/status.h"
#include "engine/base/unique_fd.h"

namespace lockstep::agent {

struct ThreadStack {
  int tid = 0;
  std::string name;                 // of the thread
  std::string state;                // as in /proc: "S (sleeping)", "T (stopped)"
  std::vector<std::string> frames;  // "lockstep::runtime::Executor::run", innermost first
};

// Stops each thread of the process while it is read, which takes milliseconds; also reads threads
// that are stopped already. Linux has to allow it: the process names an ancestor of the caller by
// allowStacks(). Errors: kPermissionDenied, kNotFound.
Result<std::vector<ThreadStack>> stacksOf(int pid);

// Lets the parent of this process, and its other children, read the stacks of this process.
void allowStacks();

// Runs stacksOf() in processes of its own, `lockstep-agent stacks PID`: a tracer is told of the
// stops of what it traces as a parent is of exits. Must be used on the loop's thread.
class StackReader {
 public:
  explicit StackReader(EventLoop& loop) : loop_(loop) {}
  ~StackReader();
  StackReader(const StackReader&) = delete;
  StackReader& operator=(const StackReader&) = delete;

  // Calls `done` with a line for each thread, then one for each of its frames, indented; or with a
  // line that says why there are none. Takes at most ten seconds.
  using Done = std::function<void(std::vector<std::string> lines)>;
  void read(int pid, Done done);

 private:
  struct Reading {
    int child = 0;
    UniqueFd output;
    std::string text;
    Done done;
  };
  void onOutput(int fd);

  EventLoop& loop_;
  std::map<int, Reading> readings_;  // by descriptor
};

}  // namespace lockstep::agent
