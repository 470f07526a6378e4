// Model descriptions, and the forward graph with loss and metrics that is built from them.
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
    // of tokens and their positions; or of categories, one table for each column, concatenated
    kEmbedding,
    kLayerNorm,
    // pre-LN block as in GPT-2: h = x + attention(norm(x)), then h + feed-forward(norm(h))
    kTransformer,
    kBatchNorm,          // parameters gain and bias, running statistics mean and variance
    kGlobalAveragePool,  // the mean of each channel of an image
    kConcat,             // of values with one dimension
    kDropout,
  };
  Kind kind = Kind::kDense;
  std::string name;  // unique; parameters are "<name>.weight", "<name>.bias"
  // Names of layers, "input" or "categories"; empty: the previous layer.
  std::vector<std::string> inputs;
  std::int64_t units = 0;               // dense units, conv filters
  std::int64_t kernel = 0, stride = 1;  // conv; pool: kernel is the window
  bool same = false;                    // conv padding: same, else valid
  bool bias = true;
  std::string activation;        // "" or one of activations(): dense, conv, add, batch norm
  std::string tied;              // dense: the embedding whose table is the weight, transposed
  std::int64_t heads = 1;        // transformer
  std::int64_t feedForward = 0;  // transformer: hidden units; 0: four times the channels
  bool causal = true;            // transformer: tokens do not attend to later ones
  double dropout = 0;            // dropout: of the input; transformer: of the residual branches
  double momentum = 0.9;         // batch norm: fraction of a running statistic that a step keeps
  double epsilon = 1e-5;         // batch norm
  // Batch norm: number of consecutive equal parts of the batch, each normalised by its own
  // statistics; 1: by those of the global batch, over all ranks. Each micro-batch contains whole
  // groups.
  std::int64_t groups = 1;
};

struct Model {
  std::string name;
  Shape input;                  // of one sample, e.g. 28x28x1; for text the number of tokens
  std::int64_t vocabulary = 0;  // above 0: the input is text, token ids below it
  // Above 0: categorical columns besides the numbers, and categories of each column.
  std::int64_t columns = 0, categories = 0;
  DType inputDtype = DType::kU8;  // as in the data set
  double inputScale = 1.0 / 255;
  std::vector<Layer> layers;
  std::string loss = "cross-entropy";  // "binary-cross-entropy", "mse"
  std::int64_t classes = 10;           // for text the vocabulary: labels are the next tokens
};

// Shapes, parameters and cost of a layer for one sample, for display.
struct LayerInfo {
  std::string name, kind;
  Shape output;  // of one sample
  std::int64_t parameters = 0;
  double forwardFlops = 0;
  std::int64_t activationBytes = 0;
};

// In training, batch norm uses the statistics of the batch and updates the running ones; evaluation
// uses the running ones.
enum class Use : std::uint8_t { kTraining, kEvaluation };

// Builds the forward graph for `batch` samples, one of `parts` micro-batches, in dtype `compute`.
// Errors: kInvalidArgument naming the layer and what was expected; `why` is "layers[i].field".
Result<ir::ModelGraph> build(const Model& model, std::int64_t batch, DType compute, Use use,
                             int parts = 1);
Result<std::vector<LayerInfo>> describe(const Model& model);
std::span<const std::string_view> activations();

}  // namespace lockstep::models
