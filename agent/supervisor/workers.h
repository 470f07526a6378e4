// Workers: the processes of this node's ranks in one generation of a run, with the cores and the
// memory that they share. Starts and ends them and keeps what is known of each; their lines, starts
// and exits become records. What their messages and exits mean for the run, the handlers decide.
// Runs on the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/event_loop.h"
#include "agent/base/run_folder.h"
#include "agent/host/cores.h"
#include "agent/worker/worker_process.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/base/unique_fd.h"
#include "engine/specs/specs.h"
#include "lockstep/node/v1/node.pb.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::agent {

class Workers {
 public:
  struct Worker {
    int rank = 0;
    Nanoseconds started = 0;
    std::unique_ptr<WorkerProcess> process;
    int program = 0;  // the process of a program of the user's own; 0: none yet
    int pid() const { return program > 0 ? program : process->pid(); }
    bool ready = false, exited = false;
    std::optional<run::v1::Finished> finished;
    std::optional<Error> failed;
    std::int64_t lastStep = -1;
  };
  struct Handlers {
    std::function<void(Worker&, node::v1::FromWorker&)> onMessage;
    std::function<void(Worker&, int status)> onExit;  // as from waitpid; must not call clear()
    std::function<void(run::v1::Record)> append;      // to the run's records
    std::function<void(std::string line)> say;
  };
  Workers(EventLoop& loop, RunFolder folder, Handlers handlers);
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Starts a worker for each rank of the request; from the run's own checkpoint, or as the request
  // says. After an error, those that were started run.
  // `formation`: how long they wait for other ranks that begin.
  Status start(const node::v1::PrepareRequest& request, int generation, bool fromCheckpoints,
               Nanoseconds formation);
  // A worker has said that it is ready, or that its program runs in this process.
  void noteReady(Worker& worker, std::int64_t boundBytes);
  void noteProgram(Worker& worker, int pid);
  void noteMemory(int rank, std::int64_t bytes);

  // Sends to all workers that run.
  void sendAll(const node::v1::ToWorker& message);
  void signalAll(int number);
  // Asks programs of the user's own to leave. Kills after 5 s what still runs, if `isEnding` then
  // says so, and at once where no program runs yet.
  void endPrograms(std::function<bool()> isEnding);
  void freeCores() { cores_ = CoreClaims(); }
  void clear() { workers_.clear(); }  // kills what still runs

  bool empty() const { return workers_.empty(); }
  bool gone() const;         // all have exited
  bool allReady() const;     // every rank that was to be started
  bool allFinished() const;  // likewise, and has exited
  bool anyStopped() const;   // has finished because it was asked to stop
  // Returns what rank 0 has said at its end, else what another rank has; empty if none has ended.
  run::v1::Finished finished() const;
  std::int64_t lastStep() const;  // the greatest of any of them; -1: none
  // Returns the processes of those that run, by rank.
  std::map<int, int> processes() const;
  const Worker* of(int rank) const;  // null: none runs
  bool owns(int pid) const;          // whether that is one of those that run

 private:
  void claimCores(const node::v1::PrepareRequest& request,
                  const std::vector<specs::RankDevice>& devices);
  Status makeSharedMemory(const node::v1::PrepareRequest& request);
  Result<Worker*> spawn(const node::v1::PrepareRequest& request, int rank,
                        const specs::RankDevice& device);
  // Returns what a worker is told at its start, but for the generation and where that begins.
  node::v1::WorkerStart startOf(const node::v1::PrepareRequest& request, int index,
                                const specs::RankDevice& device) const;
  void onLines(int rank, std::vector<std::string> lines, std::uint64_t dropped);
  void onExit(Worker& worker, int status);

  EventLoop& loop_;
  const RunFolder folder_;
  const Handlers handlers_;
  std::size_t expected_ = 0;  // ranks that were to be started
  std::vector<std::unique_ptr<Worker>> workers_;
  UniqueFd sharedMemory_;
  CoreClaims cores_;  // while workers run
};

}  // namespace lockstep::agent
