// WorkerProcess: one worker, spawned by exec from the loop's thread, with its control channel and
// its output, until it has exited and both are drained.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/channel.h"
#include "agent/base/event_loop.h"
#include "agent/base/line_collector.h"
#include "lockstep/node/v1/worker.pb.h"

namespace lockstep::agent {

struct WorkerOptions {
  std::string run;  // LOCKSTEP_RUN of the child
  int rank = 0;
  int threads = 1;
  // a core for each thread, which those of its team that wait may keep for a while
  bool ownCores = false;
  int sharedMemoryFd = -1;   // becomes kWorkerSharedFd in the child
  std::string logPath;       // ""; none
  std::string folder = "/";  // current folder of the child
};

inline constexpr int kWorkerChannelFd = 3, kWorkerSharedFd = 4;

// Processes that the kernel has killed on this host because memory ran out; -1: it does not count
// them.
std::int64_t outOfMemoryKills();

class WorkerProcess {
 public:
  // All called on the loop's thread. onExit is the last; it may destroy the object.
  struct Handlers {
    std::function<void(node::v1::FromWorker&)> onMessage;
    std::function<void(std::vector<std::string> lines, std::uint64_t dropped)> onLines;
    std::function<void(int status)> onExit;  // as from waitpid
  };
  // Call on the loop's thread only: the child dies with the thread that spawned it.
  static Result<std::unique_ptr<WorkerProcess>> spawn(EventLoop& loop, const WorkerOptions& options,
                                                      Handlers handlers);
  ~WorkerProcess();  // kills and reaps what still runs

  void send(const node::v1::ToWorker& message);
  void signal(int number);  // to the worker's process group
  int pid() const { return pid_; }
  bool exited() const { return exited_; }
  std::string tail() const { return lines_.tail(); }
  std::string exitText(int status) const;  // how it ended, with what is known of why
  void noteMemory(std::int64_t bytes) { lastMemory_ = bytes; }

 private:
  WorkerProcess(EventLoop& loop, Handlers handlers) : loop_(loop), handlers_(std::move(handlers)) {}
  void readOutput();
  void closeOutput();
  void flushLines();
  void reap(int tries);

  EventLoop& loop_;
  Handlers handlers_;
  pid_t pid_ = -1;
  bool exited_ = false;
  std::int64_t lastMemory_ = 0;
  std::int64_t killsBefore_ = outOfMemoryKills();
  int output_ = -1;
  EventLoop::TimerId lineTimer_ = 0, reapTimer_ = 0;
  LineCollector lines_;
  std::unique_ptr<BoundedFile> log_;
  std::unique_ptr<Channel> channel_;
};

// "exited with code 3", "was killed by signal 9 (SIGKILL) by the kernel, which was out of memory;
// …". `outOfMemory`: whether the kernel killed for want of memory while the process ran; null: not
// known.
std::string exitText(int status, std::int64_t residentBytes, std::optional<bool> outOfMemory);

}  // namespace lockstep::agent
