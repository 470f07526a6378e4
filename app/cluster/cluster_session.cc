#include "app/cluster/cluster_session.h"

#include <algorithm>
#include <utility>

#include "app/cluster/node.h"
#include "app/cluster/peer_addresses.h"
#include "app/ssh/prompter.h"
#include "app/ssh/ssh_gates.h"
#include "engine/specs/placement.h"
#include "engine/specs/specs.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {

namespace {

using HostKeyAnswer = std::function<void(bool)>;
using SecretAnswer = std::function<void(std::optional<Secret>)>;

struct OpenQuestion {
  NodeQuestion question;
  HostKeyAnswer hostKey;
  SecretAnswer secret;
};

std::string targetText(const spec::v1::NodeSpec& node, const spec::v1::ClusterSpec& cluster) {
  if (cluster.has_placement()) {
    const auto& placement = cluster.placement();
    std::string job = specs::schedulerName(placement);
    if (placement.job() != 0) job += fmt::format(" job {}", placement.job());
    const std::string& where =
        specs::isKubernetes(placement) ? placement.context() : placement.login();
    return where.empty() ? job : job + " of " + where;
  }
  if (!node.has_ssh()) return "this machine";
  const auto& ssh = node.ssh();
  std::string text = ssh.user().empty() ? ssh.host() : ssh.user() + "@" + ssh.host();
  if (ssh.port() > 0) text += ":" + std::to_string(ssh.port());
  return text;
}

NodeStatus initialStatus(const spec::v1::NodeSpec& node, const spec::v1::ClusterSpec& cluster) {
  NodeStatus status;
  status.name = node.name();
  status.local = !node.has_ssh() && !cluster.has_placement();
  status.target = targetText(node, cluster);
  status.address = node.address();
  status.roles.assign(node.roles().begin(), node.roles().end());
  if (status.roles.empty()) status.roles.push_back("worker");
  status.ranks = specs::deviceCount(node);
  return status;
}

}  // namespace

struct ClusterSession::State {
  std::shared_ptr<const spec::v1::ClusterSpec> cluster;
  ClusterSessionOptions options;
  Inbox& inbox;
  ClusterObserver observer;
  std::vector<NodeStatus> status;
  std::vector<OpenQuestion> questions;
  std::uint64_t lastQuestion = 0;
  std::vector<std::unique_ptr<Node>> nodes;
  std::shared_ptr<int> alive = std::make_shared<int>(0);  // of calls in the inbox

  State(std::shared_ptr<const spec::v1::ClusterSpec> spec, ClusterSessionOptions given, Inbox& box,
        ClusterObserver seer)
      : cluster(std::move(spec)),
        options(std::move(given)),
        inbox(box),
        observer(std::move(seer)) {}

  void hear(int node, NodeNews news) {
    NodeStatus& now = status[static_cast<std::size_t>(node)];
    if (news.load) {
      now.load = std::move(*news.load);
      if (observer.onLoad) observer.onLoad(node);
      return;
    }
    if (news.phase) {
      // News of a connection that has ended since come too late to count.
      if (!specs::checkTransition(now.phase, *news.phase).ok()) return;
      now.phase = *news.phase;
      now.uploaded = news.uploaded;
      now.uploadSize = news.uploadSize;
      now.error = std::move(news.error);
      if (now.phase != NodeState::CONNECTING && now.phase != NodeState::RECONNECTING) {
        dropQuestions(now.name);
      }
    }
    if (news.detail) now.detail = std::move(*news.detail);
    if (news.inventory) {
      now.inventory = std::move(*news.inventory);
      findAddresses(node);
    }
    if (observer.onNode) observer.onNode(node);
  }

  // Which addresses are likely depends on all nodes: those of others that change are told, too.
  void findAddresses(int changed) {
    std::vector<const NodeInventory*> known;
    for (const NodeStatus& node : status)
      if (!node.inventory.bootId.empty()) known.push_back(&node.inventory);
    const bool oneHost = onOneHost(known);
    for (int i = 0; i < cluster->nodes_size(); ++i) {
      NodeStatus& node = status[static_cast<std::size_t>(i)];
      if (node.inventory.bootId.empty()) continue;
      const auto candidates = addressCandidates(cluster->nodes(i), node.inventory, oneHost);
      const std::string address = candidates.empty() ? "" : candidates.front();
      if (std::exchange(node.address, address) != address && i != changed && observer.onNode)
        observer.onNode(i);
    }
  }

  void ask(OpenQuestion open) {
    open.question.id = ++lastQuestion;
    questions.push_back(std::move(open));
    const NodeQuestion question = questions.back().question;
    if (observer.onQuestion) observer.onQuestion(question);
  }

  // An answer function that goes unanswered refuses.
  void dropQuestions(const std::string& node) {
    std::erase_if(questions, [&](const OpenQuestion& open) { return open.question.node == node; });
  }
  std::optional<OpenQuestion> take(std::uint64_t id) {
    const auto at = std::find_if(questions.begin(), questions.end(),
                                 [id](const auto& open) { return open.question.id == id; });
    if (at == questions.end()) return std::nullopt;
    OpenQuestion open = std::move(*at);
    questions.erase(at);
    return open;
  }
};

namespace {

// Brings questions to the inbox's thread. Accepts the fingerprints given beforehand by itself.
class SessionPrompter final : public SshPrompter {
 public:
  using Ask = std::function<void(OpenQuestion)>;
  SessionPrompter(std::string node, std::vector<std::string> accepted, Inbox& inbox,
                  std::weak_ptr<void> owner, Ask ask)
      : node_(std::move(node)),
        accepted_(std::move(accepted)),
        inbox_(inbox),
        owner_(std::move(owner)),
        ask_(std::move(ask)) {}

  void askHostKey(const HostKeyQuestion& question, HostKeyAnswer answer) override {
    if (std::find(accepted_.begin(), accepted_.end(), question.fingerprint) != accepted_.end()) {
      return answer(true);
    }
    OpenQuestion open;
    open.question.kind = NodeQuestion::Kind::kHostKey;
    open.question.node = node_;
    open.question.hostKey = question;
    open.hostKey = std::move(answer);
    post(std::move(open));
  }
  void askSecret(const SecretQuestion& question, SecretAnswer answer) override {
    OpenQuestion open;
    open.question.kind = NodeQuestion::Kind::kSecret;
    open.question.node = node_;
    open.question.secret = question;
    open.secret = std::move(answer);
    post(std::move(open));
  }

 private:
  void post(OpenQuestion open) {
    inbox_.post(owner_, [ask = ask_, open = std::move(open)] { ask(open); });
  }
  const std::string node_;
  const std::vector<std::string> accepted_;
  Inbox& inbox_;
  const std::weak_ptr<void> owner_;
  const Ask ask_;
};

}  // namespace

ClusterSession::ClusterSession(std::shared_ptr<const spec::v1::ClusterSpec> cluster,
                               ClusterSessionOptions options, Inbox& inbox,
                               ClusterObserver observer)
    : state_(std::make_unique<State>(std::move(cluster), std::move(options), inbox,
                                     std::move(observer))) {
  State* state = state_.get();
  const std::weak_ptr<void> alive = state->alive;
  const auto shared = std::make_shared<SshShared>();  // by all nodes
  for (int i = 0; i < state->cluster->nodes_size(); ++i) {
    const auto& spec = state->cluster->nodes(i);
    state->status.push_back(initialStatus(spec, *state->cluster));
    NodeLinkOptions link;
    link.configFile = state->options.sshConfig;
    link.copy = state->options.copy;
    link.start = state->options.start;
    link.shared = shared;
    if (state->cluster->has_placement())
      link.placement = {state->cluster, &state->cluster->placement()};
    if (state->options.ask) {
      link.prompter = std::make_shared<SessionPrompter>(
          spec.name(), state->options.acceptedHostKeys, inbox, alive,
          [state](OpenQuestion open) { state->ask(std::move(open)); });
    } else {
      link.prompter = listedHostKeys(state->options.acceptedHostKeys);
    }
    state->nodes.push_back(std::make_unique<Node>(
        spec, std::move(link),
        state->options.cleanUp ? std::optional(state->options.home) : std::nullopt,
        state->options.sampleHertz, [state, alive, i, &inbox](NodeNews news) {
          inbox.post(alive, [state, i, news = std::move(news)] { state->hear(i, news); });
        }));
  }
}

ClusterSession::~ClusterSession() {
  end();
  state_->nodes.clear();
}

void ClusterSession::end() {
  state_->alive.reset();
  state_->questions.clear();
  for (auto& node : state_->nodes) node->beginEnd();
}

const std::shared_ptr<const spec::v1::ClusterSpec>& ClusterSession::cluster() const {
  return state_->cluster;
}
int ClusterSession::size() const { return static_cast<int>(state_->nodes.size()); }
const NodeStatus& ClusterSession::status(int node) const {
  return state_->status[static_cast<std::size_t>(node)];
}
int ClusterSession::find(const std::string& name) const {
  for (int i = 0; i < size(); ++i) {
    if (status(i).name == name) return i;
  }
  return -1;
}
bool ClusterSession::allConnected() const {
  return std::all_of(state_->status.begin(), state_->status.end(),
                     [](const NodeStatus& status) { return status.phase == NodeState::CONNECTED; });
}

void ClusterSession::connect() {
  for (auto& node : state_->nodes) node->connect();
}
void ClusterSession::connect(int node) { state_->nodes[static_cast<std::size_t>(node)]->connect(); }
void ClusterSession::disconnect() {
  for (int i = 0; i < size(); ++i) disconnect(i);
}
void ClusterSession::disconnect(int node) {
  state_->dropQuestions(status(node).name);
  state_->nodes[static_cast<std::size_t>(node)]->disconnect();
}

void ClusterSession::cleanUp() {
  for (const auto& node : state_->nodes) node->cleanUp();
}

std::vector<NodeQuestion> ClusterSession::questions() const {
  std::vector<NodeQuestion> out;
  for (const auto& open : state_->questions) out.push_back(open.question);
  return out;
}
void ClusterSession::answer(std::uint64_t question, bool accept) {
  if (const auto open = state_->take(question); open && open->hostKey) open->hostKey(accept);
}
void ClusterSession::answer(std::uint64_t question, std::optional<Secret> secret) {
  if (const auto open = state_->take(question); open && open->secret) {
    open->secret(std::move(secret));
  }
}

NodeAccess& ClusterSession::access(int node) const {
  return *state_->nodes[static_cast<std::size_t>(node)];
}
NodeAccess* ClusterSession::access(const std::string& name) const {
  for (const auto& node : state_->nodes) {
    if (node->name() == name) return node.get();
  }
  return nullptr;
}

}  // namespace lockstep::app
