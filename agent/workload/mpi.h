// Ranks that Open MPI's mpirun starts. It runs on the first node. Its daemons on the others, which
// it would start by ssh, are started by the workers there. What it starts for each rank is a script
// that tells the rank's worker its environment; the worker runs the program with that, as its own
// child, and the script ends as the program does. So ranks are ranks as in other runs.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "agent/workload/environment.h"
#include "agent/workload/program.h"
#include "engine/base/status.h"
#include "engine/base/unique_fd.h"
#include "engine/comm/communicator.h"

namespace lockstep::agent {

// Of one rank's worker. Used on one thread.
class MpiRank {
 public:
  // `folder` is the worker's own, absolute. Exchanges folders with the other ranks by `store`, and
  // returns once mpirun may start what is for this rank. Errors: of the store and the system.
  static Result<std::unique_ptr<MpiRank>> make(const std::string& folder, const ProgramRank& rank,
                                               comm::Store& store);
  ~MpiRank();
  MpiRank(const MpiRank&) = delete;
  MpiRank& operator=(const MpiRank&) = delete;

  // At rank 0 starts mpirun, with the environment of its program; at the first rank of any other
  // node prepares for its daemon. Call when all ranks are made. Errors: there is no mpirun.
  Status begin(const std::vector<std::string>& environment, const std::string& codeFolder);
  // Goes on with it; call some times a second. `onOutput` gets what mpirun and its daemon print.
  // Errors: kAborted, they have failed.
  Status pump(const std::function<void(std::string_view)>& onOutput);
  // The variables of Open MPI, once mpirun has started this rank; nullopt before.
  std::optional<std::vector<std::string>> variables() const;
  // The program has succeeded. One that has failed is told when this process ends.
  void finish();
  bool over() const { return !starter_ && !awaits_; }  // mpirun, or its daemon here, has ended

 private:
  MpiRank(std::string folder, ProgramRank rank, comm::Store& store)
      : folder_(std::move(folder)), rank_(std::move(rank)), store_(store) {}
  bool isFirstOf(int rank) const;  // of its address
  Status share(const std::string& folder);
  Status writeScripts() const;
  Status start(std::vector<std::string> words);
  Status passRequests();
  std::string file(const char* kind) const;
  std::string hostsText() const;

  std::string folder_;  // that all ranks of this address have in common
  const ProgramRank rank_;
  comm::Store& store_;
  UniqueFd end_;  // a pipe to the script
  std::string codeFolder_;
  std::vector<std::string> environment_;
  std::optional<Program> starter_;  // mpirun, or a daemon
  std::string starterName_;
  bool awaits_ = false;  // a daemon that mpirun has not asked for
  struct Asked {
    std::mutex mutex;
    std::optional<Result<std::string>> command;  // mutex; of the daemon
  };
  const std::shared_ptr<Asked> asked_ = std::make_shared<Asked>();
};

}  // namespace lockstep::agent
