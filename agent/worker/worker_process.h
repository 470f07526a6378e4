// WorkerProcess: one worker process with its control channel and output. It ends when the process
// has exited and both are drained. Spawned by exec on the loop's thread.
#pragma once

#include <sys/types.h>

#include <chrono>
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
  // each thread has its own core, so that waiting threads may spin
  bool ownCores = false;
  int sharedMemoryFd = -1;   // becomes kWorkerSharedFd in the child
  std::string logPath;       // ""; none
  std::string folder = "/";  // current folder of the child
};

inline constexpr int kWorkerChannelFd = 3, kWorkerSharedFd = 4;

// Returns how long a worker waits for a disk on which nothing moves: LOCKSTEP_DISK_LIMIT seconds
// where the environment has it, which workers inherit.
std::chrono::nanoseconds diskLimit();

// Returns the number of processes that the kernel has killed on this host for lack of memory; -1:
// unknown.
std::int64_t outOfMemoryKills();

class WorkerProcess {
 public:
  // Called on the loop's thread. onExit comes last and may destroy the object.
  struct Handlers {
    std::function<void(node::v1::FromWorker&)> onMessage;
    std::function<void(std::vector<std::string> lines, std::uint64_t dropped)> onLines;
    std::function<void(int status)> onExit;  // as from waitpid
  };
  // Must be called on the loop's thread: the child dies with the thread that spawned it.
  static Result<std::unique_ptr<WorkerProcess>> spawn(EventLoop& loop, const WorkerOptions& options,
                                                      Handlers handlers);
  ~WorkerProcess();  // kills and reaps what still runs

  void send(const node::v1::ToWorker& message);
  void signal(int number);  // to the worker's process group
  int pid() const { return pid_; }
  std::string tail() const { return lines_.tail(); }
  Message exitText(int status) const;  // how it ended, with what is known of why
  void noteMemory(std::int64_t bytes) { lastMemory_ = bytes; }

 private:
  WorkerProcess(EventLoop& loop, Handlers handlers) : loop_(loop), handlers_(std::move(handlers)) {}
  void readOutput();
  void closeOutput();
  void flushLines();
  void reap(int tries);
  void endGroup() const;

  EventLoop& loop_;
  Handlers handlers_;
  pid_t pid_ = -1;
  std::string run_;
  int rank_ = 0;
  bool hasProgram_ = false;  // has started one of the user's own
  bool exited_ = false;
  std::int64_t lastMemory_ = 0;
  std::int64_t killsBefore_ = outOfMemoryKills();
  int output_ = -1;
  EventLoop::TimerId lineTimer_ = 0, reapTimer_ = 0;
  LineCollector lines_;
  std::unique_ptr<BoundedFile> log_;
  std::unique_ptr<Channel> channel_;
};

// Describes an exit status: "exited with code 3", "was killed by signal 9 (SIGKILL) by the kernel,
// which was out of memory; …". `outOfMemory`: whether the kernel's OOM killer acted while the
// process ran; null: unknown.
Message exitText(int status, std::int64_t residentBytes, std::optional<bool> outOfMemory);

}  // namespace lockstep::agent
