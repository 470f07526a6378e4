// Allocation: has a scheduler allocate the nodes of a cluster for one run, in the background.
// Submits a job, and waits for as long as it is queued. For Slurm, deploys the agent before to the
// folder that the login node shares with the nodes; that node is reached without questions.
//
// Used on the inbox's thread; so is the observer. The destructor cancels and joins, which may take
// as long as the scheduler's answer: a window calls end() and destroys it on another thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "app/cluster/cluster_session.h"
#include "app/core/inbox.h"
#include "engine/base/status.h"

namespace lockstep::app {

// What an allocation waits for.
struct QueueState {
  std::string scheduler;        // "Slurm", "Kubernetes"
  std::int64_t job = 0;         // 0: not submitted yet
  std::string state;            // the scheduler's word: "PENDING"
  std::string reason;           // why it waits: "Resources"
  std::optional<int> position;  // among the queued jobs of the partition, from 1
  std::string start;            // when it is expected to start, where the scheduler knows
  std::optional<Error> error;   // the scheduler does not answer; it is asked again
  Message doing;                // before it is submitted: "connecting to the login node"
  bool operator==(const QueueState& other) const;
  Message text() const;  // "Slurm job 12 is PENDING (Resources), position 3"
};

struct AllocationObserver {
  std::function<void(const QueueState&)> onState;  // when it has changed
  // The cluster with the nodes of the running job, or why there is none. Once. Errors:
  // kFailedPrecondition (refused, or ended before it ran), kCancelled (and the job, if it was
  // submitted, cancelled), and those of connecting and deploying.
  std::function<void(Result<std::shared_ptr<const spec::v1::ClusterSpec>>)> onDone;
};

class Allocation {
 public:
  // `cluster` has a placement, and `name` is shown in the queue. If it has a job already, which
  // Slurm queues again, no other is submitted; in Kubernetes another one takes its place.
  Allocation(std::shared_ptr<const spec::v1::ClusterSpec> cluster, std::string name,
             const ClusterSessionOptions& options, Inbox& inbox, AllocationObserver observer);
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  void cancel();
  void end();  // cancels; nothing is called any more, destruction on any thread

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Returns what an allocation would submit, without connecting: the batch script of Slurm, or the
// objects of Kubernetes, whose job has the number 0.
Result<std::string> submissionOf(const spec::v1::ClusterSpec& cluster);

// Whether the scheduler may queue the cluster's job again: whoever launched its run waits for that.
bool mayBeQueuedAgain(const spec::v1::ClusterSpec& cluster);
// Ends the job of a launched cluster, and no other. Does nothing if it has none. Idempotent;
// blocking, for at most about two minutes. Errors: as Scheduler::cancel.
Status endJob(const spec::v1::ClusterSpec& cluster, const ClusterSessionOptions& options,
              std::stop_token stop);

// Returns the state of the job of a launched cluster. Blocking.
struct JobOutlook {
  std::string state, reason;  // the scheduler's words
  bool stoppedRuns = false;   // its end, or the notice of it, stopped runs that were under way
  bool willRestart = false;   // it is queued, or was restarted, after this cluster was allocated
};
Result<JobOutlook> outlookOf(const spec::v1::ClusterSpec& cluster,
                             const ClusterSessionOptions& options, std::stop_token stop);

}  // namespace lockstep::app
