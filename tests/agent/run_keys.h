// Keys made for one run, as the client makes them: an authority that lives as long as the run, and
// a certificate a node whose subject alternative name is its identity.
#pragma once

#include <string>

#include "lockstep/node/v1/node.pb.h"
#include "tests/agent/agent_node.h"

namespace lockstep::agent_test {

class RunAuthority {
 public:
  RunAuthority();
  ~RunAuthority();
  RunAuthority(const RunAuthority&) = delete;
  RunAuthority& operator=(const RunAuthority&) = delete;
  node::v1::TlsIdentity identity(const std::string& uri) const;

 private:
  struct State;
  State* state_;
};

// prepareRequest() of a run on several nodes: with this node's key, and a host for each.
node::v1::PrepareRequest keyedRequest(const RunOptions& options, const RunAuthority& authority,
                                      int node);

}  // namespace lockstep::agent_test
