// What a person looks at on a node from afar: its processes, the messages of its kernel, its speed,
// a shell.
//
// The calls block for as long as the node takes, at most some 30 s; benchNode() as runPreflight().
// Threads: any. Errors:
// kUnavailable, kDeadlineExceeded, kCancelled; kFailedPrecondition if the node's agent is of a
// version that cannot do it.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "app/cluster/node_access.h"
#include "app/cluster/preflight.h"
#include "engine/base/status.h"

namespace lockstep::node::v1 {
class ListProcessesReply;
class ReadKernelLogReply;
}  // namespace lockstep::node::v1

namespace lockstep::app {

struct NodeProcess {
  int pid = 0, parent = 0;
  std::string user;
  double cores = 0;  // CPU time per time: 1.5 is one and a half cores
  std::int64_t memoryBytes = 0;
  int threads = 0;
  std::string state;  // as in /proc: "R", "S", "D", "T"
  double ageSeconds = 0;
  std::string command;
  std::string part;  // of Lockstep: "agent", "supervisor", "worker"; "": of another program
  std::string run;   // of a supervisor and a worker
  int rank = -1;     // of a worker that trains
};
struct NodeProcesses {
  std::vector<NodeProcess> processes;  // the busiest first
  int total = 0;
  bool othersHidden = false;  // those of other accounts are not shown on this node
  double seconds = 0;         // the interval that CPU times are of
};
struct ProcessQuery {
  double seconds = 1;  // 0.1…10
  int most = 30;       // processes besides Lockstep's, 1…500
};
Result<NodeProcesses> listProcesses(NodeAccess& node, const ProcessQuery& query,
                                    std::stop_token stop);
// The processes of the reply. Negative or non-finite numbers become 0.
NodeProcesses processesOf(const node::v1::ListProcessesReply& reply);

struct KernelLine {
  int level = 6;  // 0 emergency … 7 debug
  std::int64_t bootNs = 0, wallNs = 0;
  std::string text;
};
std::string_view kernelLevelName(int level);  // "error", "warning"
// Returns the newest lines, 1…5000, oldest first. kPermissionDenied if the account may not read
// them.
Result<std::vector<KernelLine>> readKernelLog(NodeAccess& node, int lines, std::stop_token stop);
std::vector<KernelLine> kernelLinesOf(const node::v1::ReadKernelLogReply& reply);

// Measures matrix products of the processor, memory and disk writes of a node and of its peers at
// the same time, and grades them by each other. Training on them is slowed meanwhile. The values of
// the node come first. kUnavailable if the node is not among `nodes`, the connected ones.
Result<PreflightResult> benchNode(const std::vector<PreflightNode>& nodes, const std::string& node,
                                  const PreflightOptions& options, const std::stop_token& stop);

// Returns the words of the command that opens a shell on a node: ssh with the options of the
// cluster, and `sshConfig` if it is not empty; on this machine the account's own shell.
// kInvalidArgument if the cluster's options cannot be.
Result<std::vector<std::string>> shellCommand(const spec::v1::ClusterSpec& cluster,
                                              const std::string& node,
                                              const std::string& sshConfig);
// Returns the words that run a command in a terminal window of the desktop, which stays open if
// the command fails. kNotFound without a terminal program.
Result<std::vector<std::string>> terminalCommand(const std::vector<std::string>& command);

}  // namespace lockstep::app
