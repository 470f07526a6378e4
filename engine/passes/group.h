// Groups: parameters, their gradients and their optimizer state laid out flat, so that one
// collective and one update serve many of them. Formed before placement; parameters are views.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/ir/model_graph.h"

namespace lockstep::passes {

// Properties shared by all parameters of a group.
struct GroupKind {
  int stage = 0;
  bool noWeightDecay = false;
  int table = 0;                // above 0: a table updated by rows, alone in its group
  bool divided = false;         // along an axis whose ranks hold other parameters whole
  bool rowSharded = false;      // a table's rows on a server: see serveTables
  std::optional<DType> castTo;  // the type that all that reads them casts them to
  // with servers: fills a group by itself, so that servers can share evenly
  bool large = false;
  auto operator<=>(const GroupKind&) const = default;
};

struct Group {
  struct Member {
    std::string name;
    Shape shape;
    std::int64_t element = 0;  // first element in the group
    std::int64_t padding = 0;  // zero elements after it, so that the next begins on 64 bytes
  };
  std::vector<Member> members;
  std::int64_t count = 0;  // elements, padding included
  GroupKind kind;
};

// `parameters` in the order in which the backward pass fills their gradients. A group is closed
// when it has reached `bucketBytes`; one parameter is never divided. Parameters of one `kind`, by
// index, are together. A group's count can be divided into `parts` equal parts of whole 64 bytes.
// Groups are in the order in which they begin.
std::vector<Group> formGroups(const std::vector<ir::Parameter>& parameters, DType dtype,
                              std::int64_t bucketBytes, int parts = 1,
                              const std::vector<GroupKind>& kind = {});

// How many bytes a bucket should have: so many that the latency of its collective is below 1/64 of
// its time, from 1 to 32 MiB; PyTorch's default is 25 MiB for any link (Li et al., "PyTorch
// Distributed: experiences on accelerating data parallel training", 2020). Nothing hides the
// exchange of the last bucket: above 4 MiB it is at most 1/32 of the gradients of a rank. Fewer
// gradients than a bucket has make one.
std::int64_t chooseBucketBytes(double latencySeconds, double bytesPerSecond,
                               std::int64_t gradientBytes);

}  // namespace lockstep::passes
