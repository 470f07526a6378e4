// How an all-reduce is made of messages, where it is not the communicator's own. Both players read
// it: the executor sends these messages, the planner counts their cost.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/ir/ops.h"

namespace lockstep::plan {

// A message to one rank, one from another, or both at once; elements of the vector that is reduced.
struct Exchange {
  struct Range {
    std::int64_t begin = 0, end = 0;
    bool operator==(const Range&) const = default;
  };
  int to = -1, from = -1;  // -1: none
  Range sent, received;
  bool reduces = false;  // what is received is added to what lies there, else it takes its place
};

// What rank `rank` of `size` does, in order. Every element is added up along one path and then
// copied, so that all ranks have the same bits, and the same ones again.
//   ring                a reduce-scatter and an all-gather of size slices, to the next rank each
//   time
//                       (Patarasuk and Yuan 2009)
//   halving-doubling    halves, quarters, … exchanged with ranks at half, a quarter of the
//   distance, and back
//                       (Thakur et al. 2005); ranks beyond a power of two lend theirs to a
//                       neighbour
//   tree                a binomial tree to rank 0 and back
//   hierarchical        trees inside the hosts to the first rank of each, a ring of these, and
//   back. `hosts`
//                       are cut-points of the ranks: those of one host are neighbours
// Empty for direct.
std::vector<Exchange> exchanges(ir::Algorithm how, int rank, int size, std::int64_t count,
                                std::span<const std::int64_t> hosts = {});

}  // namespace lockstep::plan
