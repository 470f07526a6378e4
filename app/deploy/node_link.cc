#include "app/deploy/node_link.h"

#include <unistd.h>

#include <map>
#include <mutex>
#include <optional>

#include "app/kubernetes/manifest.h"
#include "app/kubernetes/pod_node.h"
#include "app/slurm/job_node.h"
#include "app/ssh/ssh_connection.h"
#include "app/ssh/this_machine.h"
#include "engine/base/shell_text.h"
#include "engine/base/text.h"
#include "engine/specs/placement.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

Result<std::string> agentOf(const NodeLinkOptions& options) {
  if (!options.localAgent.empty()) return options.localAgent;
  if (!options.bundleFolder.empty()) return options.bundleFolder + "/lockstep-agent";
  return findLocalAgent();
}

std::unique_ptr<Host> sshHost(const std::string& node, const spec::v1::SshSpec& ssh,
                              const NodeLinkOptions& options) {
  SshConnectionOptions settings;
  settings.node = node;
  settings.configFile = options.configFile;
  settings.prompter = options.prompter;
  settings.shared = options.shared;
  settings.onState = options.onState;
  return std::make_unique<SshConnection>(targetOf(ssh), std::move(settings));
}

}  // namespace

Result<std::string> findLocalAgent() {
  std::string self(4096, '\0');
  const ssize_t size = ::readlink("/proc/self/exe", self.data(), self.size());
  self.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  const std::string beside = self.substr(0, self.rfind('/')) + "/lockstep-agent";
  if (::access(beside.c_str(), X_OK) == 0) return beside;
  LOCKSTEP_ASSIGN(const std::string bundle, findBundle());
  return bundle + "/lockstep-agent";
}

// The host of a node of a scheduler's job.
std::unique_ptr<JobHost> jobHost(const std::string& node, const NodeLinkOptions& options) {
  const spec::v1::PlacementSpec& placement = *options.placement;
  if (specs::isKubernetes(placement))
    return std::make_unique<PodNode>(std::make_unique<ThisMachine>(node), options.placement, node);
  return std::make_unique<JobNode>(loginHost(placement, options), placement.job(),
                                   placement.restarts(), node);
}

std::unique_ptr<Host> loginHost(const spec::v1::PlacementSpec& placement,
                                const NodeLinkOptions& options) {
  const spec::v1::SshSpec login = specs::loginOf(placement);
  if (login.host().empty()) return std::make_unique<ThisMachine>("");
  return sshHost("", login, options);
}

bool allowsRoot(const spec::v1::NodeSpec& node, bool studioIsRoot) {
  return studioIsRoot || node.ssh().user() == "root";
}

class NodeLink::Impl {
 public:
  Impl(const spec::v1::NodeSpec& node, NodeLinkOptions options)
      : name_(node.name()),
        workdir_(node.workdir()),
        options_(std::move(options)),
        allowRoot_(allowsRoot(node, ::geteuid() == 0) ||
                   (options_.placement && specs::isKubernetes(*options_.placement))) {
    if (options_.placement) {
      job_ = options_.placement->job();
      auto ofJob = jobHost(name_, options_);
      jobNode_ = ofJob.get();
      connection_ = std::move(ofJob);
    } else if (node.has_ssh()) {
      connection_ = sshHost(name_, node.ssh(), options_);
    }
  }

  Result<AgentInfo> ensureAgent(std::stop_token stop) {
    DeployOptions deployOptions;
    deployOptions.node = name_;
    deployOptions.workdir = workdir_;
    deployOptions.allowRoot = allowRoot_;
    deployOptions.onProgress = options_.onProgress;
    deployOptions.stop = stop;
    if (!connection_) {
      LOCKSTEP_ASSIGN(const std::string agent, agentOf(options_));
      return startLocalAgent(agent, deployOptions);
    }
    if (jobNode_ != nullptr) return agentOfJob(deployOptions);
    deployOptions.start = options_.start;
    LOCKSTEP_TRY(connection_->connect(stop));
    LOCKSTEP_ASSIGN(const Deployed deployed, deployTo(deployOptions));
    auto agent = startAgent(*connection_, deployed, deployOptions);
    keep(deployed);
    return agent;
  }

  Result<std::string> reach(const std::string& socketOnNode) {
    if (!connection_) return socketOnNode;
    const std::lock_guard lock(mutex_);
    if (const auto found = sockets_.find(socketOnNode); found != sockets_.end())
      return found->second;
    if (!deployed_) {
      Error error = makeError(Code::kFailedPrecondition, "no agent was started");
      error.node = name_;
      return error;
    }
    LOCKSTEP_ASSIGN(const std::string local,
                    connection_->forward(socketOnNode, bridgeCommand(*deployed_, socketOnNode)));
    sockets_[socketOnNode] = local;
    return local;
  }

  void forget(const std::string& socketOnNode) {
    const std::lock_guard lock(mutex_);
    const auto found = sockets_.find(socketOnNode);
    if (found == sockets_.end()) return;
    connection_->stopForward(found->second);
    sockets_.erase(found);
  }

  const std::string& name() const { return name_; }
  Host* connection() const { return connection_.get(); }

 private:
  void keep(const Deployed& deployed) {
    const std::lock_guard lock(mutex_);
    deployed_ = deployed;
  }

  // The sockets of a job that has ended meanwhile lead nowhere.
  void dropSockets() {
    const std::lock_guard lock(mutex_);
    for (const auto& [there, here] : sockets_) connection_->stopForward(here);
    sockets_.clear();
  }

  // Without a package here, what is there already serves; the handshake tells if it cannot.
  Result<Deployed> deployTo(DeployOptions deployOptions) {
    deployOptions.copy = options_.copy;
    const auto bundle = bundleToDeploy();
    auto deployed = bundle.ok() ? deploy(*connection_, *bundle, deployOptions)
                                : findDeployed(*connection_, deployOptions);
    if (!bundle.ok() && !deployed.ok() && deployed.error().code == Code::kNotFound) {
      Error error = bundle.error();
      error.node = name_;
      return error;
    }
    return deployed;
  }

  Error ofNode(Error error) const {
    error.node = name_;
    return error;
  }

  // Looks at the job. Errors: it does not run yet, or any more where its files went with it.
  Result<JobState> lookAtJob(const std::stop_token& stop) {
    const char* const kind = specs::schedulerName(*options_.placement);
    if (job_ == 0) {
      Error error =
          makeError(Code::kFailedPrecondition, "{} has not allocated this node yet", kind);
      error.next = "launch a run: its nodes are allocated then";
      return ofNode(error);
    }
    LOCKSTEP_TRY(connection_->connect(stop));
    const bool wasOver = jobNode_->isOver();
    LOCKSTEP_ASSIGN(JobState job, jobNode_->look(stop));
    if (jobNode_->isOver() != wasOver) dropSockets();
    if (jobNode_->isOver() && !jobNode_->filesOutliveJob()) {
      Error error = isOverError(job);
      error.next = "what was recorded of its runs is in the history";
      return error;
    }
    if (!jobNode_->isOver() && job.phase != JobState::Phase::kRunning) {
      Error error = makeError(Code::kUnavailable, "{} job {} is not running", kind, job_);
      error.why = message("its state is {}", job.state);
      return ofNode(error);
    }
    return job;
  }

  Error isOverError(const JobState& job) const {
    const char* const kind = specs::schedulerName(*options_.placement);
    Error error = makeError(Code::kFailedPrecondition, "{} job {} is over", kind, job_);
    error.why = job.state.empty() ? message("{} does not list it any more", kind)
                                  : message("its state is {}", job.state);
    return ofNode(error);
  }

  // The job starts the agent; in a pod, once the agent is there.
  Result<AgentInfo> agentOfJob(const DeployOptions& deployOptions) {
    LOCKSTEP_ASSIGN(const JobState job, lookAtJob(deployOptions.stop));
    Deployed deployed;
    if (specs::isKubernetes(*options_.placement)) {
      LOCKSTEP_ASSIGN(deployed, sendToPod(deployOptions));
    } else {
      deployed.folder = workdir_ + "/../../agent";
    }
    deployed.workdir = workdir_;
    keep(deployed);
    DeployOptions onLogin = deployOptions;
    onLogin.leavesIdle = true;
    auto agent = jobNode_->isOver() ? startAgent(*connection_, deployed, onLogin)
                                    : awaitAgent(*connection_, deployed, deployOptions);
    if (agent.ok() || !jobNode_->isOver()) return agent;
    Error error = isOverError(job);
    error.why = message("{}: {}", error.why, agent.error().message());
    error.next = message("look at {} on the login node", workdir_);
    return error;
  }

  // A pod keeps the version that it was sent first.
  Result<Deployed> sendToPod(DeployOptions deployOptions) {
    const std::string link = shellQuote(workdir_ + ".agent");
    LOCKSTEP_ASSIGN(const ExecResult there,
                    connection_->script("readlink " + link, {}, deployOptions.stop));
    if (there.exitStatus == 0) return Deployed{workdir_, withoutLineEnds(there.output), false};
    deployOptions.workdir = podWorkdir(*options_.placement);
    LOCKSTEP_ASSIGN(Deployed deployed, deployTo(deployOptions));
    LOCKSTEP_ASSIGN(const ExecResult linked,
                    connection_->script("mkdir -p " + shellQuote(workdir_) + " && ln -sfn " +
                                            shellQuote(deployed.folder) + " " + link,
                                        {}, deployOptions.stop));
    if (linked.exitStatus == 0) return deployed;
    Error error = makeError(Code::kFailedPrecondition, "the agent does not start");
    error.why = withoutLineEnds(linked.errorOutput.substr(0, 2000));
    return ofNode(error);
  }

  Result<Bundle> bundleToDeploy() const {
    if (!options_.bundleFolder.empty()) return readBundle(options_.bundleFolder);
    LOCKSTEP_ASSIGN(const std::string folder, findBundle());
    return readBundle(folder);
  }

  const std::string name_, workdir_;
  const NodeLinkOptions options_;
  const bool allowRoot_;  // in pods, root is common
  std::mutex mutex_;
  std::optional<Deployed> deployed_;
  std::map<std::string, std::string> sockets_;  // on the node → here
  std::int64_t job_ = 0;
  std::unique_ptr<Host> connection_;
  JobHost* jobNode_ = nullptr;  // the connection, of a node of a job
};

NodeLink::NodeLink(const spec::v1::NodeSpec& node, NodeLinkOptions options)
    : impl_(std::make_unique<Impl>(node, std::move(options))) {}
NodeLink::~NodeLink() = default;
Result<AgentInfo> NodeLink::ensureAgent(std::stop_token stop) { return impl_->ensureAgent(stop); }
Result<std::string> NodeLink::reach(const std::string& socketOnNode) {
  return impl_->reach(socketOnNode);
}
void NodeLink::forget(const std::string& socketOnNode) { impl_->forget(socketOnNode); }
const std::string& NodeLink::name() const { return impl_->name(); }
bool NodeLink::local() const { return impl_->connection() == nullptr; }
LinkStatus NodeLink::status() const {
  if (impl_->connection()) return impl_->connection()->status();
  LinkStatus status;
  status.state = LinkState::kConnected;
  return status;
}
Host* NodeLink::connection() { return impl_->connection(); }
void NodeLink::close() {
  if (impl_->connection()) impl_->connection()->close();
}

}  // namespace lockstep::app
