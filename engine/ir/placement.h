// Placement: how a value is distributed. Along each mesh axis a value is replicated (the default),
// split along a dimension at explicit cut-points, or partial: its value is the reduction of the
// values of the ranks along the axis.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep::ir {

struct AxisPlacement {
  enum class Kind : std::uint8_t { kReplicated, kSplit, kPartialSum, kPartialMax };
  Kind kind = Kind::kReplicated;
  int dim = 0;                     // kSplit: the dimension
  std::vector<std::int64_t> cuts;  // kSplit: size+1 ascending offsets, 0 … extent
  bool operator==(const AxisPlacement&) const = default;
};

struct Placement {
  std::string submesh;                        // "" is the whole mesh; "servers", "stage1", …
  std::map<std::string, AxisPlacement> axes;  // only axes that are not replicated
  bool replicated() const { return axes.empty(); }
  std::string text() const;  // "data: split 0 [0 22 43 64]", "data: partial sum", "replicated"
  bool operator==(const Placement&) const = default;
};

}  // namespace lockstep::ir
