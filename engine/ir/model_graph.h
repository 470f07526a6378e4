// ModelGraph: a forward Graph and the roles of its values in training.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/ir/graph.h"

namespace lockstep::ir {

struct Parameter {
  std::string name;  // state name, "dense1.weight"
  Shape shape;
  // "torch-uniform": U(−1/√fanIn, 1/√fanIn); "normal:0.02": N(0, 0.02²);
  // "zeros"; "ones"
  std::string initializer;
  std::int64_t fanIn = 0, fanOut = 0;
  // The dimension that tensor parallelism splits, -1 for none, and the largest number of parts: the
  // number of heads or features, which are not split.
  int splitDim = -1;
  std::int64_t splitParts = 0;
  // Where `whole` is not "", this is a part of that parameter, which has `rows` rows in dimension
  // 0: the rows from `first`.
  struct PartOf {
    std::string whole;
    std::int64_t first = 0, rows = 0;
  };
  PartOf partOf;
  bool frozen = false;   // stays as it is: no gradient, no optimizer state
  bool orWhole = false;  // replicated where the parts do not divide evenly among ranks
  bool isDivided(int ranks) const {
    return ranks > 1 && splitDim >= 0 && (!orWhole || splitParts % ranks == 0);
  }
};

// The forward graph of a global batch. Inputs: "x", "label", "weight"; "categories" for tables;
// "dropout", a random number for each sample and step, with dropout. One state node per parameter.
struct ModelGraph {
  Graph graph;
  std::int64_t batch = 0;
  DType compute = DType::kF32;
  std::vector<Parameter> parameters;  // in layer order
  // Running statistics: states that the training graph updates and the evaluation graph reads.
  std::vector<Parameter> statistics;
  struct Layer {
    std::string name;
    NodeId first = 0;  // its nodes end where the next layer's begin
  };
  std::vector<Layer> layers;
  ValueId loss = -1;    // f[1]: Σ w·loss
  ValueId weight = -1;  // f[1]: Σ w
  // The quality metric, computed from sums over samples: "accuracy" from Σ w·[correct] f[1], "auc"
  // from a kScoreHistogram, "perplexity" of tokens from the loss; "": none.
  std::string metric;
  ValueId metricSums = -1;
};

}  // namespace lockstep::ir
