// ClusterSession: the live state of a cluster's nodes. Connects each node on its own thread (local
// agent or SSH, deploy, handshake), samples its load, reconnects after a loss, and cleans it up of
// runs that were given up or deleted while it was unreachable.
//
// Used on the inbox's thread, unless stated otherwise; so is the observer. The destructor cancels
// and joins; no callback is called afterwards. Joining may take as long as a name lookup or a
// handshake: a window calls end() and destroys it on another thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "app/cluster/gpu_load.h"
#include "app/core/home.h"
#include "app/core/inbox.h"
#include "app/deploy/agent_start.h"
#include "app/ssh/prompter.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/specs/protocol.h"
#include "engine/specs/states.h"

namespace lockstep::spec::v1 {
class ClusterSpec;
}

namespace lockstep::app {

class NodeAccess;

using run::v1::NodeState;
using specs::stateName;

struct NodeInventory {
  std::string hostname, bootId, cpu, kernel, os, workdir, agentVersion, gpuDriver;
  std::string network;    // namespace, on this boot: nodes of one share loopback
  std::string reachedAt;  // its address that SSH arrived at; "": this machine
  std::vector<std::string> cpuFlags, addresses, gpus;
  int cores = 0;
  std::int64_t memoryBytes = 0, memoryAvailable = 0, diskFreeBytes = 0;  // 0 unknown
  int agentPid = 0;
  std::optional<bool> hasCurl;  // none: its agent is of a version that does not tell
  specs::Protocols agentSpeaks;
  Nanoseconds clockOffset = 0;  // of its clock to this machine's, to within the time of a handshake
};

struct NodeLoad {               // the latest of WatchNode; rates in bytes/s
  std::int64_t receivedNs = 0;  // this machine's monotonic clock
  double cpu = 0;               // 0…1 of all cores
  std::vector<double> core;
  double memoryUsed = 0, memoryTotal = 0;
  double networkIn = 0, networkOut = 0, loopback = 0;
  double diskRead = 0, diskWrite = 0, diskFree = 0, load1 = 0;
  std::optional<double> diskBusy;  // 0…1; none: not measured
  std::vector<GpuLoad> gpus;
};

// A question to the user. The node waits for the answer without a limit, and so do all nodes that
// need the same: it is asked once, for the first of them.
struct NodeQuestion {
  std::uint64_t id = 0;
  enum class Kind : std::uint8_t { kHostKey, kSecret } kind = Kind::kHostKey;
  std::string node;
  HostKeyQuestion hostKey;
  SecretQuestion secret;
};

struct NodeStatus {
  std::string name;
  bool local = true;
  std::string target;  // "user@host:port", "this machine"
  std::vector<std::string> roles;
  int ranks = 1;  // devices it brings
  // Address for peers: the cluster's, else the most likely one, once connected. A launch checks it
  // and may choose another.
  std::string address;
  NodeState phase = NodeState::DISCONNECTED;
  std::uint64_t uploaded = 0, uploadSize = 0;  // bytes of the agent, while it is deployed; else 0
  Message detail;                              // "uploading 12 of 40 MB", "again in 2 s"
  std::optional<Error> error;
  NodeInventory inventory;  // once connected
  NodeLoad load;
};

struct ClusterSessionOptions {
  Home home;
  std::string sshConfig;                      // --ssh-config
  std::vector<std::string> acceptedHostKeys;  // --accept-host-key
  bool ask = true;                            // false: unknown keys and secrets are refused
  bool copy = true;                           // false: an agent that is not on its node stays away
  std::optional<AgentStart> start;  // of agents, over SSH; absent: as each node was deployed
  double sampleHertz = 4;           // of node loads; 0: none
  bool cleanUp = true;              // false: nodes are not cleaned up of given-up and deleted runs
};

struct ClusterObserver {
  std::function<void(int node)> onNode;  // status(node) changed, but for its load
  std::function<void(int node)> onLoad;
  std::function<void(const NodeQuestion&)> onQuestion;
};

class ClusterSession {
 public:
  ClusterSession(std::shared_ptr<const spec::v1::ClusterSpec> cluster,
                 ClusterSessionOptions options, Inbox& inbox, ClusterObserver observer = {});
  ~ClusterSession();
  ClusterSession(const ClusterSession&) = delete;
  ClusterSession& operator=(const ClusterSession&) = delete;

  // Cancels all work. Afterwards no callback is called, no other function may be called, and the
  // object may be destroyed on any thread.
  void end();

  const std::shared_ptr<const spec::v1::ClusterSpec>& cluster() const;
  int size() const;
  const NodeStatus& status(int node) const;
  int find(const std::string& name) const;  // -1: no such node
  bool allConnected() const;

  void connect();          // all that are not connected
  void connect(int node);  // deploys and starts the agent where needed
  void disconnect(int node);
  void disconnect();

  // Cleans connected nodes up again: a run was given up or deleted.
  void cleanUp();

  std::vector<NodeQuestion> questions() const;  // open ones
  void answer(std::uint64_t question, bool accept);
  void answer(std::uint64_t question, std::optional<Secret> secret);

  // Thread-safe, while the session lives; used by launches and recorders. Null: no such node.
  NodeAccess& access(int node) const;
  NodeAccess* access(const std::string& name) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::app
