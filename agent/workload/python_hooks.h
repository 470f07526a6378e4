// What Lockstep adds to a program's Python: the module `lockstep` (resources/python), and a
// sitecustomize that opens a pipe to the worker at the start of each Python process. It tells
// values, how long steps take and how long they wait for other ranks, and which libraries it reads
// that from; it prints the stacks of its threads when it is asked to by a signal.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/workload/hook_messages.h"
#include "engine/base/status.h"
#include "engine/base/unique_fd.h"

namespace lockstep::agent {

class PythonHooks {
 public:
  using Told = HookMessages::Told;

  // Writes the modules below `folder`, and makes the pipe of a rank there.
  static Result<std::unique_ptr<PythonHooks>> make(const std::string& folder, int rank);
  ~PythonHooks();

  const std::string& folder() const { return folder_; }  // for PYTHONPATH
  const std::string& pipe() const { return pipe_; }      // for LOCKSTEP_PIPE

  // Returns what has been told since the last call.
  Told read();
  // Asks the program for its stacks, if it is a Python process, else the Python processes that it
  // has started. takeStacks() returns them once they have come. Returns false if there are none.
  bool askStacks(int program);
  std::vector<std::string> takeStacks();

 private:
  PythonHooks(std::string folder, std::string pipe, UniqueFd fd)
      : folder_(std::move(folder)), pipe_(std::move(pipe)), fd_(std::move(fd)) {}

  std::string folder_, pipe_;
  UniqueFd fd_;
  HookMessages messages_;
};

}  // namespace lockstep::agent
