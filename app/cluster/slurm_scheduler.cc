#include <unistd.h>

#include <sstream>

#include "app/cluster/scheduler.h"
#include "app/deploy/bundle.h"
#include "app/deploy/deploy.h"
#include "app/deploy/node_link.h"
#include "app/slurm/batch_script.h"
#include "app/slurm/slurm.h"
#include "engine/base/shell_text.h"
#include "engine/base/text.h"
#include "engine/specs/placement.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

constexpr std::chrono::milliseconds kReconnectLimit{10000};
constexpr int kLongestQueueDays = 30;
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

Result<Bundle> ownBundle() {
  LOCKSTEP_ASSIGN(const std::string folder, findBundle());
  return readBundle(folder);
}

class SlurmScheduler final : public Scheduler {
 public:
  SlurmScheduler(const spec::v1::ClusterSpec& cluster, const ClusterSessionOptions& options)
      : cluster_(cluster),
        login_(loginHost(cluster.placement(), linkOptions(options))),
        slurm_(*login_) {}

  Status connect(std::stop_token stop) override { return login_->connect(std::move(stop)); }
  void awaitLink(std::stop_token stop) override {
    if (login_->status().state == LinkState::kFailed) (void)login_->connect(stop);
    (void)login_->waitConnected(kReconnectLimit, std::move(stop));
  }
  void close() override { login_->close(); }

  Result<std::int64_t> submit(const std::string& name, const std::function<void(Message)>& doing,
                              std::stop_token stop) override {
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
    facts.name = name;
    facts.allowRoot = allowRoot(cluster_.placement());
    doing(message("submitting the job"));
    if (stop.stop_requested()) return makeError(Code::kCancelled, "the allocation was cancelled");
    LOCKSTEP_ASSIGN(const std::int64_t job, slurm_.submit(batchScript(cluster_.placement(), facts),
                                                          workdir_ + "/slurm", {}));
    leaseVersion(deployed.folder, job);
    return job;
  }

  Result<JobState> job(std::int64_t job, std::stop_token stop) override {
    LOCKSTEP_ASSIGN(SlurmJob state, slurm_.job(job, std::move(stop)));
    return JobState(std::move(state));
  }
  std::optional<int> position(std::int64_t job, std::stop_token stop) override {
    const auto position = slurm_.position(job, std::move(stop));
    return position.ok() ? *position : std::nullopt;
  }
  std::string lastOutput(std::int64_t job, std::stop_token stop) override {
    const auto said = login_->exec(
        "tail -c 1000 " + shellQuote(fmt::format("{}/slurm/job-{}.out", workdir_, job)), {},
        std::move(stop));
    return said.ok() && said->exitStatus == 0 ? withoutLineEnds(said->output) : std::string();
  }

  Status addNodes(std::int64_t job, const JobState& state, spec::v1::ClusterSpec& cluster,
                  std::stop_token stop) override {
    LOCKSTEP_ASSIGN(const std::vector<SlurmNode> nodes, slurm_.nodes(job, std::move(stop)));
    spec::v1::PlacementSpec& placement = *cluster.mutable_placement();
    placement.set_job(job);
    placement.set_restarts(state.restarts);
    if (!workdir_.empty()) placement.set_workdir(workdir_);
    const spec::v1::SshSpec login = specs::loginOf(placement);
    for (const SlurmNode& node : nodes) {
      spec::v1::NodeSpec& added = *cluster.add_nodes();
      added.set_name(node.name);
      if (!login.host().empty()) *added.mutable_ssh() = login;
      added.set_address(node.address);
      added.set_workdir(
          fmt::format("{}/slurm/{}/{}/{}", placement.workdir(), job, state.restarts, node.name));
      *added.mutable_devices() = specs::placedDevices(placement, node.cpus);
    }
    return {};
  }

  Status cancel(std::int64_t job, std::stop_token stop) override {
    LOCKSTEP_TRY(slurm_.cancel(job, std::move(stop)));
    dropLease(job);
    return {};
  }

  bool stoppedRuns(std::int64_t job, std::stop_token stop) override {
    const auto notices = login_->exec("ls " + shellQuote(fmt::format("{}/slurm/{}", workdir_, job)),
                                      {}, std::move(stop));
    std::istringstream names(notices.ok() ? notices->output : std::string());
    for (std::string name; std::getline(names, name);)
      if (name == "notice" || name == "notice.term") return true;
    return false;
  }

  bool queuesJobsAgain() const override { return true; }
  Message howToCancel(std::int64_t job) const override {
    return message("run `scancel {}` on the login node", job);
  }
  std::string place() const override { return kLoginNode; }

 private:
  // A lease of the job on its version of the agent (agent/host/version_lease.h), beside those of
  // its agents: without it a job that is queued while newer versions are deployed would find no
  // agent.
  void leaseVersion(const std::string& folder, std::int64_t job) {
    (void)login_->exec(
        fmt::format("mkdir -p {0}/leases && touch -d '{1} days' {0}/leases/slurm-{2}",
                    shellQuote(folder), kLongestQueueDays, job));
  }
  void dropLease(std::int64_t job) {
    (void)login_->exec(
        fmt::format("rm -f {}/versions/*/leases/slurm-{}", shellQuote(workdir_), job));
  }

  const spec::v1::ClusterSpec& cluster_;
  const std::unique_ptr<Host> login_;
  Slurm slurm_;
  std::string workdir_ = cluster_.placement().workdir();  // absolute, once deployed
};

}  // namespace

std::unique_ptr<Scheduler> slurmScheduler(const spec::v1::ClusterSpec& cluster,
                                          const ClusterSessionOptions& options) {
  return std::make_unique<SlurmScheduler>(cluster, options);
}

std::string slurmScript(const spec::v1::ClusterSpec& cluster) {
  BatchScriptFacts facts;
  const auto bundle = ownBundle();
  facts.version = bundle.ok() ? bundle->version : "VERSION";
  facts.name = cluster.name();
  facts.allowRoot = allowRoot(cluster.placement());
  return batchScript(cluster.placement(), facts);
}

}  // namespace lockstep::app
