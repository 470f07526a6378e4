// Scheduler: what allocates the nodes of a cluster with a placement, Slurm or Kubernetes. Its jobs
// go by numbers. Blocking; errors as of Slurm (app/slurm/slurm.h) and Kubectl
// (app/kubernetes/kubectl.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "app/cluster/cluster_session.h"
#include "app/ssh/job_host.h"
#include "engine/base/status.h"

namespace lockstep::app {

class Scheduler {
 public:
  Scheduler() = default;
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  virtual ~Scheduler() = default;

  virtual Status connect(std::stop_token stop) = 0;
  // After an error: until it may answer again.
  virtual void awaitLink(std::stop_token stop) = 0;
  virtual void close() = 0;

  // Submits a job; nobody may cancel in between, since whether it was submitted would be unknown.
  // Tells what it does. `name` is shown to people.
  virtual Result<std::int64_t> submit(const std::string& name,
                                      const std::function<void(Message)>& doing,
                                      std::stop_token stop) = 0;
  virtual Result<JobState> job(std::int64_t job, std::stop_token stop) = 0;
  // Returns its place among the queued jobs, from 1, where the scheduler has such an order.
  virtual std::optional<int> position(std::int64_t job, std::stop_token stop) = 0;
  // Returns the last that a job printed which ended early; "": nothing.
  virtual std::string lastOutput(std::int64_t job, std::stop_token stop) = 0;
  // Adds the nodes of a running job, and the job, to a cluster without an allocation.
  virtual Status addNodes(std::int64_t job, const JobState& state, spec::v1::ClusterSpec& cluster,
                          std::stop_token stop) = 0;
  // Ends exactly this job. Idempotent.
  virtual Status cancel(std::int64_t job, std::stop_token stop) = 0;
  // Returns whether its end, or the notice of it, stopped runs that were under way.
  virtual bool stoppedRuns(std::int64_t job, std::stop_token stop) = 0;
  // Whether it queues the same job again, where a run continues after the end of its job. Else
  // another job is submitted.
  virtual bool queuesJobsAgain() const = 0;

  // What a person can do where a job cannot be cancelled, and where an error has happened; "": the
  // studio's machine.
  virtual Message howToCancel(std::int64_t job) const = 0;
  virtual std::string place() const = 0;
};

// Returns the scheduler of a cluster with a placement, not connected yet. `cluster` must outlive
// it.
std::unique_ptr<Scheduler> schedulerOf(const spec::v1::ClusterSpec& cluster,
                                       const ClusterSessionOptions& options);

std::unique_ptr<Scheduler> slurmScheduler(const spec::v1::ClusterSpec& cluster,
                                          const ClusterSessionOptions& options);
std::unique_ptr<Scheduler> kubernetesScheduler(const spec::v1::ClusterSpec& cluster);

// Returns what would be submitted: a batch script, or the objects of a job as JSON.
std::string slurmScript(const spec::v1::ClusterSpec& cluster);
std::string kubernetesManifest(const spec::v1::ClusterSpec& cluster);

}  // namespace lockstep::app
