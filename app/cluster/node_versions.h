// Versions of what the nodes of a cluster run. Nodes that train together should have the same.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/message.h"

namespace lockstep::app {

struct NodeVersion {
  enum class Kind : std::uint8_t {
    kAgent,      // content hash of its bundle
    kKernel,     // release
    kGpuDriver,  // "580.65.06"
    kCuda,       // the newest that the driver runs
    kNccl,
  };
  enum class Grade : std::uint8_t { kUngraded, kSame, kDifferent };
  Kind kind = Kind::kAgent;
  std::string node;
  std::string version;             // "": unknown
  std::string usual;               // what it was compared with; "": nothing
  std::vector<std::string> peers;  // the other nodes that have `usual`
  Grade grade = Grade::kUngraded;
};
std::string_view kindName(NodeVersion::Kind kind);  // "agent", "kernel", "gpu-driver", …

// Grades each version by what most nodes have of its kind; of several that are as frequent, by the
// first. A version is ungraded if it is unknown or no other node's is known.
void gradeVersions(std::vector<NodeVersion>& versions);

// As tables show it: of a hash the first digits.
std::string shortVersion(const NodeVersion& version);

// "node n3 has kernel 6.6.0, unlike the 6.1.0 of n1, n2". Requires kDifferent.
Message differentText(const NodeVersion& version);

}  // namespace lockstep::app
