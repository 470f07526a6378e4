#include "app/cluster/allocation.h"

#include <condition_variable>
#include <mutex>
#include <thread>

#include "app/cluster/scheduler.h"
#include "engine/specs/placement.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{500}, kLongestPause{5000};  // between looks at the queue
constexpr int kMostRefusals = 5;  // answers in turn that are not understood

Error ofPlace(Error error, const Scheduler& scheduler) {
  if (error.node.empty()) error.node = scheduler.place();
  return error;
}

// Waits for a time, or until stopped.
void pauseFor(milliseconds time, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, time, [] { return false; });
}

// One allocation, on its thread.
class Allocating {
 public:
  Allocating(const spec::v1::ClusterSpec& cluster, std::string name,
             const ClusterSessionOptions& options, std::function<void(const QueueState&)> tell)
      : cluster_(cluster),
        name_(std::move(name)),
        tell_(std::move(tell)),
        scheduler_(schedulerOf(cluster, options)),
        job_(cluster.placement().job()) {}

  Result<std::shared_ptr<const spec::v1::ClusterSpec>> run(const std::stop_token& stop) {
    auto allocated = allocate(stop);
    scheduler_->close();
    if (!allocated.ok()) return ofPlace(allocated.error(), *scheduler_);
    return allocated;
  }

 private:
  Result<std::shared_ptr<const spec::v1::ClusterSpec>> allocate(const std::stop_token& stop) {
    if (!scheduler_->place().empty()) doing(message("connecting to the login node"));
    if (const Status connected = scheduler_->connect(stop); !connected.ok())
      return job_ != 0 && stop.stop_requested() ? cancelJob(connected.error()) : connected.error();
    if (job_ != 0 && !scheduler_->queuesJobsAgain()) {
      LOCKSTEP_TRY(scheduler_->cancel(job_, {}));  // also where nobody waits for the other
      job_ = 0;
    }
    const bool again = job_ != 0;
    if (job_ == 0) {
      LOCKSTEP_ASSIGN(job_, scheduler_->submit(
                                name_, [this](Message what) { doing(std::move(what)); }, stop));
    }
    const Status running = awaitStart(again, stop);
    if (running.ok()) {
      auto allocated = resolve(stop);
      if (allocated.ok()) return allocated;
      return cancelJob(allocated.error());
    }
    if (!over_) return cancelJob(running.error());
    (void)scheduler_->cancel(job_, {});  // what is left of it
    return running.error();
  }

  // Nobody would use the job. Returns the error that led to this, or that it goes on.
  Error cancelJob(Error error) {
    doing(message("cancelling the job"));
    if (error.code == Code::kCancelled)
      error = makeError(Code::kCancelled, "{} job {} was cancelled", kind_, job_);
    if (const Status ended = scheduler_->cancel(job_, {}); !ended.ok()) {
      error.what = message("{} job {} could not be cancelled", kind_, job_);
      error.why = ended.error().message();
      error.next = scheduler_->howToCancel(job_);
    }
    return error;
  }

  // Until the job runs, after it was queued again if it had been allocated before.
  Status awaitStart(bool again, const std::stop_token& stop) {
    milliseconds pause = kFirstPause;
    int refusals = 0;
    for (;; pause = std::min(2 * pause, kLongestPause)) {
      if (stop.stop_requested()) return makeError(Code::kCancelled, "cancelled");
      auto job = scheduler_->job(job_, stop);
      if (stop.stop_requested()) continue;
      if (!job.ok()) {
        // The scheduler may be restarting, and the link is mended; what it prints stays as it is.
        refusals = job.error().code == Code::kDataLoss ? refusals + 1 : 0;
        if (refusals == kMostRefusals) return job.error();
        silent(job.error(), pause, stop);
        continue;
      }
      refusals = 0;
      const bool old = again && job->restarts <= cluster_.placement().restarts();
      if (job->phase == JobState::Phase::kOver) return endedEarly(*job, stop);
      if (job->phase == JobState::Phase::kRunning && !old) {
        started_ = *job;
        return {};
      }
      QueueState state = stateOfJob();
      state.state = job->state;
      state.reason = job->reason;
      state.start = job->start;
      if (job->phase == JobState::Phase::kQueued) state.position = scheduler_->position(job_, stop);
      tell(std::move(state));
      pauseFor(pause, stop);
    }
  }

  void silent(const Error& error, milliseconds pause, const std::stop_token& stop) {
    QueueState state = stateOfJob();
    state.error = error;
    tell(std::move(state));
    pauseFor(pause, stop);
    scheduler_->awaitLink(stop);
  }

  Error endedEarly(const JobState& job, const std::stop_token& stop) {
    over_ = true;
    Error error = makeError(Code::kFailedPrecondition, "{} job {} ended before it could be used",
                            kind_, job_);
    error.why = job.state.empty() ? message("{} does not list it any more", kind_)
                                  : message("its state is {}", job.state);
    if (!job.reason.empty()) error.why = message("{}, {}", error.why, job.reason);
    if (const std::string said = scheduler_->lastOutput(job_, stop); !said.empty())
      error.why = message("{}: {}", error.why, said);
    return error;
  }

  Result<std::shared_ptr<const spec::v1::ClusterSpec>> resolve(const std::stop_token& stop) {
    doing(message("finding the nodes of the job"));
    auto out = std::make_shared<spec::v1::ClusterSpec>(specs::withoutAllocation(cluster_));
    LOCKSTEP_TRY(scheduler_->addNodes(job_, started_, *out, stop));
    return std::shared_ptr<const spec::v1::ClusterSpec>(std::move(out));
  }

  QueueState stateOfJob() const {
    QueueState out;
    out.scheduler = kind_;
    out.job = job_;
    return out;
  }
  void doing(Message what) {
    QueueState state = stateOfJob();
    state.doing = std::move(what);
    tell(std::move(state));
  }
  void tell(QueueState state) {
    if (told_ && *told_ == state) return;
    told_ = state;
    tell_(state);
  }

  const spec::v1::ClusterSpec& cluster_;
  const std::string name_;
  const std::function<void(const QueueState&)> tell_;
  const std::unique_ptr<Scheduler> scheduler_;
  const std::string kind_ = specs::schedulerName(cluster_.placement());
  std::int64_t job_;
  bool over_ = false;  // the job has ended
  JobState started_;
  std::optional<QueueState> told_;
};

}  // namespace

bool QueueState::operator==(const QueueState& other) const {
  return scheduler == other.scheduler && job == other.job && state == other.state &&
         reason == other.reason && position == other.position && start == other.start &&
         doing == other.doing && error.has_value() == other.error.has_value() &&
         (!error || error->text() == other.error->text());
}

Message QueueState::text() const {
  if (error) return message("{} job {}: {}", scheduler, job, error->message());
  if (!doing.empty()) return doing;
  Message out = reason.empty() ? message("{} job {} is {}", scheduler, job, state)
                               : message("{} job {} is {} ({})", scheduler, job, state, reason);
  if (position) out = message("{}, position {} in the queue", out, *position);
  if (!start.empty()) out = message("{}, expected to start at {}", out, start);
  return out;
}

struct Allocation::State {
  std::shared_ptr<const spec::v1::ClusterSpec> cluster;
  std::shared_ptr<void> alive = std::make_shared<int>(0);
  std::jthread thread;
};

Allocation::Allocation(std::shared_ptr<const spec::v1::ClusterSpec> cluster, std::string name,
                       const ClusterSessionOptions& options, Inbox& inbox,
                       AllocationObserver observer)
    : state_(std::make_unique<State>()) {
  state_->cluster = std::move(cluster);
  state_->thread =
      std::jthread([given = state_->cluster, name = std::move(name), options, &inbox,
                    observer = std::move(observer),
                    owner = std::weak_ptr<void>(state_->alive)](const std::stop_token& stop) {
        Allocating allocating(*given, name, options, [&](const QueueState& state) {
          if (observer.onState)
            inbox.post(owner, [tell = observer.onState, state] { tell(state); });
        });
        auto done = allocating.run(stop);
        inbox.post(owner, [tell = observer.onDone, done = std::move(done)] { tell(done); });
      });
}
Allocation::~Allocation() = default;
void Allocation::cancel() { state_->thread.request_stop(); }
void Allocation::end() {
  state_->alive.reset();
  cancel();
}

std::unique_ptr<Scheduler> schedulerOf(const spec::v1::ClusterSpec& cluster,
                                       const ClusterSessionOptions& options) {
  return specs::isKubernetes(cluster.placement()) ? kubernetesScheduler(cluster)
                                                  : slurmScheduler(cluster, options);
}

Result<std::string> submissionOf(const spec::v1::ClusterSpec& cluster) {
  if (!cluster.has_placement()) {
    Error error = invalidArgument("this cluster has no placement");
    error.why = "its nodes are listed, and no scheduler provides them";
    error.next = "give it a placement of kind slurm or kubernetes";
    return error;
  }
  return specs::isKubernetes(cluster.placement()) ? kubernetesManifest(cluster)
                                                  : slurmScript(cluster);
}

bool mayBeQueuedAgain(const spec::v1::ClusterSpec& cluster) {
  return cluster.placement().requeue();
}

Status endJob(const spec::v1::ClusterSpec& cluster, const ClusterSessionOptions& options,
              std::stop_token stop) {
  if (cluster.placement().job() == 0) return {};
  const std::int64_t job = cluster.placement().job();
  const auto scheduler = schedulerOf(cluster, options);
  Status ended = scheduler->connect(stop);
  if (ended.ok()) ended = scheduler->cancel(job, stop);
  scheduler->close();
  if (ended.ok()) return ended;
  Error error = ofPlace(ended.error(), *scheduler);
  error.next = scheduler->howToCancel(job);
  return error;
}

Result<JobOutlook> outlookOf(const spec::v1::ClusterSpec& cluster,
                             const ClusterSessionOptions& options, std::stop_token stop) {
  const std::int64_t number = cluster.placement().job();
  const auto scheduler = schedulerOf(cluster, options);
  if (Status connected = scheduler->connect(stop); !connected.ok())
    return ofPlace(connected.error(), *scheduler);
  // In this order: a job that starts again removes the mark that it has stopped its runs.
  JobOutlook out;
  out.stoppedRuns = scheduler->stoppedRuns(number, stop);
  const auto job = scheduler->job(number, stop);
  scheduler->close();
  if (!job.ok()) return ofPlace(job.error(), *scheduler);
  out.state = job->state;
  out.reason = job->reason;
  out.willRestart =
      scheduler->queuesJobsAgain() &&
      (job->phase == JobState::Phase::kQueued || job->phase == JobState::Phase::kEnding ||
       job->restarts > cluster.placement().restarts());
  return out;
}

}  // namespace lockstep::app
