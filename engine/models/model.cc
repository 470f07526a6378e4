#include "engine/models/model.h"

#include <algorithm>
#include <limits>

#include "engine/base/suggest.h"
#include "engine/models/builder.h"

namespace lockstep::models {
namespace {

using ir::Attrs;
using ir::Op;
using ir::Phase;
using ir::ValueId;

// The error of AUC is at most half the fraction of pairs with scores in one bin.
constexpr std::int64_t kScoreBins = 1024;

std::string_view kindName(Layer::Kind kind) {
  switch (kind) {
    case Layer::Kind::kDense:
      return "dense";
    case Layer::Kind::kConv2d:
      return "conv2d";
    case Layer::Kind::kMaxPool2d:
      return "max_pool2d";
    case Layer::Kind::kFlatten:
      return "flatten";
    case Layer::Kind::kActivation:
      return "activation";
    case Layer::Kind::kAdd:
      return "add";
    case Layer::Kind::kEmbedding:
      return "embedding";
    case Layer::Kind::kLayerNorm:
      return "layer_norm";
    case Layer::Kind::kTransformer:
      return "transformer";
    case Layer::Kind::kBatchNorm:
      return "batch_norm";
    case Layer::Kind::kGlobalAveragePool:
      return "global_average_pool";
    case Layer::Kind::kConcat:
      return "concat";
    case Layer::Kind::kDropout:
      return "dropout";
  }
  return "";
}

}  // namespace

std::string sampleText(const Shape& batched) {
  return shapeText(Shape(batched.begin() + 1, batched.end()));
}

Result<ir::ModelGraph> Builder::build() {
  LOCKSTEP_TRY(addInput());
  if (model_.layers.empty()) return fail("layers", "there are no layers; expected at least one");
  for (index_ = 0; index_ < model_.layers.size(); ++index_) {
    out_.layers.push_back({layer().name, static_cast<ir::NodeId>(out_.graph.nodes().size())});
    LOCKSTEP_TRY(addLayer());
  }
  LOCKSTEP_TRY(checkUses());
  splitDensePairs();
  LOCKSTEP_TRY(addLoss());
  return std::move(out_);
}

Error Builder::fail(std::string path, Message what) {
  Error error = invalidArgument("{}", what);
  error.field = std::move(path);
  return error;
}

Error Builder::failLayer(std::string_view field, Message what) const {
  return fail(fmt::format("layers[{}].{}", index_, field),
              message("layer {}: {}", layer().name, what));
}

Error Builder::failKind(std::string_view field, Message what) const {
  return failLayer(field.empty() ? std::string(kindName(layer().kind))
                                 : fmt::format("{}.{}", kindName(layer().kind), field),
                   std::move(what));
}

Result<ValueId> Builder::add(Op op, std::string name, std::vector<ValueId> inputs, Attrs attrs,
                             Phase phase) {
  LOCKSTEP_ASSIGN(const ir::NodeId id,
                  out_.graph.add(op, std::move(name), std::move(inputs), std::move(attrs), phase));
  return out_.graph.output(id);
}

Result<ValueId> Builder::addParameter(std::string_view suffix, Shape shape, std::int64_t fanIn,
                                      std::int64_t fanOut, std::string initializer) {
  const std::string name = fmt::format("{}.{}", layer().name, suffix);
  if (Status status = ir::checkShape(shape); !status.ok())
    return failKind("", message("its parameters [{}] are too large", shapeText(shape)));
  LOCKSTEP_ASSIGN(
      const ValueId value,
      add(Op::kState, name, {}, {{"state", name}, {"dtype", dtype()}, {"shape", shape}}));
  info().parameters += elementCount(shape);
  out_.parameters.push_back({name, std::move(shape), std::move(initializer), fanIn, fanOut});
  return value;
}

Result<ValueId> Builder::addStatistic(std::string_view suffix, std::int64_t channels,
                                      std::string initializer) {
  const std::string name = fmt::format("{}.{}", layer().name, suffix);
  const Shape shape{channels};
  out_.statistics.push_back({name, shape, std::move(initializer), 0, 0});
  return add(Op::kState, name, {}, {{"state", name}, {"dtype", dtype()}, {"shape", shape}});
}

void Builder::splitAlong(std::size_t parameter, int dim, std::int64_t parts) {
  out_.parameters[parameter].splitDim = dim;
  out_.parameters[parameter].splitParts = parts;
}

Status Builder::addInput() {
  if (model_.vocabulary > 0) return addTokens();
  Shape shape = model_.input;
  if (shape.empty())
    return fail("input.shape",
                "the input has no shape; expected that of one "
                "sample, such as [28, 28, 1]");
  if (out_.batch < 1) return invalidArgument("the batch is {}, expected at least 1", out_.batch);
  for (std::int64_t extent : shape)
    if (extent < 1)
      return fail("input.shape", message("the input has extent {}; expected at least 1", extent));
  shape.insert(shape.begin(), out_.batch);
  if (Status status = ir::checkShape(shape); !status.ok())
    return fail("input.shape", status.error().what);
  LOCKSTEP_ASSIGN(
      ValueId x,
      add(Op::kInput, "x", {},
          {{"name", "x"}, {"dtype", std::string(dtypeName(model_.inputDtype))}, {"shape", shape}},
          Phase::kData));
  if (model_.inputDtype != out_.compute || model_.inputScale != 1) {
    LOCKSTEP_ASSIGN(x, add(Op::kCast, "x.cast", {x},
                           {{"dtype", dtype()}, {"scale", model_.inputScale}}, Phase::kData));
  }
  values_["input"] = x;
  last_ = x;
  return model_.columns > 0 ? addCategories() : Status();
}

// Adds the row ids into one table that concatenates the tables of all columns.
Status Builder::addCategories() {
  if (model_.categories < 1)
    return fail("input.categories", message("categories is {}; expected at least 1, the number "
                                            "of categories of a column",
                                            model_.categories));
  if (model_.categories > std::numeric_limits<std::int32_t>::max() / model_.columns)
    return fail(
        "input.categories",
        message("{} columns of {} categories are too many; expected at most {}", model_.columns,
                model_.categories, std::numeric_limits<std::int32_t>::max() / model_.columns));
  LOCKSTEP_ASSIGN(
      const ValueId ids,
      add(Op::kInput, "categories", {},
          {{"name", "categories"}, {"dtype", "i32"}, {"shape", Shape{out_.batch, model_.columns}}},
          Phase::kData));
  LOCKSTEP_ASSIGN(values_["categories"],
                  add(Op::kReshape, "categories.ids", {ids},
                      {{"shape", Shape{out_.batch * model_.columns}}}, Phase::kData));
  return {};
}

// Adds the token ids; the tokens of a sample are consecutive rows.
Status Builder::addTokens() {
  if (model_.input.size() != 1 || model_.input[0] < 1)
    return fail("input.shape", message("the input is [{}]; expected one number of tokens, such "
                                       "as [64]",
                                       shapeText(model_.input)));
  if (out_.batch < 1) return invalidArgument("the batch is {}, expected at least 1", out_.batch);
  tokens_ = model_.input[0];
  LOCKSTEP_ASSIGN(
      const ValueId x,
      add(Op::kInput, "x", {},
          {{"name", "x"}, {"dtype", "i32"}, {"shape", Shape{out_.batch, tokens_}}}, Phase::kData));
  LOCKSTEP_ASSIGN(last_, add(Op::kReshape, "x.ids", {x}, {{"shape", Shape{out_.batch * tokens_}}},
                             Phase::kData));
  values_["input"] = last_;
  return {};
}

// Returns the dropout key of each sample and step.
Result<ValueId> Builder::dropoutKeys() {
  if (dropoutKeys_ < 0) {
    LOCKSTEP_ASSIGN(
        dropoutKeys_,
        add(Op::kInput, "dropout", {},
            {{"name", "dropout"}, {"dtype", "i32"}, {"shape", Shape{out_.batch}}}, Phase::kData));
  }
  return dropoutKeys_;
}

// Returns w of each sample.
Result<ValueId> Builder::sampleWeights() {
  if (weight_ < 0) {
    LOCKSTEP_ASSIGN(
        weight_,
        add(Op::kInput, "weight", {},
            {{"name", "weight"}, {"dtype", dtype()}, {"shape", Shape{out_.batch}}}, Phase::kData));
  }
  return weight_;
}

Result<std::vector<ValueId>> Builder::inputs() {
  if (layer().inputs.empty()) {
    if (index_ > 0) used_.insert(model_.layers[index_ - 1].name);
    return std::vector<ValueId>{last_};
  }
  std::vector<ValueId> found;
  for (std::size_t i = 0; i < layer().inputs.size(); ++i) {
    const std::string& name = layer().inputs[i];
    const auto it = values_.find(name);
    if (it == values_.end()) {
      std::vector<std::string_view> known;
      for (const auto& entry : values_) known.push_back(entry.first);
      const std::string near = nearest(name, known);
      return failLayer(
          fmt::format("inputs[{}]", i),
          message("there is no layer {} before it; expected \"input\" or the name "
                  "of a layer above{}",
                  name, near.empty() ? Message() : message("; did you mean {}?", near)));
    }
    used_.insert(name);
    found.push_back(it->second);
  }
  return found;
}

Status Builder::addLayer() {
  const Layer& current = layer();
  if (!ir::isName(current.name))
    return failLayer("name", "not a name; expected letters, digits and _./+-");
  if (values_.contains(current.name))
    return failLayer("name",
                     "another layer or the input has this name; expected a name of its own");
  LOCKSTEP_ASSIGN(const std::vector<ValueId> in, inputs());
  const std::size_t expected = current.kind == Layer::Kind::kAdd ? 2 : 1;
  if (in.size() != expected && current.kind != Layer::Kind::kConcat)
    return failLayer(
        "inputs", expected == 1
                      ? message("{} takes one input, not {}", kindName(current.kind), in.size())
                      : message("{} takes two inputs, not {}", kindName(current.kind), in.size()));
  layers_.push_back({current.name, std::string(kindName(current.kind)), {}, 0, 0, 0});
  for (std::size_t i = 0; i < in.size() && current.kind != Layer::Kind::kEmbedding; ++i) {
    if (out_.graph.value(in[i]).type.dtype != DType::kI32) continue;
    const Message ids =
        message("its input is ids of tokens or categories; expected an embedding before it");
    return current.inputs.empty() ? failKind("", ids)
                                  : failLayer(fmt::format("inputs[{}]", i), ids);
  }
  const std::size_t firstNode = out_.graph.nodes().size();
  Result<ValueId> value = addOps(in);
  if (!value.ok()) {
    Error error = value.error();
    return error.field.empty() ? failKind("", error.what) : error;
  }
  values_[current.name] = last_ = *value;

  const Shape result = shape(last_);
  info().output.assign(result.begin() + 1, result.end());
  if (tokens_ > 0) info().output.insert(info().output.begin(), tokens_);
  info().activationBytes = out_.graph.value(last_).type.bytes() / out_.batch;
  for (std::size_t i = firstNode; i < out_.graph.nodes().size(); ++i)
    info().forwardFlops += flops(out_.graph.nodes()[i]) / static_cast<double>(out_.batch);
  return {};
}

double Builder::flops(const ir::Node& node) const {
  std::vector<ir::TensorType> inputTypes, outputTypes;
  for (ValueId id : node.inputs) inputTypes.push_back(out_.graph.value(id).type);
  for (ValueId id : node.outputs) outputTypes.push_back(out_.graph.value(id).type);
  return ir::info(node.op).cost(node, inputTypes, outputTypes).flops;
}

Status Builder::checkUses() {
  for (index_ = 0; index_ + 1 < model_.layers.size(); ++index_)
    if (!used_.contains(layer().name))
      return failLayer("name",
                       "no later layer takes its output; expected it among the inputs of "
                       "one, or the layer left out");
  index_ = model_.layers.size() - 1;
  return {};
}

// Splits two consecutive dense layers, with nothing but dropout in between, by columns and by rows,
// so that only the output of the second is reduced (Shoeybi et al.: "Megatron-LM", 2019).
void Builder::splitDensePairs() {
  std::set<std::string_view> shared;  // layers whose weights others have too
  for (const Layer& l : model_.layers) shared.insert(l.tied);
  const auto plainDense = [&](std::size_t i) {
    return i < model_.layers.size() && model_.layers[i].kind == Layer::Kind::kDense &&
           model_.layers[i].tied.empty() && !shared.contains(model_.layers[i].name);
  };
  const auto uses = [&](const std::string& name) {
    std::size_t count = 0;
    for (const Layer& l : model_.layers)
      count += static_cast<std::size_t>(std::count(l.inputs.begin(), l.inputs.end(), name));
    return count;
  };
  const auto parameter = [&](std::size_t i, std::string_view suffix) {
    const std::string name = fmt::format("{}.{}", model_.layers[i].name, suffix);
    const auto at = std::find_if(out_.parameters.begin(), out_.parameters.end(),
                                 [&](const ir::Parameter& p) { return p.name == name; });
    return static_cast<std::size_t>(at - out_.parameters.begin());
  };
  // Returns whether layer i + 1 is the only reader of layer i.
  const auto follows = [&](std::size_t i) {
    const Layer &one = model_.layers[i], &next = model_.layers[i + 1];
    return next.inputs.empty() ? uses(one.name) == 0
                               : next.inputs == std::vector{one.name} && uses(one.name) == 1;
  };
  for (std::size_t i = 0; i + 1 < model_.layers.size(); ++i) {
    if (!plainDense(i)) continue;
    const Layer& one = model_.layers[i];
    std::size_t second = i + 1;
    bool alone = follows(i);
    while (alone && model_.layers[second].kind == Layer::Kind::kDropout &&
           second + 1 < model_.layers.size())
      alone = follows(second++);
    if (!alone || !plainDense(second)) continue;
    splitAlong(parameter(i, "weight"), 1, one.units);
    if (one.bias) splitAlong(parameter(i, "bias"), 0, one.units);
    splitAlong(parameter(second, "weight"), 0, one.units);
    i = second;
  }
}

Status Builder::addLoss() {
  const Shape y = shape(last_);
  LOCKSTEP_ASSIGN(ValueId weight, sampleWeights());
  if (y.size() != 2)
    return failKind("", message("the last layer gives {}, not flat; expected a flatten or dense "
                                "layer at the end",
                                sampleText(y)));
  // The tokens of a sample have the sample's weight.
  if (tokens_ > 0) {
    LOCKSTEP_ASSIGN(weight, add(Op::kRepeatRows, "weight.tokens", {weight}, {{"times", tokens_}},
                                Phase::kData));
  }
  if (model_.loss == "cross-entropy") {
    LOCKSTEP_TRY(addCrossEntropy(weight));
  } else if (model_.loss == "mse") {
    LOCKSTEP_ASSIGN(const ValueId target, addTarget(y, "f32"));
    LOCKSTEP_ASSIGN(out_.loss, add(Op::kMseLoss, "loss", {last_, target, weight}));
  } else if (model_.loss == "binary-cross-entropy") {
    if (y[1] != 1)
      return failKind("units", message("the last layer gives {} values a sample; expected 1, the "
                                       "logit of the label 1",
                                       y[1]));
    LOCKSTEP_ASSIGN(const ValueId target, addTarget(y, "i32"));
    LOCKSTEP_ASSIGN(out_.loss, add(Op::kBinaryXent, "loss", {last_, target, weight}));
    out_.metric = "auc";
    LOCKSTEP_ASSIGN(out_.metricSums, add(Op::kScoreHistogram, "scores", {last_, target, weight},
                                         {{"bins", kScoreBins}}));
  } else {
    const std::string_view known[] = {"cross-entropy", "binary-cross-entropy", "mse"};
    return fail("loss", message("unknown loss {}; expected {}", model_.loss,
                                expectedOneOf(model_.loss, known)));
  }
  LOCKSTEP_ASSIGN(out_.weight, add(Op::kSumAll, "weight.sum", {weight}));
  return {};
}

// Adds numeric labels of the model output's shape.
Result<ValueId> Builder::addTarget(const Shape& shape, const std::string& given) {
  const Shape labels = given == "i32" ? Shape{shape[0]} : shape;
  LOCKSTEP_ASSIGN(ValueId target,
                  add(Op::kInput, "label", {},
                      {{"name", "label"}, {"dtype", given}, {"shape", labels}}, Phase::kData));
  if (given != dtype()) {
    LOCKSTEP_ASSIGN(target, add(Op::kCast, "label.cast", {target},
                                {{"dtype", dtype()}, {"scale", 1.0}}, Phase::kData));
  }
  if (labels == shape) return target;
  return add(Op::kReshape, "label.column", {target}, {{"shape", shape}}, Phase::kData);
}

Status Builder::addCrossEntropy(ValueId weight) {
  const Shape y = shape(last_);
  if (model_.classes < 2)
    return fail("classes", message("classes is {}; expected at least 2", model_.classes));
  if (model_.classes < model_.vocabulary)
    return fail("classes", message("classes is {}; expected at least {}, the vocabulary: the label "
                                   "of a token is the next one",
                                   model_.classes, model_.vocabulary));
  if (y[1] != model_.classes) {
    Error error = failKind(layer().kind == Layer::Kind::kDense ? "units" : "",
                           message("the last layer gives {} values a sample; expected {}, the "
                                   "number of classes",
                                   y[1], model_.classes));
    return error;
  }
  const Shape labels = tokens_ > 0 ? Shape{out_.batch, tokens_} : Shape{out_.batch};
  LOCKSTEP_ASSIGN(ValueId label,
                  add(Op::kInput, "label", {},
                      {{"name", "label"}, {"dtype", "i32"}, {"shape", labels}}, Phase::kData));
  if (tokens_ > 0) {
    LOCKSTEP_ASSIGN(label, add(Op::kReshape, "label.ids", {label},
                               {{"shape", Shape{out_.batch * tokens_}}}, Phase::kData));
  }
  LOCKSTEP_ASSIGN(out_.loss, add(Op::kSoftmaxXent, "loss", {last_, label, weight}));
  if (tokens_ > 0) {
    out_.metric = "perplexity";
    out_.metricSums = out_.loss;
    return {};
  }
  out_.metric = "accuracy";
  LOCKSTEP_ASSIGN(out_.metricSums, add(Op::kCountCorrect, "correct", {last_, label, weight}));
  return {};
}

Result<ir::ModelGraph> build(const Model& model, std::int64_t batch, DType compute, Use use,
                             int parts) {
  if (compute != DType::kF32 && compute != DType::kF64)
    return invalidArgument("models compute in f32 or f64, not {}", dtypeName(compute));
  return Builder(model, batch, compute, use, parts).build();
}

Result<std::vector<LayerInfo>> describe(const Model& model) {
  Builder builder(model, 1, DType::kF32, Use::kEvaluation);
  LOCKSTEP_TRY(builder.build().status());
  return builder.takeLayers();
}

}  // namespace lockstep::models
