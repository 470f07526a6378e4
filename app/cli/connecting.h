// Connecting: connects to the nodes of a cluster for a command, and reports progress to stderr.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "app/cli/command.h"
#include "app/cluster/cluster_session.h"
#include "app/core/inbox.h"
#include "app/runs/preview.h"

namespace lockstep::app::cli {

// Returns whether nothing is wrong with the node but that the agent was never copied there.
bool isBare(const NodeStatus& node);
std::string stateOf(const NodeStatus& node);

class Connecting {
 public:
  Connecting(std::shared_ptr<const spec::v1::ClusterSpec> spec,
             const ClusterSessionOptions& options);
  ClusterSession& session() { return session_; }
  Inbox& inbox() { return inbox_; }

  // Waits until every node is connected or has failed once. Returns false if Ctrl-C was pressed.
  bool connect();
  // Waits until all GPUs were sampled once, for at most 3 s. Returns false if Ctrl-C was pressed.
  bool awaitGpus();

 private:
  using Clock = std::chrono::steady_clock;
  struct Told {
    std::string state;
    Clock::time_point at;
  };
  ClusterObserver observer();
  void tell(int index);
  bool settled() const;

  std::map<int, Told> told_;
  Clock::time_point activity_ = Clock::now();
  Inbox inbox_;
  ClusterSession session_;
};

// A session whose questions go to the terminal.
struct AskingSession {
  AskingSession(std::shared_ptr<const spec::v1::ClusterSpec> cluster, const Globals& globals,
                Inbox& inbox)
      : session(std::move(cluster), sessionOptions(globals, 0), inbox, observer()) {}
  ClusterObserver observer() {
    ClusterObserver out;
    out.onQuestion = [this](const NodeQuestion& question) { askAtTerminal(session, question); };
    return out;
  }
  ClusterSession session;
};

// Connects the nodes and waits until each has answered or failed once. Returns what those have that
// are connected. Errors: kCancelled at Ctrl-C.
Result<std::vector<HostFacts>> connectedHosts(ClusterSession& session, Inbox& inbox,
                                              const std::function<void()>& idle = {});

// Reports nodes that are not connected, and why; returns whether there is none.
bool reportFailures(const ClusterSession& session, bool json);

}  // namespace lockstep::app::cli
