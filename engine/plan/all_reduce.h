// Composes all-reduce algorithms of point-to-point messages. The executor sends these messages, and
// the planner prices them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/ir/ops.h"

namespace lockstep::plan {

// A send, a receive, or both at once; ranges of elements of the reduced vector.
struct Exchange {
  struct Range {
    std::int64_t begin = 0, end = 0;
    bool operator==(const Range&) const = default;
  };
  int to = -1, from = -1;  // -1: none
  Range sent, received;
  bool reduces = false;  // adds the received elements to the local ones, else replaces them
};

// Returns the messages of rank `rank` of `size`, in order; empty for direct. Every element is
// reduced along one path and then copied, so that the result is bitwise identical on all ranks and
// reproducible.
//   ring              reduce-scatter and all-gather of `size` slices to the next rank (Patarasuk
//   and
//                     Yuan 2009)
//   halving-doubling  recursive halving and doubling (Thakur et al. 2005); ranks beyond a power of
//                     two are folded into a neighbour
//   tree              a binomial tree to rank 0 and back
//   hierarchical      trees inside hosts to each host's first rank, a ring of these, and back.
//                     `hosts` are cut-points of the ranks, which are contiguous on a host
std::vector<Exchange> exchanges(ir::Algorithm how, int rank, int size, std::int64_t count,
                                std::span<const std::int64_t> hosts = {});

}  // namespace lockstep::plan
