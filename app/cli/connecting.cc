#include "app/cli/connecting.h"

#include <cstdio>

#include "app/cli/terminal.h"
#include "app/deploy/deploy.h"
#include "app/runs/launcher.h"

namespace lockstep::app::cli {
namespace {
constexpr std::chrono::seconds kConnectLimit{300};  // uploads included
constexpr std::chrono::seconds kGpuLimit{3};
constexpr std::chrono::seconds kToldEvery{2};  // how far an upload is

bool haveAnswered(const ClusterSession& session) {
  for (int i = 0; i < session.size(); ++i) {
    const NodeState phase = session.status(i).phase;
    // A node that is tried again has failed once: that is the answer here.
    if (phase != NodeState::CONNECTED && phase != NodeState::UNAVAILABLE &&
        !(phase == NodeState::RECONNECTING && session.status(i).error))
      return false;
  }
  return true;
}

}  // namespace

bool isBare(const NodeStatus& node) {
  return node.phase == NodeState::UNAVAILABLE && node.error &&
         node.error->code == Code::kNotFound && node.error->what == kNoAgentYet;
}

std::string stateOf(const NodeStatus& node) {
  return isBare(node) ? "not deployed" : std::string(stateName(node.phase));
}

Connecting::Connecting(std::shared_ptr<const spec::v1::ClusterSpec> spec,
                       const ClusterSessionOptions& options)
    : session_(std::move(spec), options, inbox_, observer()) {}

bool Connecting::awaitGpus() {
  const auto end = Clock::now() + kGpuLimit;
  const auto told = [&] {
    for (int i = 0; i < session_.size(); ++i) {
      const NodeStatus& node = session_.status(i);
      if (node.phase == NodeState::CONNECTED && node.load.gpus.size() < node.inventory.gpus.size())
        return Clock::now() > end;
    }
    return true;
  };
  return drainUntil(inbox_, told);
}

bool Connecting::connect() {
  session_.connect();
  return drainUntil(inbox_, [this] { return settled(); });
}

ClusterObserver Connecting::observer() {
  ClusterObserver out;
  out.onQuestion = [this](const NodeQuestion& question) {
    askAtTerminal(session_, question);
    activity_ = Clock::now();
  };
  out.onNode = [this](int index) { tell(index); };
  return out;
}

void Connecting::tell(int index) {
  const NodeStatus& node = session_.status(index);
  if (node.phase == NodeState::DISCONNECTED) return;
  activity_ = Clock::now();
  Told& last = told_[index];
  const std::string state = stateOf(node);
  if (last.state == state && (node.detail.empty() || activity_ - last.at < kToldEvery)) return;
  last = {state, activity_};
  put(stderr,
      fmt::format("{}: {}{}{}\n", node.name, state, node.detail.empty() ? "" : ", ", node.detail));
}

bool Connecting::settled() const {
  return Clock::now() - activity_ > kConnectLimit || haveAnswered(session_);
}

Result<std::vector<HostFacts>> connectedHosts(ClusterSession& session, Inbox& inbox,
                                              const std::function<void()>& idle) {
  session.connect();
  const auto answered = [&] { return haveAnswered(session); };
  if (!drainUntil(inbox, answered, idle))
    return makeError(Code::kCancelled, "connecting was cancelled");
  return hostsOf(session);
}

bool reportFailures(const ClusterSession& session, bool json) {
  bool well = true;
  for (int i = 0; i < session.size(); ++i) {
    const NodeStatus& node = session.status(i);
    if (node.phase == NodeState::CONNECTED) continue;
    if (isBare(node)) {
      put(stderr, fmt::format("note: the agent is not on node {} yet; lockstep cluster deploy "
                              "copies it there\n",
                              node.name));
      continue;
    }
    well = false;
    Error error = node.error
                      ? *node.error
                      : makeError(Code::kDeadlineExceeded, "the node did not answer in time");
    if (error.node.empty()) error.node = node.name;
    report(error, json);
  }
  return well;
}

}  // namespace lockstep::app::cli
