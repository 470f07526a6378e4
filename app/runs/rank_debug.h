// Debugging of a rank of a run that trains: its stacks, and a debugger attached from here.
//
// The calls block. Threads: any. Errors: kFailedPrecondition if the run has ended or its supervisor
// is of a version that cannot do it, kNotFound if the rank runs on no node, kUnavailable,
// kDeadlineExceeded, kCancelled.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "app/history/run_row.h"
#include "app/runs/run_nodes.h"
#include "engine/base/status.h"

namespace lockstep::node::v1 {
class DebugRankReply;
class ReadRankStacksReply;
}  // namespace lockstep::node::v1

namespace lockstep::app {

struct ThreadStack {
  int tid = 0;
  std::string name;
  std::string state;                // as in /proc: "S (sleeping)"
  std::vector<std::string> frames;  // innermost first
  double stoppedSeconds = 0;        // how long reading it stopped the thread
};
struct RankStacks {
  std::string node;
  int rank = -1, pid = 0;
  std::vector<ThreadStack> threads;
  bool incomplete = false;     // there are more threads
  double longestStop() const;  // seconds
};
// What the reply tells; whose stacks they are, it does not.
RankStacks stacksOf(const node::v1::ReadRankStacksReply& reply);
// The text that a person copies: a line for each thread, one for each of its frames, indented.
std::string stacksText(const RankStacks& stacks);

// Returns an error if the run has ended or does not have the rank.
Status checkRank(const RunRow& row, std::int64_t rank);

// Returns the nodes that the run was launched on, with their ranks, the coordinator first. After a
// recovery a rank may be elsewhere.
struct NodeRanks {
  std::string node;
  std::vector<int> ranks;
};
std::vector<NodeRanks> launchedRanks(const std::string& nodesJson);

// A rank of a run, and where to look for it.
struct RankPlace {
  std::string run;
  int rank = 0;
  std::vector<RunNode> nodes;  // looked at in this order
};
// Parses RunDocuments::nodes; the node that the rank was launched on comes first.
Result<RankPlace> placeOf(const std::string& run, int rank, const std::string& nodesJson,
                          const ClusterSession& session);

// At most some 30 s for each node.
Result<RankStacks> readStacks(const RankPlace& place, const std::stop_token& stop);

struct DebuggerNews {
  enum class State : std::uint8_t {
    kWaiting,   // a debugger may connect
    kAttached,  // the rank stands still while the debugger has it stopped
    kLeft,      // the rank goes on; followed by kWaiting
  };
  State state = State::kWaiting;
  std::string node;
  int pid = 0;
  std::string socket;          // unix socket on this machine, for `target remote`
  std::string program;         // the worker's executable, on the node
  double patienceSeconds = 0;  // how long the other ranks wait for this one; 0: there are none
};
// What the reply tells, without the node and the socket here.
DebuggerNews newsOf(const node::v1::DebugRankReply& reply);
// "gdb -ex 'target remote /run/…/….sock'".
std::string debuggerCommand(const DebuggerNews& news);
// Makes a socket on this machine to which a debugger can connect. gdbserver is attached to the rank
// while one is. Blocks until `tell` returns false, `stop`, the rank has ended, or no debugger has
// connected for `seconds` (1…3600); then the socket is gone. kFailedPrecondition without gdbserver
// on the node.
Status debugRank(const RankPlace& place, double seconds,
                 const std::function<bool(const DebuggerNews&)>& tell, const std::stop_token& stop);

}  // namespace lockstep::app
