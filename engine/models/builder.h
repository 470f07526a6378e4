// Builder: builds the forward graph of a model, layer by layer. layers.cc builds the layers,
// model.cc everything else.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/ir/ops.h"
#include "engine/models/model.h"

namespace lockstep::models {

inline constexpr const char* kGpt2 = "normal:0.02";  // initial weights as in GPT-2

std::string sampleText(const Shape& batched);  // "28x28x1"

class Builder {
 public:
  Builder(const Model& model, std::int64_t batch, DType compute, Use use, int parts = 1)
      : model_(model), use_(use), parts_(parts) {
    out_.graph = ir::Graph(model.name.empty() ? "model" : model.name);
    out_.batch = batch;
    out_.compute = compute;
  }
  Result<ir::ModelGraph> build();
  // One entry for each layer; call after build().
  std::vector<LayerInfo> takeLayers() { return std::move(layers_); }

 private:
  using ValueId = ir::ValueId;

  // Errors name the field: "layers[2].dense.units".
  static Error fail(std::string path, Message what);
  Error failLayer(std::string_view field, Message what) const;
  Error failKind(std::string_view field, Message what) const;

  const Layer& layer() const { return model_.layers[index_]; }
  LayerInfo& info() { return layers_.back(); }
  std::string dtype() const { return std::string(dtypeName(out_.compute)); }
  Shape shape(ValueId value) const { return out_.graph.value(value).type.shape; }
  double flops(const ir::Node& node) const;

  Result<ValueId> add(ir::Op op, std::string name, std::vector<ValueId> inputs,
                      ir::Attrs attrs = {}, ir::Phase phase = ir::Phase::kForward);
  Result<ValueId> addParameter(std::string_view suffix, Shape shape, std::int64_t fanIn,
                               std::int64_t fanOut, std::string initializer = "torch-uniform");
  // Adds a running statistic of the current layer.
  Result<ValueId> addStatistic(std::string_view suffix, std::int64_t channels,
                               std::string initializer);
  void splitAlong(std::size_t parameter, int dim, std::int64_t parts);

  // Inputs, connections and losses.
  Status addInput();
  Status addCategories();
  Status addTokens();
  Result<ValueId> dropoutKeys();
  Result<ValueId> sampleWeights();
  Result<std::vector<ValueId>> inputs();
  Status addLayer();
  Status checkUses();
  void splitDensePairs();
  Status addLoss();
  Result<ValueId> addTarget(const Shape& shape, const std::string& given);
  Status addCrossEntropy(ValueId weight);

  // The layers.
  Result<ValueId> addOps(const std::vector<ValueId>& in);
  Result<ValueId> addActivation(ValueId x, std::string_view field);
  Result<ValueId> addBias(ValueId x, std::int64_t fanIn);
  Result<ValueId> addDense(ValueId x);
  Result<ValueId> addTied(ValueId x, std::int64_t inputs);
  Result<ValueId> addDropout(const std::string& part, ValueId x);
  Status wantTokens(ValueId x) const;
  Result<ValueId> addEmbedding(ValueId ids);
  Result<ValueId> addTables(ValueId ids, std::int64_t units);
  Result<ValueId> addNorm(std::string part, ValueId x);
  // Tensor parallelism splits dimension `splitDim` of the weight, and the bias where that is 1.
  Result<ValueId> addLinear(const std::string& part, ValueId x, std::int64_t units,
                            const std::string& initializer, int splitDim, std::int64_t splitParts);
  Result<ValueId> addTransformer(ValueId x);
  Status wantImage(const Shape& in) const;
  Result<ValueId> addConv2d(ValueId x);
  Result<ValueId> addMaxPool2d(ValueId x);
  Result<ValueId> addFlatten(ValueId x);
  Result<ValueId> addBatchNorm(ValueId x);
  Result<ValueId> addAdd(ValueId a, ValueId b);

  const Model& model_;
  const Use use_;
  const int parts_;  // number of micro-batches; the batch is one of them
  ValueId weight_ = -1, dropoutKeys_ = -1;
  std::int64_t tokens_ = 0;  // tokens of a text sample; 0: no text
  ir::ModelGraph out_;
  std::size_t index_ = 0;  // of the current layer
  ValueId last_ = -1;
  std::map<std::string, ValueId, std::less<>> values_;
  std::set<std::string> used_;
  std::vector<LayerInfo> layers_;
};

}  // namespace lockstep::models
