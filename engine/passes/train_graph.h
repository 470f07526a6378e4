// Passes: named pure functions over Graphs. ir::verify runs round every pass, and the pass that
// broke the graph is named.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/ir/graph.h"
#include "engine/ir/model_graph.h"

namespace lockstep::passes {

struct Optimizer {
  std::string kind = "adam";  // "sgd", "adam", "adagrad"
  double momentum = 0, weightDecay = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  bool decayMatricesOnly = false;  // weight decay spares parameters of one dimension
  double clipNorm = 0;             // the mean gradient of all parameters is at most so long; 0: any
};

struct LossScale {
  double initial = 65536;              // a power of two
  std::int64_t growthInterval = 2000;  // it doubles after so many steps that update
  bool fixed = false;                  // it stays as it is
};

// What is measured for people who watch a training: see ir/watch.h. Only of updates from the
// gradient of the whole batch: asynchronous workers and local SGD have none.
struct Watch {
  // Steps between two measurements; 0: none, but the gradient norm is there in every step where
  // clipping or loss scaling computes its squares anyway.
  std::int64_t every = 0;
  // Besides the gradient norm: the update ratio, which costs a copy of a group of parameters.
  bool updateRatio = false;
};

struct TrainOptions {
  Optimizer optimizer;
  Watch watch;
  std::optional<LossScale> lossScale;
  std::uint64_t seed = 1;
};

// The node that is the gradient of the loss itself, 1.
inline constexpr std::string_view kSeed = "grad.seed";

// ∂ of the sum `loss` with respect to each named state read by the graph, appended to a copy of the
// graph (phase backward); `gradients` in the order of `states`. Input gradients and weight
// gradients are separate nodes, on the stage of the node they belong to; values used several times
// have their gradients added, where the value is made.
struct Differentiated {
  ir::Graph graph;
  std::vector<ir::ValueId> gradients;
};
Result<Differentiated> autodiff(const ir::Graph& forward, ir::ValueId loss,
                                const std::vector<std::string>& states);

// Cross-entropy of logits whose classes `ranks` ranks share, in terms that they exchange a number a
// row of: a softmax is nowhere whole (Shoeybi et al.: "Megatron-LM", 2019).
Result<ir::ModelGraph> divideLoss(const ir::ModelGraph& model, int ranks);

// Mixed precision (Micikevicius et al., 2018): the factors of products are cast to `factors`, a
// value once, where it is made, whoever reads it; sums, parameters, gradients and all else stay as
// they are. Those of attention, which are within it, a GPU may round alike. Of a graph with
// gradients.
// With `storesNarrow` activations and their gradients are cast as well, where all their readers can
// read 16 bits (OpInfo::stored): the residual stream, statistics, losses and gradients of
// parameters stay f32. Of a value that ranks sum, the sum is cast.
Result<ir::Graph> autocast(const ir::Graph& graph, DType operandDtype, bool storesNarrow = false);
// Products of f32 may round their factors to 10 bits of fraction, where a device is faster so.
Result<ir::Graph> allowTf32(const ir::Graph& graph);

// matmul/conv2d + bias-add + relu with single uses → one node with bias operand and act attribute.
Result<ir::Graph> fuseEpilogues(const ir::Graph& graph);
// An op whose result only a cast to 16 bits reads writes that itself (OpInfo::narrowOutput), with
// the same bits; a GPU rounds a product's bias as well. Of a rank's graph, in which whatever
// carries values between ranks is a node.
Result<ir::Graph> foldCasts(const ir::Graph& graph);
// Nodes that reach no sink (a store, a result, a send) are left out.
Result<ir::Graph> removeDead(const ir::Graph& graph);

}  // namespace lockstep::passes
