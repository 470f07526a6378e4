// Program: the process of a program of the user's own, as the child of a worker.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/status.h"

namespace lockstep::agent {

// What to do where a node lacks what a spec names, by a path below the code or an absolute one.
Message nextWhereAbsent(bool belowCode);
// Returns the path of a program. A name with a '/' is a path, below `folder` if it is relative. For
// any other name the folders of `path` are searched for an executable file; in a folder that has
// python3 but no python, the name python means python3. Errors: kNotFound, kFailedPrecondition (not
// executable).
Result<std::string> resolveProgram(const std::string& name, const std::string& path,
                                   const std::string& folder);

// Describes an end, as from waitpid: "exited with code 3", "was killed by signal 9".
Message endText(int status);
// The variables of this process, "NAME=value".
std::vector<std::string> inheritedEnvironment();

class Program {
 public:
  struct Options {
    std::string path;                      // of the program's file
    std::vector<std::string> words;        // its arguments, from its own name on
    std::vector<std::string> environment;  // "NAME=value", all of it
    std::string folder;                    // its current folder
  };
  // It dies with the thread that starts it, and is in the process group of the caller.
  // Errors: kFailedPrecondition, it cannot be run; system errors.
  static Result<Program> start(const Options& options);
  Program(Program&& other) noexcept;
  Program& operator=(Program&&) = delete;
  ~Program();  // kills and reaps it, if it still runs

  int pid() const { return pid_; }
  // Waits up to `limit` for output or its end. Calls `onOutput` with what it has written to stdout
  // and stderr. Returns whether it runs, or its output is still open shortly after its end: a child
  // of it may have that open.
  bool wait(Nanoseconds limit, const std::function<void(std::string_view)>& onOutput);
  void signal(int number) const;
  bool exited() const { return exited_; }
  // From now on wait() also waits for its children, as long as they have its output open.
  void awaitChildren() { patient_ = true; }
  int status() const { return status_; }  // as from waitpid, once wait() has returned false

 private:
  Program(pid_t pid, int output) : pid_(pid), output_(output) {}
  pid_t pid_;
  int output_;  // -1: at its end
  int status_ = 0;
  bool exited_ = false, patient_ = false;
  Nanoseconds exitedAt_ = 0;
};

}  // namespace lockstep::agent
