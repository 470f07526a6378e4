// JobHost: a node that a scheduler has allocated to a job, as a host. Its commands run through a
// command of the scheduler, on another host.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "app/ssh/host.h"

namespace lockstep::app {

// How a scheduler's job stands.
struct JobState {
  enum class Phase : std::uint8_t {
    kQueued,
    kRunning,
    kEnding,  // its processes are being ended; it may be queued again afterwards
    kOver,
  };
  Phase phase = Phase::kQueued;
  std::string state;   // the scheduler's word: "PENDING"; "": it does not know the job any more
  std::string reason;  // why it waits or ended: "Resources"; "": none
  std::string start;   // when it is expected to start, or started: "2026-01-31T12:00:00"
  int restarts = 0;    // by the scheduler
};

class JobHost : public Host {
 public:
  // Asks the scheduler for the job's state as this node sees it.
  virtual Result<JobState> look(std::stop_token stop) = 0;
  // Whether the job was over for this node at the last look().
  bool isOver() const { return over_; }
  // Whether commands then run on the other host, where the files of the job are.
  bool filesOutliveJob() const { return filesOutliveJob_; }

  Status connect(std::stop_token stop = {}) override;
  Status waitConnected(std::chrono::milliseconds timeout, std::stop_token stop = {}) override;
  LinkStatus status() const override;
  Result<ExecResult> exec(const std::string& command, ExecOptions options = {},
                          std::stop_token stop = {}) override;
  Result<UniqueFd> openSubsystem(const std::string& name, std::stop_token stop = {}) override;
  Result<std::string> forward(const std::string& remoteSocket,
                              const std::string& bridgeCommand) override;
  void stopForward(const std::string& localSocket) override;
  void close() override;
  bool onlyCommands() const override { return true; }

 protected:
  // `prefix` goes before the words of a command.
  JobHost(std::unique_ptr<Host> through, std::string prefix, bool filesOutliveJob);
  Host& through() { return *through_; }
  void setOver(bool over) { over_ = over; }

 private:
  std::string onNode(const std::string& command) const;

  const std::unique_ptr<Host> through_;
  const std::string prefix_;
  const bool filesOutliveJob_;
  std::atomic<bool> over_ = false;
};

}  // namespace lockstep::app
