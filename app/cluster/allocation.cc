#include "app/cluster/allocation.h"

#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <sstream>
#include <thread>

#include "app/deploy/bundle.h"
#include "app/deploy/deploy.h"
#include "app/deploy/node_link.h"
#include "app/slurm/batch_script.h"
#include "app/slurm/slurm.h"
#include "engine/base/text.h"
#include "engine/specs/placement.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{500}, kLongestPause{5000};  // between looks at the queue
constexpr milliseconds kReconnectLimit{10000};
constexpr int kLongestQueueDays = 30;
constexpr int kMostRefusals = 5;  // answers in turn that are not understood
constexpr const char* kLoginNode = "the login node";

NodeLinkOptions linkOptions(const ClusterSessionOptions& options) {
  NodeLinkOptions out;
  out.configFile = options.sshConfig;
  out.prompter = listedHostKeys(options.acceptedHostKeys);
  return out;
}

bool allowRoot(const spec::v1::PlacementSpec& placement) {
  return ::geteuid() == 0 || specs::loginOf(placement).user() == "root";
}

// A lease of the job on its version of the agent (agent/host/version_lease.h), beside those of its
// agents: without it a job that is queued while newer versions are deployed would find no agent.
void leaseVersion(Host& login, const std::string& folder, std::int64_t job) {
  (void)login.exec(fmt::format("mkdir -p {0}/leases && touch -d '{1} days' {0}/leases/slurm-{2}",
                               shellQuote(folder), kLongestQueueDays, job));
}
void dropLease(Host& login, const std::string& workdir, std::int64_t job) {
  (void)login.exec(fmt::format("rm -f {}/versions/*/leases/slurm-{}", shellQuote(workdir), job));
}

Error ofLogin(Error error) {
  if (error.node.empty()) error.node = kLoginNode;
  return error;
}

Result<Bundle> ownBundle() {
  LOCKSTEP_ASSIGN(const std::string folder, findBundle());
  return readBundle(folder);
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
        login_(loginHost(cluster.placement(), linkOptions(options))),
        slurm_(*login_),
        job_(cluster.placement().job()) {}

  Result<std::shared_ptr<const spec::v1::ClusterSpec>> run(const std::stop_token& stop) {
    auto allocated = allocate(stop);
    login_->close();
    if (!allocated.ok()) return ofLogin(allocated.error());
    return allocated;
  }

 private:
  Result<std::shared_ptr<const spec::v1::ClusterSpec>> allocate(const std::stop_token& stop) {
    doing(message("connecting to the login node"));
    LOCKSTEP_TRY(login_->connect(stop));
    if (job_ == 0) LOCKSTEP_TRY(submit(stop));
    const Status running = awaitStart(stop);
    if (running.ok()) {
      auto allocated = resolve(stop);
      if (allocated.ok()) return allocated;
      return cancelJob(allocated.error());
    }
    return over_ ? running.error() : cancelJob(running.error());
  }

  // Nobody would use the job. Returns the error that led to this, or that it goes on.
  Error cancelJob(Error error) {
    doing(message("cancelling the job"));
    if (error.code == Code::kCancelled)
      error = makeError(Code::kCancelled, "Slurm job {} was cancelled", job_);
    if (const Status ended = slurm_.cancel(job_, {}); !ended.ok()) {
      error.what = message("Slurm job {} could not be cancelled", job_);
      error.why = ended.error().message();
      error.next = message("run `scancel {}` on the login node", job_);
    } else {
      dropLease(*login_, workdir_, job_);
    }
    return error;
  }

  Status submit(const std::stop_token& stop) {
    doing(message("deploying to the login node"));
    DeployOptions deployOptions;
    deployOptions.node = kLoginNode;
    deployOptions.workdir = cluster_.placement().workdir();
    deployOptions.stop = stop;
    const auto bundle = ownBundle();
    LOCKSTEP_ASSIGN(const Deployed deployed, bundle.ok() ? deploy(*login_, *bundle, deployOptions)
                                                         : findDeployed(*login_, deployOptions));
    workdir_ = deployed.workdir;
    BatchScriptFacts facts;
    facts.version = deployed.folder.substr(deployed.folder.rfind('/') + 1);
    facts.name = name_;
    facts.allowRoot = allowRoot(cluster_.placement());
    doing(message("submitting the job"));
    if (stop.stop_requested()) return makeError(Code::kCancelled, "the allocation was cancelled");
    // Not cancelled in between: whether the job was submitted would be unknown.
    LOCKSTEP_ASSIGN(
        job_, slurm_.submit(batchScript(cluster_.placement(), facts), workdir_ + "/slurm", {}));
    leaseVersion(*login_, deployed.folder, job_);
    return {};
  }

  // Until the job runs, after it was queued again if it had been allocated before.
  Status awaitStart(const std::stop_token& stop) {
    const bool again = cluster_.placement().job() != 0;
    milliseconds pause = kFirstPause;
    int refusals = 0;
    for (;; pause = std::min(2 * pause, kLongestPause)) {
      if (stop.stop_requested()) return makeError(Code::kCancelled, "cancelled");
      auto job = slurm_.job(job_, stop);
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
      if (job->phase == SlurmJob::Phase::kOver) return endedEarly(*job, stop);
      if (job->phase == SlurmJob::Phase::kRunning && !old) {
        started_ = *job;
        return {};
      }
      QueueState state;
      state.job = job_;
      state.state = job->state;
      state.reason = job->reason;
      state.start = job->start;
      if (job->phase == SlurmJob::Phase::kQueued)
        if (const auto position = slurm_.position(job_, stop); position.ok())
          state.position = *position;
      tell(std::move(state));
      pauseFor(pause, stop);
    }
  }

  void silent(const Error& error, milliseconds pause, const std::stop_token& stop) {
    QueueState state;
    state.job = job_;
    state.error = error;
    tell(std::move(state));
    pauseFor(pause, stop);
    if (login_->status().state == LinkState::kFailed) (void)login_->connect(stop);
    (void)login_->waitConnected(kReconnectLimit, stop);
  }

  Error endedEarly(const SlurmJob& job, const std::stop_token& stop) {
    over_ = true;
    Error error =
        makeError(Code::kFailedPrecondition, "Slurm job {} ended before it could be used", job_);
    error.why = job.state.empty() ? Message("Slurm does not list it any more")
                                  : message("its state is {}", job.state);
    if (!job.reason.empty()) error.why = message("{}, {}", error.why, job.reason);
    const auto said = login_->exec(
        "tail -c 1000 " + shellQuote(fmt::format("{}/slurm/job-{}.out", workdir_, job_)), {}, stop);
    if (said.ok() && said->exitStatus == 0 && !said->output.empty())
      error.why = message("{}: {}", error.why, withoutLineEnds(said->output));
    return error;
  }

  Result<std::shared_ptr<const spec::v1::ClusterSpec>> resolve(const std::stop_token& stop) {
    doing(message("finding the nodes of the job"));
    LOCKSTEP_ASSIGN(const std::vector<SlurmNode> nodes, slurm_.nodes(job_, stop));
    auto out = std::make_shared<spec::v1::ClusterSpec>(specs::withoutAllocation(cluster_));
    spec::v1::PlacementSpec& placement = *out->mutable_placement();
    placement.set_job(job_);
    placement.set_restarts(started_.restarts);
    if (!workdir_.empty()) placement.set_workdir(workdir_);
    const spec::v1::SshSpec login = specs::loginOf(placement);
    for (const SlurmNode& node : nodes) {
      spec::v1::NodeSpec& added = *out->add_nodes();
      added.set_name(node.name);
      if (!login.host().empty()) *added.mutable_ssh() = login;
      added.set_address(node.address);
      added.set_workdir(fmt::format("{}/slurm/{}/{}/{}", placement.workdir(), job_,
                                    started_.restarts, node.name));
      *added.mutable_devices() = specs::placedDevices(placement, node.cpus);
    }
    return std::shared_ptr<const spec::v1::ClusterSpec>(std::move(out));
  }

  void doing(Message what) {
    QueueState state;
    state.job = job_;
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
  const std::unique_ptr<Host> login_;
  Slurm slurm_;
  std::int64_t job_;
  bool over_ = false;                                     // the job has ended
  std::string workdir_ = cluster_.placement().workdir();  // absolute, once deployed
  SlurmJob started_;
  std::optional<QueueState> told_;
};

}  // namespace

bool QueueState::operator==(const QueueState& other) const {
  return job == other.job && state == other.state && reason == other.reason &&
         position == other.position && start == other.start && doing == other.doing &&
         error.has_value() == other.error.has_value() &&
         (!error || error->text() == other.error->text());
}

Message QueueState::text() const {
  if (error) return message("Slurm job {}: {}", job, error->message());
  if (!doing.empty()) return doing;
  Message out = reason.empty() ? message("Slurm job {} is {}", job, state)
                               : message("Slurm job {} is {} ({})", job, state, reason);
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

Result<std::string> batchScriptOf(const spec::v1::ClusterSpec& cluster) {
  if (!cluster.has_placement()) {
    Error error = invalidArgument("this cluster has no placement");
    error.why = "its nodes are listed, and no scheduler provides them";
    error.next = "give it a placement of kind slurm";
    return error;
  }
  BatchScriptFacts facts;
  const auto bundle = ownBundle();
  facts.version = bundle.ok() ? bundle->version : "VERSION";
  facts.name = cluster.name();
  facts.allowRoot = allowRoot(cluster.placement());
  return batchScript(cluster.placement(), facts);
}

bool mayBeQueuedAgain(const spec::v1::ClusterSpec& cluster) {
  return cluster.placement().requeue();
}

Status endJob(const spec::v1::ClusterSpec& cluster, const ClusterSessionOptions& options,
              std::stop_token stop) {
  if (cluster.placement().job() == 0) return {};
  const auto login = loginHost(cluster.placement(), linkOptions(options));
  Status ended = login->connect(stop);
  if (ended.ok()) {
    ended = Slurm(*login).cancel(cluster.placement().job(), stop);
    if (ended.ok()) dropLease(*login, cluster.placement().workdir(), cluster.placement().job());
  }
  login->close();
  if (ended.ok()) return ended;
  Error error = ofLogin(ended.error());
  error.next = message("run `scancel {}` on the login node", cluster.placement().job());
  return error;
}

Result<JobOutlook> outlookOf(const spec::v1::ClusterSpec& cluster,
                             const ClusterSessionOptions& options, std::stop_token stop) {
  const auto login = loginHost(cluster.placement(), linkOptions(options));
  if (Status connected = login->connect(stop); !connected.ok()) return ofLogin(connected.error());
  const auto job = Slurm(*login).job(cluster.placement().job(), stop);
  const auto notices =
      login->exec("ls " + shellQuote(fmt::format("{}/slurm/{}", cluster.placement().workdir(),
                                                 cluster.placement().job())),
                  {}, stop);
  login->close();
  if (!job.ok()) return ofLogin(job.error());
  JobOutlook out;
  out.state = job->state;
  out.reason = job->reason;
  out.willRestart = job->phase == SlurmJob::Phase::kQueued ||
                    job->phase == SlurmJob::Phase::kEnding ||
                    job->restarts > cluster.placement().restarts();
  std::istringstream names(notices.ok() ? notices->output : std::string());
  for (std::string name; std::getline(names, name);)
    out.stoppedRuns = out.stoppedRuns || name == "notice" || name == "notice.term";
  return out;
}

}  // namespace lockstep::app
