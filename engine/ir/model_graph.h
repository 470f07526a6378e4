// ModelGraph: a forward Graph with the roles its values play in training.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/ir/graph.h"

namespace lockstep::ir {

struct Parameter {
  std::string name;  // of the state, "dense1.weight"
  Shape shape;
  // "torch-uniform": U(−1/√fanIn, 1/√fanIn); "normal:0.02": N(0, 0.02²);
  // "zeros"; "ones"
  std::string initializer;
  std::int64_t fanIn = 0, fanOut = 0;
  // The dimension that tensor parallelism divides, -1 for none, and into how many parts it could at
  // most: heads or features, which stay whole.
  int splitDim = -1;
  std::int64_t splitParts = 0;
  // Where `whole` is not "", a part of that parameter: rows from `first` of its `rows` in dimension
  // 0.
  struct PartOf {
    std::string whole;
    std::int64_t first = 0, rows = 0;
  };
  PartOf partOf;
  bool orWhole = false;  // where ranks cannot share the parts evenly each has all of it
  bool isDivided(int ranks) const {
    return ranks > 1 && splitDim >= 0 && (!orWhole || splitParts % ranks == 0);
  }
};

// The forward graph of a whole batch. Inputs "x", "label", "weight", of tables "categories", with
// dropout "dropout": a random number of the sample and the step; a state node per parameter.
struct ModelGraph {
  Graph graph;
  std::int64_t batch = 0;
  DType compute = DType::kF32;
  std::vector<Parameter> parameters;  // in the order of the layers
  // Running statistics: states that the training graph replaces and the evaluation graph reads.
  std::vector<Parameter> statistics;
  struct Layer {
    std::string name;
    NodeId first = 0;  // the nodes from it to the next layer's
  };
  std::vector<Layer> layers;
  ValueId loss = -1;    // f[1]: Σ w·loss
  ValueId weight = -1;  // f[1]: Σ w
  // What says how good the model is, from sums over samples: "accuracy" from Σ w·[correct] f[1],
  // "auc" from a kScoreHistogram, "perplexity" of tokens from the loss; "" where there is none.
  std::string metric;
  ValueId metricSums = -1;
};

}  // namespace lockstep::ir
