// Measures all-reduce among nodes: each agent runs one rank, and this client relays what the ranks
// publish to find each other.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "app/cluster/node_access.h"
#include "engine/base/status.h"

namespace lockstep::node::v1 {
class BenchTogetherReply;
}

namespace lockstep::app {

struct BenchedRank {
  NodeAccess* node = nullptr;  // connected
  std::string address;         // numeric, at which the other nodes reach it
};

// Returns the bus bandwidth in bytes/s: what each rank sends, if all send equally much. Blocks for
// about `seconds`, longer on slow links. Precondition: at least 2 ranks. Errors: the first node's;
// kCancelled.
Result<double> measureAllReduce(const std::vector<BenchedRank>& ranks, double seconds,
                                const std::stop_token& stop);

// Returns the seconds of the one all-reduce that a node's last reply tells. Errors: the node's;
// kUnavailable where it tells none.
Result<double> allReduceSecondsOf(const node::v1::BenchTogetherReply& reply);

}  // namespace lockstep::app
