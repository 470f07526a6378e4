// What Lockstep adds to a program's Python: the module `lockstep` (resources/python), and a
// sitecustomize that opens a pipe to the worker at the start of each Python process. It tells
// values, and prints the stacks of its threads when it is asked to by a signal.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/unique_fd.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::agent {

class PythonHooks {
 public:
  // Writes the modules below `folder`, and makes the pipe of a rank there.
  static Result<std::unique_ptr<PythonHooks>> make(const std::string& folder, int rank);
  ~PythonHooks();

  const std::string& folder() const { return folder_; }  // for PYTHONPATH
  const std::string& pipe() const { return pipe_; }      // for LOCKSTEP_PIPE

  // Returns the values that have been told since the last call. One without a step belongs to the
  // step after the previous one of its tag.
  std::vector<run::v1::Scalar> read();
  // Asks the program for its stacks, if it is a Python process, else the Python processes that it
  // has started. takeStacks() returns them once they have come. Returns false if there are none.
  bool askStacks(int program);
  std::vector<std::string> takeStacks();

 private:
  PythonHooks(std::string folder, std::string pipe, UniqueFd fd)
      : folder_(std::move(folder)), pipe_(std::move(pipe)), fd_(std::move(fd)) {}
  void takeLine(const std::string& line, std::vector<run::v1::Scalar>& values);

  std::string folder_, pipe_;
  UniqueFd fd_;
  std::string rest_;  // of a line whose end has not come
  std::set<int> pids_;
  std::map<std::string, std::int64_t> steps_;  // the last, by tag
  std::vector<std::string> stacks_;
  std::size_t stackBytes_ = 0;
};

}  // namespace lockstep::agent
