// Model builders: a model description → the forward Graph with its loss and metrics.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/ir/model_graph.h"

namespace lockstep::models {

struct Layer {
  enum class Kind : std::uint8_t {
    kDense,
    kConv2d,
    kMaxPool2d,
    kFlatten,
    kActivation,
    kAdd,
    // of tokens, and of their positions; of categories, a table for each column, side by side
    kEmbedding,
    kLayerNorm,
    // pre-LN block as in GPT-2: x + attention(norm(x)), then that + feed-forward(norm)
    kTransformer,
    kBatchNorm,          // parameters gain and bias, running statistics mean and variance
    kGlobalAveragePool,  // of an image: the mean of each channel
    kConcat,             // of values without further dimensions
    kDropout,
  };
  Kind kind = Kind::kDense;
  std::string name;  // unique; parameters are "<name>.weight", "<name>.bias"
  // Names of layers, "input" or "categories"; empty: the layer before.
  std::vector<std::string> inputs;
  std::int64_t units = 0;               // dense units, conv filters
  std::int64_t kernel = 0, stride = 1;  // conv; pool: kernel is the window
  bool same = false;                    // conv padding: same, else valid
  bool bias = true;
  std::string activation;        // "" or one of activations(): dense, conv, add, batch norm
  std::string tied;              // dense: the embedding whose table is the weight, transposed
  std::int64_t heads = 1;        // transformer
  std::int64_t feedForward = 0;  // transformer: units between; 0: four times the channels
  bool causal = true;            // transformer: a token sees none after it
  double dropout = 0;            // dropout: of the input; transformer: of what is added to it
  double momentum = 0.9;         // batch norm: how much of a running statistic a step keeps
  double epsilon = 1e-5;         // batch norm
  // Batch norm: equal parts of the batch, one after another, each normalised by statistics of its
  // own; 1: by the whole batch's, whatever ranks share it. Where the batch is cut into
  // micro-batches each has some of them whole.
  std::int64_t groups = 1;
};

struct Model {
  std::string name;
  Shape input;                  // of one sample, e.g. 28x28x1; of text the number of tokens
  std::int64_t vocabulary = 0;  // above 0: the input is text, token ids below it
  // Above 0: so many categorical columns beside the numbers, each with so many categories.
  std::int64_t columns = 0, categories = 0;
  DType inputDtype = DType::kU8;  // what the data set holds
  double inputScale = 1.0 / 255;
  std::vector<Layer> layers;
  std::string loss = "cross-entropy";  // "binary-cross-entropy", "mse"
  std::int64_t classes = 10;           // of text the vocabulary: the label is the token after each
};

// for people: shapes, parameters and cost of a layer, one sample
struct LayerInfo {
  std::string name, kind;
  Shape output;  // of one sample
  std::int64_t parameters = 0;
  double forwardFlops = 0;
  std::int64_t activationBytes = 0;
};

// In training, batch norm takes the statistics of the batch and updates the running ones;
// evaluation takes the running ones.
enum class Use : std::uint8_t { kTraining, kEvaluation };

// Errors name the layer and what was expected (kInvalidArgument; `why` has "layers[i].field").
// `batch` samples in `compute` precision, one of `parts` micro-batches.
Result<ir::ModelGraph> build(const Model& model, std::int64_t batch, DType compute, Use use,
                             int parts = 1);
Result<std::vector<LayerInfo>> describe(const Model& model);
std::span<const std::string_view> activations();

}  // namespace lockstep::models
