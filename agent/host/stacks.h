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
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

// Stops each thread of the process while it is read, for some tenths of a millisecond where a core
// is free: symbols are looked up afterwards. Also reads threads that are stopped already. Linux has
// to allow it: the process names an ancestor of the caller by allowStacks(). At most 64 threads,
// and 64 frames of each. Errors: kPermissionDenied, kNotFound, kFailedPrecondition while a debugger
// is attached.
Result<node::v1::ReadRankStacksReply> stacksOf(int pid);

// Returns a line for each thread, and one for each of its frames, indented.
std::vector<std::string> stackLines(const node::v1::ReadRankStacksReply& stacks);

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

  // Calls `done` with the stacks, or why there are none, within ten seconds; not if the reader is
  // destroyed before. Errors: also kDeadlineExceeded.
  using Done = std::function<void(Result<node::v1::ReadRankStacksReply> stacks)>;
  void read(int pid, Done done);

 private:
  struct Reading {
    int child = 0;
    int pid = 0;
    UniqueFd output;
    std::string bytes;
    Done done;
  };
  void onOutput(int fd);

  EventLoop& loop_;
  std::map<int, Reading> readings_;  // by descriptor
};

}  // namespace lockstep::agent
