// What Lockstep adds to a program's Python: the module `lockstep` (resources/python), which tells
// values and steps through a pipe to the worker, and the hooks: a sitecustomize that imports it at
// the start of each Python process. Then it also tells how long steps take and how long they wait
// for other ranks, and which libraries it reads that from, and prints the stacks of its threads
// when it is asked to by a signal.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/base/unique_fd.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::agent {

// A training step, as a process of the program has measured it.
struct ProgramStep {
  int process = 0;                      // its number, as the process itself knows it
  std::int64_t number = 0;              // from 1, at each start of the process
  Nanoseconds begin = 0, duration = 0;  // monotonicNow()
  // Seconds; waiting includes the transfer, as far as nothing was computed beside it.
  double waiting = 0, forward = 0, backward = 0, optimizer = 0;
  double elements = 0;  // of the tensors that its data loaders gave it; 0: not known
};

class PythonHooks {
 public:
  // In the order in which they came.
  struct Told {
    std::vector<run::v1::Scalars> values;  // without ranks
    std::vector<ProgramStep> steps;
    std::vector<run::v1::ProgramSource> sources;  // each once
    bool empty() const { return values.empty() && steps.empty() && sources.empty(); }
  };

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

  // Returns what has been told since the last call. A value without a step belongs to the step
  // after the previous one of its tag.
  Told read();
  // Returns the process that torchrun has started as this rank; 0: none runs.
  int launchedRank();
  // Asks the program for its stacks, if it is a Python process, else the Python processes that it
  // has started. takeStacks() returns them once they have come. Returns false if there are none.
  bool askStacks(int program);
  // Paths of files in the folder `code` are relative to it; frames of the hooks are left out.
  std::vector<std::string> takeStacks(const std::string& code);

 private:
  PythonHooks(std::string folder, std::string pipe, UniqueFd fd)
      : folder_(std::move(folder)), pipe_(std::move(pipe)), fd_(std::move(fd)) {}
  void takeLine(const std::string& line, Told& told);
  void takeHello(const nlohmann::json& json);
  void takeValue(const nlohmann::json& json, Told& told);
  void takeSource(const nlohmann::json& json, Told& told);

  std::string folder_, pipe_;
  UniqueFd fd_;
  std::string rest_;  // of a line whose end has not come
  std::set<int> pids_;
  std::vector<int> launched_;                  // by torchrun, in the order of their starts
  std::set<std::string> sources_;              // that have been told
  std::map<std::string, std::int64_t> steps_;  // the last, by tag
  std::vector<std::string> stacks_;
  std::size_t stackBytes_ = 0;
};

}  // namespace lockstep::agent
