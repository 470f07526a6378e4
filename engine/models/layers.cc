// Builds each kind of layer.
#include <algorithm>
#include <array>
#include <cmath>

#include "engine/base/hash.h"
#include "engine/base/suggest.h"
#include "engine/models/builder.h"

namespace lockstep::models {
namespace {

using ir::Attrs;
using ir::Op;
using ir::ValueId;

constexpr std::array kActivations{Op::kRelu, Op::kGelu, Op::kTanh};

}  // namespace

std::span<const std::string_view> activations() {
  static const auto kNames = [] {
    std::array<std::string_view, kActivations.size()> names;
    std::transform(kActivations.begin(), kActivations.end(), names.begin(),
                   [](Op op) { return ir::info(op).name; });
    return names;
  }();
  return kNames;
}

Result<ValueId> Builder::addOps(const std::vector<ValueId>& in) {
  switch (layer().kind) {
    case Layer::Kind::kDense:
      return addDense(in[0]);
    case Layer::Kind::kConv2d:
      return addConv2d(in[0]);
    case Layer::Kind::kMaxPool2d:
      return addMaxPool2d(in[0]);
    case Layer::Kind::kFlatten:
      return addFlatten(in[0]);
    case Layer::Kind::kActivation:
      if (layer().activation.empty())
        return failKind("function", message("there is no function; expected {}",
                                            expectedOneOf("", activations())));
      return addActivation(in[0], "function");
    case Layer::Kind::kAdd: {
      LOCKSTEP_ASSIGN(const ValueId sum, addAdd(in[0], in[1]));
      return addActivation(sum, "activation");
    }
    case Layer::Kind::kEmbedding:
      return addEmbedding(in[0]);
    case Layer::Kind::kLayerNorm:
      LOCKSTEP_TRY(wantTokens(in[0]));
      return addNorm("", in[0]);
    case Layer::Kind::kTransformer:
      return addTransformer(in[0]);
    case Layer::Kind::kBatchNorm: {
      LOCKSTEP_ASSIGN(const ValueId y, addBatchNorm(in[0]));
      return addActivation(y, "activation");
    }
    case Layer::Kind::kGlobalAveragePool:
      LOCKSTEP_TRY(wantImage(shape(in[0])));
      return add(Op::kMeanPool2d, layer().name + ".mean-pool2d", {in[0]});
    case Layer::Kind::kConcat:
      for (std::size_t i = 0; i < in.size(); ++i)
        if (shape(in[i]).size() != 2)
          return failLayer(fmt::format("inputs[{}]", i),
                           message("it is {}, not flat; add a flatten layer before it",
                                   sampleText(shape(in[i]))));
      return add(Op::kConcat, layer().name + ".concat", in);
    case Layer::Kind::kDropout:
      return addDropout("", in[0]);
  }
  return invalidArgument("unknown kind");
}

Result<ValueId> Builder::addActivation(ValueId x, std::string_view field) {
  const std::string& function = layer().activation;
  if (function.empty()) return x;
  const auto it = std::find_if(kActivations.begin(), kActivations.end(),
                               [&](Op op) { return ir::info(op).name == function; });
  if (it == kActivations.end())
    return failKind(field, message("unknown activation {}; expected {}", function,
                                   expectedOneOf(function, activations())));
  return add(*it, layer().name + "." + function, {x});
}

Result<ValueId> Builder::addBias(ValueId x, std::int64_t fanIn) {
  if (!layer().bias) return x;
  LOCKSTEP_ASSIGN(const ValueId bias, addParameter("bias", {layer().units}, fanIn, layer().units));
  return add(Op::kBiasAdd, layer().name + ".bias-add", {x, bias});
}

Result<ValueId> Builder::addDense(ValueId x) {
  const Shape in = shape(x);
  if (in.size() != 2)
    return failKind(
        "", message("its input is {}, not flat; add a flatten layer before it", sampleText(in)));
  if (layer().units < 1)
    return failKind("units", message("units is {}; expected at least 1", layer().units));
  const std::int64_t inputs = in[1];
  if (!layer().tied.empty()) return addTied(x, inputs);
  LOCKSTEP_ASSIGN(const ValueId w,
                  addParameter("weight", {inputs, layer().units}, inputs, layer().units));
  LOCKSTEP_ASSIGN(ValueId y, add(Op::kMatmul, layer().name + ".matmul", {x, w}));
  LOCKSTEP_ASSIGN(y, addBias(y, inputs));
  return addActivation(y, "activation");
}

// The embedding table and this weight are one parameter.
Result<ValueId> Builder::addTied(ValueId x, std::int64_t inputs) {
  const ir::Node* table = out_.graph.find(layer().tied + ".weight");
  if (table == nullptr || shape(table->outputs[0]) != Shape{layer().units, inputs})
    return failKind("tied", message("{} is not an embedding of {} units with a vocabulary of {}",
                                    layer().tied, inputs, layer().units));
  if (!layer().activation.empty())
    return failKind("activation", "a tied layer has no activation; expected none");
  // Ranks that divide the table each have some of the logits, which only the loss takes so.
  if (tokens_ == 0 || index_ + 1 < model_.layers.size())
    for (ir::Parameter& parameter : out_.parameters)
      if (parameter.name == table->name) parameter.splitDim = -1;
  return add(Op::kMatmul, layer().name + ".matmul", {x, table->outputs[0]},
             {{"tb", std::int64_t{1}}});
}

// `part` names a part of the layer; "": the layer.
Result<ValueId> Builder::addDropout(const std::string& part, ValueId x) {
  const double rate = layer().dropout;
  if (!(rate >= 0 && rate < 1))
    return failKind(layer().kind == Layer::Kind::kDropout ? "rate" : "dropout",
                    message("the rate is {}; expected at least 0 and less than 1", rate));
  if (rate == 0 || use_ == Use::kEvaluation) return x;
  const std::string name = layer().name + part + ".dropout";
  LOCKSTEP_ASSIGN(const ValueId keys, dropoutKeys());
  return add(Op::kDropout, name, {x, keys},
             {{"rate", rate}, {"salt", static_cast<std::int64_t>(stableHash(name))}});
}

Status Builder::wantTokens(ValueId x) const {
  if (tokens_ == 0 || shape(x).size() != 2)
    return failKind("", "its input is no sequence of channels; expected an embedding before it");
  return {};
}

Result<ValueId> Builder::addEmbedding(ValueId ids) {
  const bool isTable = model_.columns > 0 && ids == values_["categories"];
  if (!isTable && (tokens_ == 0 || ids != values_["input"]))
    return failKind("",
                    "its input is neither text nor categories; expected \"input\", and "
                    "input.vocabulary set, or \"categories\", and input.columns set");
  if (layer().units < 1)
    return failKind("units", message("units is {}; expected at least 1", layer().units));
  const std::int64_t units = layer().units;
  if (isTable) return addTables(ids, units);
  LOCKSTEP_ASSIGN(const ValueId table, addParameter("weight", {model_.vocabulary, units},
                                                    model_.vocabulary, units, kGpt2));
  splitAlong(out_.parameters.size() - 1, 0, model_.vocabulary);
  out_.parameters.back().orWhole = true;
  LOCKSTEP_ASSIGN(const ValueId y, add(Op::kEmbedding, layer().name + ".embedding", {table, ids}));
  LOCKSTEP_ASSIGN(const ValueId positions,
                  addParameter("positions", {tokens_, units}, tokens_, units, kGpt2));
  return add(Op::kBiasAdd, layer().name + ".position-add", {y, positions});
}

// Concatenates the rows of a sample. Initial values are within ±1/√categories (Naumov et al.: "Deep
// Learning Recommendation Model for Personalization and Recommendation Systems", 2019).
Result<ValueId> Builder::addTables(ValueId ids, std::int64_t units) {
  const std::int64_t rows = model_.columns * model_.categories;
  LOCKSTEP_ASSIGN(const ValueId table,
                  addParameter("weight", {rows, units}, model_.categories, units));
  splitAlong(out_.parameters.size() - 1, 0, rows);
  LOCKSTEP_ASSIGN(const ValueId y, add(Op::kEmbedding, layer().name + ".embedding", {table, ids}));
  return add(Op::kReshape, layer().name + ".side-by-side", {y},
             {{"shape", Shape{out_.batch, model_.columns * units}}});
}

// "block1" + "norm1" → parameters "block1.norm1.gain" and ".bias".
Result<ValueId> Builder::addNorm(std::string part, ValueId x) {
  if (!part.empty()) part += '.';
  const std::int64_t channels = shape(x)[1];
  LOCKSTEP_ASSIGN(const ValueId gain, addParameter(part + "gain", {channels}, 1, 1, "ones"));
  LOCKSTEP_ASSIGN(const ValueId bias, addParameter(part + "bias", {channels}, 1, 1, "zeros"));
  return add(Op::kLayerNorm, fmt::format("{}.{}norm", layer().name, part), {x, gain, bias},
             {{"eps", 1e-5}});
}

Result<ValueId> Builder::addLinear(const std::string& part, ValueId x, std::int64_t units,
                                   const std::string& initializer, int splitDim,
                                   std::int64_t splitParts) {
  const std::int64_t channels = shape(x)[1];
  const std::string prefix = layer().name + "." + part;
  LOCKSTEP_ASSIGN(const ValueId w,
                  addParameter(part + ".weight", {channels, units}, channels, units, initializer));
  splitAlong(out_.parameters.size() - 1, splitDim, splitParts);
  LOCKSTEP_ASSIGN(const ValueId b, addParameter(part + ".bias", {units}, channels, units, "zeros"));
  if (splitDim == 1) splitAlong(out_.parameters.size() - 1, 0, splitParts);
  LOCKSTEP_ASSIGN(const ValueId y, add(Op::kMatmul, prefix + ".matmul", {x, w}));
  return add(Op::kBiasAdd, prefix + ".bias-add", {y, b});
}

namespace {
// Returns the greatest number up to `heads` that divides the channels in all blocks with `heads`.
Remedy otherHeads(const Model& model, std::int64_t heads, std::int64_t channels) {
  std::int64_t fewer = std::clamp<std::int64_t>(heads, 1, channels);
  while (channels % fewer != 0) --fewer;
  Remedy out;
  for (std::size_t i = 0; i < model.layers.size(); ++i)
    if (model.layers[i].kind == Layer::Kind::kTransformer && model.layers[i].heads == heads)
      out.push_back({fmt::format("layers[{}].transformer.heads", i), fmt::format("{}", fewer)});
  return out;
}
}  // namespace

// Radford et al., "Language models are unsupervised multitask learners", 2019: initial weights of
// projections into the residual stream are scaled by 1/√(2·blocks).
Result<ValueId> Builder::addTransformer(ValueId x) {
  LOCKSTEP_TRY(wantTokens(x));
  const Layer& l = layer();
  const std::int64_t channels = shape(x)[1];
  if (l.heads < 1 || channels % l.heads != 0)
    return withRemedies(
        failKind("heads",
                 message("heads is {}; expected a divisor of its {} channels", l.heads, channels)),
        {otherHeads(model_, l.heads, channels)});
  if (l.feedForward < 0)
    return withRemedies(
        failKind(
            "feed_forward",
            message("feed_forward is {}; expected at least 1, or 0 for four times its {} channels",
                    l.feedForward, channels)),
        {{{fmt::format("layers[{}].transformer.feed_forward", index_), "0"}}});
  const std::int64_t between = l.feedForward > 0 ? l.feedForward : 4 * channels;
  const auto blocks = std::count_if(model_.layers.begin(), model_.layers.end(), [](const Layer& o) {
    return o.kind == Layer::Kind::kTransformer;
  });
  const std::string smaller =
      fmt::format("normal:{:.6g}", 0.02 / std::sqrt(2 * static_cast<double>(blocks)));
  LOCKSTEP_ASSIGN(ValueId h, addNorm("norm1", x));
  LOCKSTEP_ASSIGN(h, addLinear("qkv", h, 3 * channels, kGpt2, 1, l.heads));
  LOCKSTEP_ASSIGN(
      h,
      add(Op::kAttention, l.name + ".attention", {h},
          {{"tokens", tokens_}, {"head", channels / l.heads}, {"causal", std::int64_t{l.causal}}}));
  LOCKSTEP_ASSIGN(h, addLinear("proj", h, channels, smaller, 0, l.heads));
  LOCKSTEP_ASSIGN(h, addDropout(".proj", h));
  LOCKSTEP_ASSIGN(x, add(Op::kAdd, l.name + ".add1", {x, h}));
  LOCKSTEP_ASSIGN(h, addNorm("norm2", x));
  LOCKSTEP_ASSIGN(h, addLinear("up", h, between, kGpt2, 1, between));
  LOCKSTEP_ASSIGN(h, add(Op::kGelu, l.name + ".gelu", {h}));
  LOCKSTEP_ASSIGN(h, addLinear("down", h, channels, smaller, 0, between));
  LOCKSTEP_ASSIGN(h, addDropout(".down", h));
  return add(Op::kAdd, l.name + ".add2", {x, h});
}

Status Builder::wantImage(const Shape& in) const {
  if (in.size() != 4)
    return failKind("", message("its input is {}; expected an image, height x width x channels",
                                sampleText(in)));
  return {};
}

Result<ValueId> Builder::addConv2d(ValueId x) {
  const Shape in = shape(x);
  const Layer& l = layer();
  LOCKSTEP_TRY(wantImage(in));
  if (l.units < 1)
    return failKind("filters", message("filters is {}; expected at least 1", l.units));
  if (l.kernel < 1)
    return failKind("kernel", message("kernel is {}; expected at least 1", l.kernel));
  if (l.stride < 1)
    return failKind("stride", message("stride is {}; expected at least 1", l.stride));
  if (l.same && l.kernel % 2 == 0)
    return failKind("kernel",
                    message("kernel is {} with padding same; expected an odd number", l.kernel));
  if (!l.same && l.kernel > std::min(in[1], in[2]))
    return failKind("kernel",
                    message("kernel is {} but its input is {}; expected at most {}, or padding "
                            "same",
                            l.kernel, sampleText(in), std::min(in[1], in[2])));
  if (l.kernel > ir::kMaxCount) return failKind("kernel", "kernel is too large");
  const Shape weights{l.kernel, l.kernel, in[3], l.units};
  if (Status status = ir::checkShape(weights); !status.ok())
    return failKind("kernel", message("its weights [{}] are too large", shapeText(weights)));
  const std::int64_t window = l.kernel * l.kernel;
  LOCKSTEP_ASSIGN(const ValueId w,
                  addParameter("weight", weights, window * in[3], window * l.units));
  LOCKSTEP_ASSIGN(ValueId y, add(Op::kConv2d, l.name + ".conv2d", {x, w},
                                 {{"stride", l.stride}, {"pad", l.same ? (l.kernel - 1) / 2 : 0}}));
  LOCKSTEP_ASSIGN(y, addBias(y, window * in[3]));
  return addActivation(y, "activation");
}

Result<ValueId> Builder::addMaxPool2d(ValueId x) {
  const Shape in = shape(x);
  const Layer& l = layer();
  LOCKSTEP_TRY(wantImage(in));
  if (l.kernel < 1 || l.kernel > std::min(in[1], in[2]))
    return failKind("size", message("size is {} but its input is {}; expected 1 to {}", l.kernel,
                                    sampleText(in), std::min(in[1], in[2])));
  if (l.stride < 1)
    return failKind("stride", message("stride is {}; expected at least 1", l.stride));
  return add(Op::kMaxPool2d, l.name + ".max-pool2d", {x},
             {{"size", l.kernel}, {"stride", l.stride}});
}

Result<ValueId> Builder::addFlatten(ValueId x) {
  const Shape in = shape(x);
  return add(Op::kReshape, layer().name + ".flatten", {x},
             {{"shape", Shape{in[0], elementCount(in) / in[0]}}});
}

Result<ValueId> Builder::addBatchNorm(ValueId x) {
  const Layer& l = layer();
  const std::int64_t batch = out_.batch, channels = shape(x).back();
  if (tokens_ > 0)
    return failKind("",
                    "its input is text; expected a layer_norm instead, whose statistics are a "
                    "token's own");
  if (!(l.momentum > 0 && l.momentum < 1))
    return failKind("momentum",
                    message("momentum is {}; expected more than 0 and less than 1", l.momentum));
  if (!(l.epsilon > 0))
    return failKind("epsilon", message("epsilon is {}; expected more than 0", l.epsilon));
  if (l.groups < 1)
    return failKind("groups", message("groups is {}; expected at least 1", l.groups));
  LOCKSTEP_ASSIGN(const ValueId gain, addParameter("gain", {channels}, 1, 1, "ones"));
  LOCKSTEP_ASSIGN(const ValueId bias, addParameter("bias", {channels}, 1, 1, "zeros"));
  LOCKSTEP_ASSIGN(const ValueId mean, addStatistic("mean", channels, "zeros"));
  LOCKSTEP_ASSIGN(const ValueId variance, addStatistic("variance", channels, "ones"));
  const std::string& name = l.name;
  const Attrs epsilon{{"eps", l.epsilon}};
  if (use_ == Use::kEvaluation) {
    const Attrs row{{"shape", Shape{1, channels}}};
    LOCKSTEP_ASSIGN(const ValueId means, add(Op::kReshape, name + ".means", {mean}, row));
    LOCKSTEP_ASSIGN(const ValueId variances,
                    add(Op::kReshape, name + ".variances", {variance}, row));
    return add(Op::kBatchNorm, name + ".batch-norm", {x, gain, bias, means, variances}, epsilon);
  }
  if (l.groups % parts_ != 0)
    return failKind("groups",
                    message("groups is {}; each of {} micro-batches has statistics of its own: "
                            "expected {}, or another multiple of {}",
                            l.groups, parts_, parts_, parts_));
  const std::int64_t groups = l.groups / parts_;
  if (batch % groups != 0)
    return failKind("groups", message("groups is {}; expected a divisor of the batch, {}", l.groups,
                                      batch * parts_));
  LOCKSTEP_ASSIGN(const ValueId w, sampleWeights());
  LOCKSTEP_ASSIGN(const ValueId moments, add(Op::kBatchMoments, name + ".moments", {x, w, mean},
                                             {{"shape", Shape{groups, 1 + 2 * channels}}}));
  LOCKSTEP_ASSIGN(const ir::NodeId statistics,
                  out_.graph.add(Op::kBatchStatistics, name + ".statistics", {moments, mean}));
  const auto statistic = [&](int i) { return out_.graph.output(statistics, i); };
  LOCKSTEP_ASSIGN(const ValueId y,
                  add(Op::kBatchNorm, name + ".batch-norm",
                      {x, gain, bias, statistic(0), statistic(1), w, moments}, epsilon));
  LOCKSTEP_ASSIGN(const ir::NodeId running,
                  out_.graph.add(Op::kRunningStatistics, name + ".running",
                                 {mean, variance, statistic(2)}, {{"momentum", l.momentum}}));
  for (int i = 0; i < 2; ++i) {
    const std::string& state =
        out_.statistics[out_.statistics.size() - 2 + static_cast<std::size_t>(i)].name;
    LOCKSTEP_TRY(
        out_.graph
            .add(Op::kStore, state + ".store", {out_.graph.output(running, i)}, {{"state", state}})
            .status());
  }
  return y;
}

Result<ValueId> Builder::addAdd(ValueId a, ValueId b) {
  if (shape(a) != shape(b))
    return failLayer("inputs", message("its inputs are {} and {}; expected equal shapes",
                                       sampleText(shape(a)), sampleText(shape(b))));
  return add(Op::kAdd, layer().name + ".add", {a, b});
}

}  // namespace lockstep::models
