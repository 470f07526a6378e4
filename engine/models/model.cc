#include "engine/models/model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "engine/base/hash.h"
#include "engine/base/suggest.h"
#include "engine/ir/ops.h"

namespace lockstep::models {
namespace {

using ir::Attrs;
using ir::Op;
using ir::Phase;
using ir::ValueId;

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

std::string sampleText(const Shape& batched) {
  return shapeText(Shape(batched.begin() + 1, batched.end()));
}

class Builder {
 public:
  Builder(const Model& model, std::int64_t batch, DType compute, Use use)
      : model_(model), use_(use) {
    out_.graph = ir::Graph(model.name.empty() ? "model" : model.name);
    out_.batch = batch;
    out_.compute = compute;
  }

  Result<ir::ModelGraph> build() {
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

  // Per layer, after build().
  std::vector<LayerInfo> takeLayers() { return std::move(layers_); }

 private:
  static Error fail(std::string path, std::string what) {
    Error error = invalidArgument("{}", what);
    error.why = std::move(path);
    return error;
  }
  const Layer& layer() const { return model_.layers[index_]; }
  Error failLayer(std::string_view field, std::string what) const {
    return fail(fmt::format("layers[{}].{}", index_, field),
                fmt::format("layer {}: {}", layer().name, what));
  }
  Error failKind(std::string_view field, std::string what) const {
    return failLayer(field.empty() ? std::string(kindName(layer().kind))
                                   : fmt::format("{}.{}", kindName(layer().kind), field),
                     std::move(what));
  }

  Result<ValueId> add(Op op, std::string name, std::vector<ValueId> inputs, Attrs attrs = {},
                      Phase phase = Phase::kForward) {
    LOCKSTEP_ASSIGN(const ir::NodeId id, out_.graph.add(op, std::move(name), std::move(inputs),
                                                        std::move(attrs), phase));
    return out_.graph.output(id);
  }
  std::string dtype() const { return std::string(dtypeName(out_.compute)); }
  Shape shape(ValueId value) const { return out_.graph.value(value).type.shape; }

  Result<ValueId> addParameter(std::string_view suffix, Shape shape, std::int64_t fanIn,
                               std::int64_t fanOut, std::string initializer = "torch-uniform") {
    const std::string name = fmt::format("{}.{}", layer().name, suffix);
    if (Status status = ir::checkShape(shape); !status.ok())
      return failKind("", fmt::format("its parameters [{}] are too large", shapeText(shape)));
    LOCKSTEP_ASSIGN(
        const ValueId value,
        add(Op::kState, name, {}, {{"state", name}, {"dtype", dtype()}, {"shape", shape}}));
    info().parameters += elementCount(shape);
    out_.parameters.push_back(
        {name, std::move(shape), std::move(initializer), fanIn, fanOut});
    return value;
  }

  // A running statistic of the layer under construction.
  Result<ValueId> addStatistic(std::string_view suffix, std::int64_t channels,
                               std::string initializer) {
    const std::string name = fmt::format("{}.{}", layer().name, suffix);
    const Shape shape{channels};
    out_.statistics.push_back({name, shape, std::move(initializer), 0, 0});
    return add(Op::kState, name, {}, {{"state", name}, {"dtype", dtype()}, {"shape", shape}});
  }

  LayerInfo& info() { return layers_.back(); }

  Status addInput() {
    if (model_.vocabulary > 0) return addTokens();
    Shape shape = model_.input;
    if (shape.empty())
      return fail("input.shape",
                  "the input has no shape; expected that of one "
                  "sample, such as [28, 28, 1]");
    if (out_.batch < 1) return invalidArgument("the batch is {}, expected at least 1", out_.batch);
    for (std::int64_t extent : shape)
      if (extent < 1)
        return fail("input.shape",
                    fmt::format("the input has extent {}; expected at least 1", extent));
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

  // Ids of the rows of one table that has all columns' tables one after another.
  Status addCategories() {
    if (model_.categories < 1)
      return fail("input.categories", fmt::format("categories is {}; expected at least 1, the number "
                                                  "of categories of a column", model_.categories));
    if (model_.categories > std::numeric_limits<std::int32_t>::max() / model_.columns)
      return fail("input.categories",
                  fmt::format("{} columns of {} categories are too many; expected at most {}",
                              model_.columns, model_.categories,
                              std::numeric_limits<std::int32_t>::max() / model_.columns));
    LOCKSTEP_ASSIGN(const ValueId ids,
                    add(Op::kInput, "categories", {},
                        {{"name", "categories"}, {"dtype", "i32"},
                         {"shape", Shape{out_.batch, model_.columns}}},
                        Phase::kData));
    LOCKSTEP_ASSIGN(values_["categories"],
                    add(Op::kReshape, "categories.ids", {ids},
                        {{"shape", Shape{out_.batch * model_.columns}}}, Phase::kData));
    return {};
  }

  // A random number for each sample and step, from which masks are made.
  Result<ValueId> dropoutKeys() {
    if (dropoutKeys_ < 0) {
      LOCKSTEP_ASSIGN(dropoutKeys_, add(Op::kInput, "dropout", {},
                                        {{"name", "dropout"}, {"dtype", "i32"}, {"shape", Shape{out_.batch}}},
                                        Phase::kData));
    }
    return dropoutKeys_;
  }

  // `part` of the layer, or the whole of it.
  Result<ValueId> addDropout(const std::string& part, ValueId x) {
    const double rate = layer().dropout;
    if (!(rate >= 0 && rate < 1))
      return failKind(layer().kind == Layer::Kind::kDropout ? "rate" : "dropout",
                      fmt::format("the rate is {}; expected from 0 to less than 1", rate));
    if (rate == 0 || use_ == Use::kEvaluation) return x;
    const std::string name = layer().name + part + ".dropout";
    LOCKSTEP_ASSIGN(const ValueId keys, dropoutKeys());
    return add(Op::kDropout, name, {x, keys},
               {{"rate", rate}, {"salt", static_cast<std::int64_t>(stableHash(name))}});
  }

  // w of each sample.
  Result<ValueId> sampleWeights() {
    if (weight_ < 0) {
      LOCKSTEP_ASSIGN(weight_, add(Op::kInput, "weight", {},
                                   {{"name", "weight"}, {"dtype", dtype()}, {"shape", Shape{out_.batch}}},
                                   Phase::kData));
    }
    return weight_;
  }

  // Token ids, the tokens of a sample one after another in rows.
  Status addTokens() {
    if (model_.input.size() != 1 || model_.input[0] < 1)
      return fail("input.shape", fmt::format("the input is [{}]; expected one number of tokens, such "
                                             "as [64]", shapeText(model_.input)));
    if (out_.batch < 1) return invalidArgument("the batch is {}, expected at least 1", out_.batch);
    tokens_ = model_.input[0];
    LOCKSTEP_ASSIGN(const ValueId x,
                    add(Op::kInput, "x", {},
                        {{"name", "x"}, {"dtype", "i32"}, {"shape", Shape{out_.batch, tokens_}}},
                        Phase::kData));
    LOCKSTEP_ASSIGN(last_, add(Op::kReshape, "x.ids", {x}, {{"shape", Shape{out_.batch * tokens_}}},
                               Phase::kData));
    values_["input"] = last_;
    return {};
  }

  Result<std::vector<ValueId>> inputs() {
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
            fmt::format("there is no layer {} before it; expected \"input\" or the name "
                        "of a layer above{}",
                        name, near.empty() ? "" : "; did you mean " + near + "?"));
      }
      used_.insert(name);
      found.push_back(it->second);
    }
    return found;
  }

  Status addLayer() {
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
          "inputs", fmt::format("{} input{}; {} expects {}", in.size(), in.size() == 1 ? "" : "s",
                                kindName(current.kind), expected == 1 ? "one" : "two layers"));
    layers_.push_back({current.name, std::string(kindName(current.kind)), {}, 0, 0, 0});
    const std::size_t firstNode = out_.graph.nodes().size();
    Result<ValueId> value = addOps(in);
    if (!value.ok()) {
      Error error = value.error();
      return error.why.empty() ? failKind("", error.what) : error;
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

  double flops(const ir::Node& node) const {
    std::vector<ir::TensorType> inputTypes, outputTypes;
    for (ValueId id : node.inputs) inputTypes.push_back(out_.graph.value(id).type);
    for (ValueId id : node.outputs) outputTypes.push_back(out_.graph.value(id).type);
    return ir::info(node.op).cost(node, inputTypes, outputTypes).flops;
  }

  Result<ValueId> addOps(const std::vector<ValueId>& in) {
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
          return failKind("function", "there is no function; expected relu, gelu or tanh");
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
                             fmt::format("it is {}, not flat; add a flatten layer before it",
                                         sampleText(shape(in[i]))));
        return add(Op::kConcat, layer().name + ".concat", in);
      case Layer::Kind::kDropout:
        return addDropout("", in[0]);
    }
    return invalidArgument("unknown kind");
  }

  Result<ValueId> addActivation(ValueId x, std::string_view field) {
    const std::string& function = layer().activation;
    if (function.empty()) return x;
    static const std::map<std::string_view, Op> kFunctions = {
        {"relu", Op::kRelu}, {"gelu", Op::kGelu}, {"tanh", Op::kTanh}};
    const auto it = kFunctions.find(function);
    if (it == kFunctions.end()) {
      const std::string_view known[] = {"relu", "gelu", "tanh"};
      return failKind(field, fmt::format("unknown activation {}; expected {}", function,
                                         expectedOneOf(function, known)));
    }
    return add(it->second, layer().name + "." + function, {x});
  }

  Result<ValueId> addBias(ValueId x, std::int64_t fanIn) {
    if (!layer().bias) return x;
    LOCKSTEP_ASSIGN(const ValueId bias,
                    addParameter("bias", {layer().units}, fanIn, layer().units));
    return add(Op::kBiasAdd, layer().name + ".bias-add", {x, bias});
  }

  Result<ValueId> addDense(ValueId x) {
    const Shape in = shape(x);
    if (in.size() != 2)
      return failKind("", fmt::format("its input is {}, not flat; add a flatten layer before it",
                                      sampleText(in)));
    if (layer().units < 1)
      return failKind("units", fmt::format("units is {}; expected at least 1", layer().units));
    const std::int64_t inputs = in[1];
    if (!layer().tied.empty()) return addTied(x, inputs);
    LOCKSTEP_ASSIGN(const ValueId w,
                    addParameter("weight", {inputs, layer().units}, inputs, layer().units));
    LOCKSTEP_ASSIGN(ValueId y, add(Op::kMatmul, layer().name + ".matmul", {x, w}));
    LOCKSTEP_ASSIGN(y, addBias(y, inputs));
    return addActivation(y, "activation");
  }

  // The table of an embedding serves twice; there is one parameter.
  Result<ValueId> addTied(ValueId x, std::int64_t inputs) {
    const ir::Node* table = out_.graph.find(layer().tied + ".weight");
    if (table == nullptr || shape(table->outputs[0]) != Shape{layer().units, inputs})
      return failKind("tied", fmt::format("{} is no embedding of {} units with a vocabulary of {}",
                                          layer().tied, inputs, layer().units));
    if (!layer().activation.empty())
      return failKind("activation", "a tied layer has no activation; expected none");
    return add(Op::kMatmul, layer().name + ".matmul", {x, table->outputs[0]},
               {{"tb", std::int64_t{1}}});
  }

  Status wantTokens(ValueId x) const {
    if (tokens_ == 0 || shape(x).size() != 2)
      return failKind("", "its input is no sequence of channels; expected an embedding before it");
    return {};
  }

  Result<ValueId> addEmbedding(ValueId ids) {
    const bool isTable = model_.columns > 0 && ids == values_["categories"];
    if (!isTable && (tokens_ == 0 || ids != values_["input"]))
      return failKind("", "its input is neither text nor categories; expected \"input\", and "
                          "input.vocabulary set, or \"categories\", and input.columns set");
    if (layer().units < 1)
      return failKind("units", fmt::format("units is {}; expected at least 1", layer().units));
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

  // The rows of a sample side by side. Rows begin within ±1/√categories (Naumov et al.: "Deep Learning
  // Recommendation Model for Personalization and Recommendation Systems", 2019).
  Result<ValueId> addTables(ValueId ids, std::int64_t units) {
    const std::int64_t rows = model_.columns * model_.categories;
    LOCKSTEP_ASSIGN(const ValueId table,
                    addParameter("weight", {rows, units}, model_.categories, units));
    splitAlong(out_.parameters.size() - 1, 0, rows);
    LOCKSTEP_ASSIGN(const ValueId y, add(Op::kEmbedding, layer().name + ".embedding", {table, ids}));
    return add(Op::kReshape, layer().name + ".side-by-side", {y},
               {{"shape", Shape{out_.batch, model_.columns * units}}});
  }

  // "block1" + "norm1" → parameters "block1.norm1.gain" and ".bias".
  Result<ValueId> addNorm(std::string part, ValueId x) {
    if (!part.empty()) part += '.';
    const std::int64_t channels = shape(x)[1];
    LOCKSTEP_ASSIGN(const ValueId gain, addParameter(part + "gain", {channels}, 1, 1, "ones"));
    LOCKSTEP_ASSIGN(const ValueId bias, addParameter(part + "bias", {channels}, 1, 1, "zeros"));
    return add(Op::kLayerNorm, fmt::format("{}.{}norm", layer().name, part), {x, gain, bias},
               {{"eps", 1e-5}});
  }

  Result<ValueId> addLinear(const std::string& part, ValueId x, std::int64_t units,
                            const std::string& initializer) {
    const std::int64_t channels = shape(x)[1];
    const std::string prefix = layer().name + "." + part;
    LOCKSTEP_ASSIGN(const ValueId w, addParameter(part + ".weight", {channels, units}, channels,
                                                  units, initializer));
    LOCKSTEP_ASSIGN(const ValueId b, addParameter(part + ".bias", {units}, channels, units, "zeros"));
    LOCKSTEP_ASSIGN(const ValueId y, add(Op::kMatmul, prefix + ".matmul", {x, w}));
    return add(Op::kBiasAdd, prefix + ".bias-add", {y, b});
  }

  // Radford et al., "Language models are unsupervised multitask learners", 2019: what goes back into
  // the residual stream begins smaller by √(2·blocks).
  Result<ValueId> addTransformer(ValueId x) {
    LOCKSTEP_TRY(wantTokens(x));
    const Layer& l = layer();
    const std::int64_t channels = shape(x)[1];
    if (l.heads < 1 || channels % l.heads != 0)
      return failKind("heads", fmt::format("heads is {}; expected a divisor of its {} channels",
                                           l.heads, channels));
    const std::int64_t between = l.feedForward > 0 ? l.feedForward : 4 * channels;
    const auto blocks = std::count_if(model_.layers.begin(), model_.layers.end(), [](const Layer& o) {
      return o.kind == Layer::Kind::kTransformer;
    });
    const std::string smaller =
        fmt::format("normal:{:.6g}", 0.02 / std::sqrt(2 * static_cast<double>(blocks)));
    const std::size_t first = out_.parameters.size();
    LOCKSTEP_ASSIGN(ValueId h, addNorm("norm1", x));
    LOCKSTEP_ASSIGN(h, addLinear("qkv", h, 3 * channels, kGpt2));
    LOCKSTEP_ASSIGN(h, add(Op::kAttention, l.name + ".attention", {h},
                           {{"tokens", tokens_}, {"head", channels / l.heads},
                            {"causal", std::int64_t{l.causal}}}));
    LOCKSTEP_ASSIGN(h, addLinear("proj", h, channels, smaller));
    LOCKSTEP_ASSIGN(h, addDropout(".proj", h));
    LOCKSTEP_ASSIGN(x, add(Op::kAdd, l.name + ".add1", {x, h}));
    LOCKSTEP_ASSIGN(h, addNorm("norm2", x));
    LOCKSTEP_ASSIGN(h, addLinear("up", h, between, kGpt2));
    LOCKSTEP_ASSIGN(h, add(Op::kGelu, l.name + ".gelu", {h}));
    LOCKSTEP_ASSIGN(h, addLinear("down", h, channels, smaller));
    LOCKSTEP_ASSIGN(h, addDropout(".down", h));
    for (std::size_t i = first; i < out_.parameters.size(); ++i) {
      const std::string_view part = std::string_view(out_.parameters[i].name).substr(l.name.size());
      if (part == ".qkv.weight") splitAlong(i, 1, l.heads);
      if (part == ".qkv.bias") splitAlong(i, 0, l.heads);
      if (part == ".proj.weight") splitAlong(i, 0, l.heads);
      if (part == ".up.weight") splitAlong(i, 1, between);
      if (part == ".up.bias") splitAlong(i, 0, between);
      if (part == ".down.weight") splitAlong(i, 0, between);
    }
    return add(Op::kAdd, l.name + ".add2", {x, h});
  }

  void splitAlong(std::size_t parameter, int dim, std::int64_t parts) {
    out_.parameters[parameter].splitDim = dim;
    out_.parameters[parameter].splitParts = parts;
  }
  // Of two dense layers in a row, with nothing but dropout between, the first is split by columns, the second by rows, so that only the
  // second's sums travel (Shoeybi et al.: "Megatron-LM", 2019).
  void splitDensePairs() {
    const auto plainDense = [&](std::size_t i) {
      return i < model_.layers.size() && model_.layers[i].kind == Layer::Kind::kDense &&
             model_.layers[i].tied.empty();
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
    // Whether layer i + 1 reads layer i, and it alone does.
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

  Status wantImage(const Shape& in) const {
    if (in.size() != 4)
      return failKind("",
                      fmt::format("its input is {}; expected an image, height x width x channels",
                                  sampleText(in)));
    return {};
  }

  Result<ValueId> addConv2d(ValueId x) {
    const Shape in = shape(x);
    const Layer& l = layer();
    LOCKSTEP_TRY(wantImage(in));
    if (l.units < 1)
      return failKind("filters", fmt::format("filters is {}; expected at least 1", l.units));
    if (l.kernel < 1)
      return failKind("kernel", fmt::format("kernel is {}; expected at least 1", l.kernel));
    if (l.stride < 1)
      return failKind("stride", fmt::format("stride is {}; expected at least 1", l.stride));
    if (l.same && l.kernel % 2 == 0)
      return failKind(
          "kernel",
          fmt::format("kernel is {} with padding same; expected an odd number", l.kernel));
    if (!l.same && l.kernel > std::min(in[1], in[2]))
      return failKind(
          "kernel", fmt::format("kernel is {} but its input is {}; expected at most {}, or padding "
                                "same",
                                l.kernel, sampleText(in), std::min(in[1], in[2])));
    if (l.kernel > ir::kMaxCount) return failKind("kernel", "kernel is too large");
    const Shape weights{l.kernel, l.kernel, in[3], l.units};
    if (Status status = ir::checkShape(weights); !status.ok())
      return failKind("kernel", fmt::format("its weights [{}] are too large", shapeText(weights)));
    const std::int64_t window = l.kernel * l.kernel;
    LOCKSTEP_ASSIGN(const ValueId w,
                    addParameter("weight", weights, window * in[3], window * l.units));
    LOCKSTEP_ASSIGN(ValueId y,
                    add(Op::kConv2d, l.name + ".conv2d", {x, w},
                        {{"stride", l.stride}, {"pad", l.same ? (l.kernel - 1) / 2 : 0}}));
    LOCKSTEP_ASSIGN(y, addBias(y, window * in[3]));
    return addActivation(y, "activation");
  }

  Result<ValueId> addMaxPool2d(ValueId x) {
    const Shape in = shape(x);
    const Layer& l = layer();
    LOCKSTEP_TRY(wantImage(in));
    if (l.kernel < 1 || l.kernel > std::min(in[1], in[2]))
      return failKind("size", fmt::format("size is {} but its input is {}; expected 1 to {}",
                                          l.kernel, sampleText(in), std::min(in[1], in[2])));
    if (l.stride < 1)
      return failKind("stride", fmt::format("stride is {}; expected at least 1", l.stride));
    return add(Op::kMaxPool2d, l.name + ".max-pool2d", {x},
               {{"size", l.kernel}, {"stride", l.stride}});
  }

  Result<ValueId> addFlatten(ValueId x) {
    const Shape in = shape(x);
    return add(Op::kReshape, layer().name + ".flatten", {x},
               {{"shape", Shape{in[0], elementCount(in) / in[0]}}});
  }

  Result<ValueId> addBatchNorm(ValueId x) {
    const Layer& l = layer();
    const std::int64_t batch = out_.batch, channels = shape(x).back();
    if (tokens_ > 0)
      return failKind("", "its input is text; expected a layer_norm instead, whose statistics are a "
                          "token's own");
    if (!(l.momentum > 0 && l.momentum < 1))
      return failKind("momentum",
                      fmt::format("momentum is {}; expected more than 0 and less than 1", l.momentum));
    if (!(l.epsilon > 0))
      return failKind("epsilon", fmt::format("epsilon is {}; expected more than 0", l.epsilon));
    if (l.groups < 1)
      return failKind("groups", fmt::format("groups is {}; expected at least 1", l.groups));
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
    if (batch % l.groups != 0)
      return failKind("groups", fmt::format("groups is {}; expected a divisor of the batch, {}",
                                            l.groups, batch));
    LOCKSTEP_ASSIGN(const ValueId w, sampleWeights());
    LOCKSTEP_ASSIGN(const ValueId moments,
                    add(Op::kBatchMoments, name + ".moments", {x, w, mean},
                        {{"shape", Shape{l.groups, 1 + 2 * channels}}}));
    LOCKSTEP_ASSIGN(const ir::NodeId statistics,
                    out_.graph.add(Op::kBatchStatistics, name + ".statistics", {moments, mean}));
    const auto statistic = [&](int i) { return out_.graph.output(statistics, i); };
    LOCKSTEP_ASSIGN(const ValueId y, add(Op::kBatchNorm, name + ".batch-norm",
                                         {x, gain, bias, statistic(0), statistic(1), w, moments},
                                         epsilon));
    LOCKSTEP_ASSIGN(const ir::NodeId running,
                    out_.graph.add(Op::kRunningStatistics, name + ".running",
                                   {mean, variance, statistic(2)}, {{"momentum", l.momentum}}));
    for (int i = 0; i < 2; ++i) {
      const std::string& state = out_.statistics[out_.statistics.size() - 2 + static_cast<std::size_t>(i)].name;
      LOCKSTEP_TRY(out_.graph.add(Op::kStore, state + ".store", {out_.graph.output(running, i)},
                                  {{"state", state}}).status());
    }
    return y;
  }

  Result<ValueId> addAdd(ValueId a, ValueId b) {
    if (shape(a) != shape(b))
      return failLayer("inputs", fmt::format("its inputs are {} and {}; expected equal shapes",
                                             sampleText(shape(a)), sampleText(shape(b))));
    return add(Op::kAdd, layer().name + ".add", {a, b});
  }

  Status checkUses() {
    for (index_ = 0; index_ + 1 < model_.layers.size(); ++index_)
      if (!used_.contains(layer().name))
        return failLayer("name",
                         "no later layer takes its output; expected it among the inputs of "
                         "one, or the layer left out");
    index_ = model_.layers.size() - 1;
    return {};
  }

  Status addLoss() {
    const Shape y = shape(last_);
    LOCKSTEP_ASSIGN(ValueId weight, sampleWeights());
    if (y.size() != 2)
      return failKind("",
                      fmt::format("the last layer gives {}, not flat; expected a flatten or dense "
                                  "layer at the end",
                                  sampleText(y)));
    // The tokens of a sample count as it does.
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
        return failKind("units", fmt::format("the last layer gives {} values a sample; expected 1, the "
                                             "logit of the label 1", y[1]));
      LOCKSTEP_ASSIGN(const ValueId target, addTarget(y, "i32"));
      LOCKSTEP_ASSIGN(out_.loss, add(Op::kBinaryXent, "loss", {last_, target, weight}));
      out_.metric = "auc";
      LOCKSTEP_ASSIGN(out_.metricSums, add(Op::kScoreHistogram, "scores", {last_, target, weight},
                                           {{"bins", kScoreBins}}));
    } else {
      const std::string_view known[] = {"cross-entropy", "binary-cross-entropy", "mse"};
      return fail("loss", fmt::format("unknown loss {}; expected {}", model_.loss,
                                      expectedOneOf(model_.loss, known)));
    }
    LOCKSTEP_ASSIGN(out_.weight, add(Op::kSumAll, "weight.sum", {weight}));
    return {};
  }

  // Labels as numbers, of the shape of what the model gives.
  Result<ValueId> addTarget(const Shape& shape, const std::string& given) {
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

  Status addCrossEntropy(ValueId weight) {
    const Shape y = shape(last_);
    if (model_.classes < 2)
      return fail("classes", fmt::format("classes is {}; expected at least 2", model_.classes));
    if (y[1] != model_.classes) {
      Error error =
          failKind(layer().kind == Layer::Kind::kDense ? "units" : "",
                   fmt::format("the last layer gives {} values a sample; expected {}, the "
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
    out_.metric = "accuracy";
    LOCKSTEP_ASSIGN(out_.metricSums, add(Op::kCountCorrect, "correct", {last_, label, weight}));
    return {};
  }

  static constexpr const char* kGpt2 = "normal:0.02";
  // AUC is off by at most half the share of pairs whose scores are in one bin.
  static constexpr std::int64_t kScoreBins = 1024;

  const Model& model_;
  const Use use_;
  ValueId weight_ = -1, dropoutKeys_ = -1;
  std::int64_t tokens_ = 0;  // of a sample of text; 0: no text
  ir::ModelGraph out_;
  std::size_t index_ = 0;  // of the layer under construction
  ValueId last_ = -1;
  std::map<std::string, ValueId, std::less<>> values_;
  std::set<std::string> used_;
  std::vector<LayerInfo> layers_;
};

}  // namespace

Result<ir::ModelGraph> build(const Model& model, std::int64_t batch, DType compute, Use use) {
  if (compute != DType::kF32 && compute != DType::kF64)
    return invalidArgument("models compute in f32 or f64, not {}", dtypeName(compute));
  return Builder(model, batch, compute, use).build();
}

Result<std::vector<LayerInfo>> describe(const Model& model) {
  Builder builder(model, 1, DType::kF32, Use::kEvaluation);
  LOCKSTEP_TRY(builder.build().status());
  return builder.takeLayers();
}

}  // namespace lockstep::models
