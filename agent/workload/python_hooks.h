// What Lockstep adds to a program's Python: the module `lockstep` (resources/python), which tells
// values and steps through a pipe to the worker, and the hooks: a sitecustomize that imports it at
// the start of each Python process. Then it also tells how long steps take and how long they wait
// for other ranks, and which libraries it reads that from, and prints the stacks of its threads
// when it is asked to by a signal.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "agent/workload/hook_messages.h"
#include "engine/base/status.h"
#include "engine/base/unique_fd.h"

namespace lockstep::agent {

class PythonHooks {
 public:
  using Told = HookMessages::Told;

  // Writes the modules below `folder`, without the hooks if not `hooked`, and makes the pipe of a
  // rank there. `index`: among the ranks of its node.
  static Result<std::unique_ptr<PythonHooks>> make(const std::string& folder, int index,
                                                   bool hooked);
  ~PythonHooks();

  const std::string& folder() const { return folder_; }  // for PYTHONPATH
  const std::string& pipe() const { return pipe_; }      // for LOCKSTEP_PIPE
  // For LOCKSTEP_LOCAL_PIPES, where torchrun starts the ranks of this node: each process takes the
  // pipe whose name ends with its LOCAL_RANK.
  std::string localPipes() const { return folder_ + "/local-"; }

  // Returns what has been told since the last call.
  Told read();
  // Tells a line of the program's output to the rank with this index on the node: it is among what
  // that one reads. Returns false if that cannot be: no such rank runs, or its pipe is full.
  bool tellLine(int index, std::string_view line) const;
  // The Python processes that have said so.
  const std::set<int>& processes() const { return messages_.processes(); }
  // Returns the process that torchrun has started as this rank; 0: none runs.
  int launchedRank();
  // Asks the program for its stacks, if it is a Python process, else the Python processes that it
  // has started, and the rank's process for what PyTorch's Flight Recorder has. takeStacks()
  // returns all that once it has come. Returns false if nobody is there to be asked.
  bool askStacks(int program);
  // They begin with the collectives that the rank's process has begun (CollectiveCount), if it
  // runs, and those of its Flight Recorder (RecordedCollective). Paths of files in the folder
  // `code` are relative to it; frames of the hooks are left out.
  std::vector<std::string> takeStacks(const std::string& code);

 private:
  PythonHooks(std::string folder, std::string pipe, UniqueFd fd, UniqueFd counts)
      : folder_(std::move(folder)),
        pipe_(std::move(pipe)),
        fd_(std::move(fd)),
        counts_(std::move(counts)) {}
  bool askRecorder() const;
  std::vector<std::string> takeEvidence();

  std::string folder_, pipe_;
  UniqueFd fd_, counts_;
  HookMessages messages_;
};

}  // namespace lockstep::agent
