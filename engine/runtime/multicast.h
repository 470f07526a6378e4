// Multicast: sends the bytes of one rank to those ranks of a mesh that need them, by messages along
// one axis after another. Along an axis they spread as a binomial tree. Ranks that are on the way
// of none receive nothing.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/cluster/mesh.h"
#include "engine/runtime/groups.h"

namespace lockstep::runtime {

class Multicast {
 public:
  Multicast(const cluster::Mesh& mesh, int from, const std::set<int>& to);

  // Whether the bytes come by a rank: the sender, those that need them, and those on the way.
  bool reaches(int rank) const;
  // Collective over all ranks of the mesh, with as many `bytes` in all. `data` has the bytes at the
  // sender, and takes them at the other ranks that they reach; unused elsewhere. Errors: those of
  // the groups.
  Status send(const Groups& groups, int rank, std::byte* data, std::int64_t bytes) const;

 private:
  // Along an axis from the first of these ranks to the others.
  struct Hop {
    std::string axis;
    std::vector<int> ranks;
  };
  Status pass(const Hop& hop, comm::Communicator& group, int rank,
              std::span<std::byte> bytes) const;

  const cluster::Mesh& mesh_;
  const int from_;
  std::vector<Hop> hops_;
};

}  // namespace lockstep::runtime
