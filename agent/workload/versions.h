// What a Python program runs with on this node.
#pragma once

#include <map>
#include <string>

#include "lockstep/spec/v1/workload.pb.h"

namespace lockstep::agent {

// Returns the versions of Python and of the packages installed for it that have to agree between
// nodes: "python" → "3.11.2", "torch" → "2.1.0". `folder` is that of the code. Empty where the
// command names neither Python nor a launcher with one beside it, as torchrun. Takes some 50 ms, at
// most 10 s.
std::map<std::string, std::string> pythonVersions(const spec::v1::WorkloadSpec& workload,
                                                  const std::string& folder);

}  // namespace lockstep::agent
