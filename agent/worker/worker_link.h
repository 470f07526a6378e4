// A worker's end of its control channel. The process exits when the channel closes. The reader
// thread is the watchdog: it exits the process even while the trainer is blocked in a collective.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "agent/base/channel.h"
#include "engine/backends/backend.h"
#include "engine/comm/communicator.h"
#include "engine/data/dataset.h"
#include "engine/plan/plan.h"
#include "engine/runtime/schedule.h"
#include "engine/runtime/trainer.h"
#include "lockstep/node/v1/worker.pb.h"

namespace lockstep::agent {

class WorkerLink final : public comm::Store {
 public:
  // Waits for WorkerStart and starts the watchdog.
  explicit WorkerLink(int fd) : channel_(fd) {}
  bool start(node::v1::WorkerStart& out);

  BlockingChannel& channel() { return channel_; }
  const std::atomic<bool>& stopAsked() const { return stop_; }
  void askStop() { stop_ = true; }
  std::atomic<bool>& checkpointAsked() { return checkpoint_; }
  const runtime::StepWindow& profiled() const { return profiled_; }
  const std::atomic<std::int64_t>& copiedCheckpoint() const { return copied_; }  // its step
  // Whether the stacks of the program were asked for, since the last call.
  bool takeStacksAsked() { return stacks_.exchange(false); }
  // Ends the whole process group where the supervisor is lost: a program's processes too.
  void endGroupWithSupervisor();
  // Tells the supervisor that this rank is ready, with the bytes that it has bound, and waits until
  // all ranks are.
  void awaitStart(std::int64_t boundBytes = 0);

  Status set(const std::string& key, const std::string& value) override;
  Result<std::string> get(const std::string& key, Nanoseconds timeout) override;

  // Takes a message of the supervisor. On the watchdog's thread.
  void onMessage(const node::v1::ToWorker& message);

 private:
  void watch();

  BlockingChannel channel_;
  std::atomic<bool> stop_{false}, checkpoint_{false}, stacks_{false}, endsGroup_{false};
  std::atomic<std::int64_t> copied_{0};
  runtime::StepWindow profiled_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool go_ = false;  // mutex_
  std::uint64_t nextGet_ = 1;
  std::map<std::uint64_t, std::string> got_;  // mutex_
};

// Runs a program of the user's own (RunSpec.workload) as a rank.
Status runProgram(const node::v1::WorkerStart& start, WorkerLink& link);

// Runs workload.setup of a program, in the folder that `start` names.
Status runProgramSetup(const node::v1::WorkerStart& start, WorkerLink& link);

// Runs a benchmark of the agent instead of a run.
Status measureSteps(const node::v1::WorkerStart& start, WorkerLink& link);
Status measureCollectives(const node::v1::WorkerStart& start, WorkerLink& link);
Status runCollectives(const node::v1::WorkerStart& start, WorkerLink& link);
Status runCommunication(const node::v1::WorkerStart& start, WorkerLink& link);
Status runSpeed(const node::v1::WorkerStart& start, WorkerLink& link);
Status runBench(const node::v1::WorkerStart& start, WorkerLink& link);
Status runVerify(const node::v1::WorkerStart& start, WorkerLink& link);

// The objects that WorkerStart describes.
Result<plan::Plan> readPlan(const node::v1::WorkerStart& start);
// Opens the backend of the rank's kind, threads and device.
std::string backendName(const node::v1::WorkerStart& start);
backends::BackendOptions backendOptions(const node::v1::WorkerStart& start);
Result<std::unique_ptr<backends::Backend>> openBackend(const node::v1::WorkerStart& start);
Result<std::unique_ptr<data::Dataset>> openData(const node::v1::WorkerStart& start, bool train);
Result<runtime::InitFrom> initOf(const node::v1::WorkerStart& start);
data::Augment augmentOf(const spec::v1::DataSpec& data);
runtime::Schedule scheduleOf(const spec::v1::TrainingSpec& training);

}  // namespace lockstep::agent
