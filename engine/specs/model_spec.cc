#include "engine/specs/model_spec.h"

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "engine/specs/field.h"
#include "engine/specs/options.h"
#include "engine/specs/specs.h"

namespace lockstep::specs {
namespace {

using spec::v1::LayerSpec;
using spec::v1::ModelSpec;

constexpr int kMaxLayers = 10000;

std::string_view stem(const LayerSpec& layer) {
  switch (layer.kind_case()) {
    case LayerSpec::kDense:
      return "dense";
    case LayerSpec::kConv2D:
      return "conv";
    case LayerSpec::kMaxPool2D:
      return "pool";
    case LayerSpec::kFlatten:
      return "flatten";
    case LayerSpec::kActivation:
      return "activation";
    case LayerSpec::kAdd:
      return "add";
    case LayerSpec::kEmbedding:
      return "embedding";
    case LayerSpec::kLayerNorm:
      return "norm";
    case LayerSpec::kTransformer:
      return "block";
    case LayerSpec::kBatchNorm:
      return "bn";
    case LayerSpec::kGlobalAveragePool:
      return "average";
    case LayerSpec::kConcat:
      return "concat";
    case LayerSpec::kDropout:
      return "dropout";
    case LayerSpec::KIND_NOT_SET:
      break;
  }
  return "layer";
}

Status fillLayer(LayerSpec& layer, const std::string& path) {
  switch (layer.kind_case()) {
    case LayerSpec::kMaxPool2D:
      if (layer.max_pool2d().stride() == 0)
        layer.mutable_max_pool2d()->set_stride(layer.max_pool2d().size());
      return {};
    case LayerSpec::kBatchNorm:
      // with micro-batches it is already filled in
      if (layer.batch_norm().groups() == 0) layer.mutable_batch_norm()->set_groups(1);
      return {};
    case LayerSpec::KIND_NOT_SET:
      return wrongField(path,
                        "the layer has no kind; expected dense, conv2d, max_pool2d, flatten, "
                        "activation, add, embedding, layer_norm, transformer, batch_norm, "
                        "global_average_pool, concat or dropout");
    default:
      return {};
  }
}

models::Layer toLayer(const LayerSpec& spec) {
  using Kind = models::Layer::Kind;
  models::Layer layer;
  layer.name = spec.name();
  layer.inputs.assign(spec.inputs().begin(), spec.inputs().end());
  switch (spec.kind_case()) {
    case LayerSpec::kDense:
      layer.kind = Kind::kDense;
      layer.units = spec.dense().units();
      layer.activation = spec.dense().activation();
      layer.bias = !spec.dense().no_bias();
      layer.tied = spec.dense().tied();
      break;
    case LayerSpec::kConv2D:
      layer.kind = Kind::kConv2d;
      layer.units = spec.conv2d().filters();
      layer.kernel = spec.conv2d().kernel();
      layer.stride = spec.conv2d().stride();
      layer.same = spec.conv2d().padding() == "same";
      layer.activation = spec.conv2d().activation();
      layer.bias = !spec.conv2d().no_bias();
      break;
    case LayerSpec::kMaxPool2D:
      layer.kind = Kind::kMaxPool2d;
      layer.kernel = spec.max_pool2d().size();
      layer.stride = spec.max_pool2d().stride();
      break;
    case LayerSpec::kFlatten:
      layer.kind = Kind::kFlatten;
      break;
    case LayerSpec::kActivation:
      layer.kind = Kind::kActivation;
      layer.activation = spec.activation().function();
      break;
    case LayerSpec::kAdd:
      layer.kind = Kind::kAdd;
      layer.activation = spec.add().activation();
      break;
    case LayerSpec::kEmbedding:
      layer.kind = Kind::kEmbedding;
      layer.units = spec.embedding().units();
      break;
    case LayerSpec::kLayerNorm:
      layer.kind = Kind::kLayerNorm;
      break;
    case LayerSpec::kTransformer:
      layer.kind = Kind::kTransformer;
      layer.heads = spec.transformer().heads();
      layer.feedForward = spec.transformer().feed_forward();
      layer.causal = !spec.transformer().not_causal();
      layer.dropout = spec.transformer().dropout();
      break;
    case LayerSpec::kBatchNorm:
      layer.kind = Kind::kBatchNorm;
      layer.momentum = spec.batch_norm().momentum();
      layer.epsilon = spec.batch_norm().epsilon();
      layer.groups = spec.batch_norm().groups();
      layer.activation = spec.batch_norm().activation();
      break;
    case LayerSpec::kGlobalAveragePool:
      layer.kind = Kind::kGlobalAveragePool;
      break;
    case LayerSpec::kConcat:
      layer.kind = Kind::kConcat;
      break;
    case LayerSpec::kDropout:
      layer.kind = Kind::kDropout;
      layer.dropout = spec.dropout().rate();
      break;
    case LayerSpec::KIND_NOT_SET:
      break;
  }
  return layer;
}

}  // namespace

void nameLayers(ModelSpec& spec) {
  std::set<std::string, std::less<>> taken;
  for (const LayerSpec& layer : spec.layers()) taken.insert(layer.name());
  std::map<std::string_view, int> counts;
  for (LayerSpec& layer : *spec.mutable_layers()) {
    int& count = counts[stem(layer)];
    ++count;
    if (!layer.name().empty()) continue;
    std::string name = fmt::format("{}{}", stem(layer), count);
    while (taken.contains(name)) name = fmt::format("{}{}", stem(layer), ++count);
    taken.insert(name);
    layer.set_name(std::move(name));
  }
}

bool isTable(const spec::v1::InputSpec& input) {
  return input.vocabulary() == 0 && input.shape_size() == 1;
}

Status fillModel(ModelSpec& spec) {
  fillDefaults(spec);
  LOCKSTEP_TRY(checkOptions(spec, "model"));
  auto& input = *spec.mutable_input();
  if (input.scale() == 0) input.set_scale(isTable(input) ? 1 : 1.0 / 255);
  if (input.columns() > 0)
    LOCKSTEP_TRY(checkRange("model.input.categories", input.categories(), 1,
                            std::numeric_limits<std::int32_t>::max()));
  if (input.columns() > 0 && !isTable(input))
    return wrongField(
        "model.input.columns",
        "only tables have columns of categories; expected none, or the shape [numbers]");
  if (input.vocabulary() > 0 && input.vocabulary() < 256)
    return wrongField("model.input.vocabulary",
                      message("vocabulary is {}; expected at least 256: every byte of the text is "
                              "a token",
                              input.vocabulary()));
  if (input.vocabulary() > 0 && spec.loss() != "cross-entropy")
    return wrongField(
        "model.loss",
        message("model.loss is {} but the labels of a text are tokens; expected cross-entropy",
                spec.loss()),
        {{{"model.loss", "cross-entropy"}}});
  if (!std::isfinite(input.scale()))
    return wrongField("model.input.scale", "scale is not finite; expected a number such as 0.0039");
  if (spec.layers_size() > kMaxLayers)
    return wrongField("model.layers", message("there are {} layers; expected at most {}",
                                              spec.layers_size(), kMaxLayers));
  nameLayers(spec);
  for (int i = 0; i < spec.layers_size(); ++i)
    LOCKSTEP_TRY(fillLayer(*spec.mutable_layers(i), fmt::format("model.layers[{}]", i)));
  if (spec.loss() == "binary-cross-entropy") {
    LOCKSTEP_TRY(checkRange("model.classes", spec.classes(), 0, 2));
    spec.set_classes(2);
  }
  if (spec.classes() == 0 && spec.loss() == "cross-entropy" && spec.layers_size() > 0) {
    const LayerSpec& last = spec.layers(spec.layers_size() - 1);
    if (last.has_dense() && last.dense().units() <= std::numeric_limits<std::int32_t>::max())
      spec.set_classes(static_cast<std::int32_t>(last.dense().units()));
  }
  return {};
}

Result<models::Model> toModel(const ModelSpec& given) {
  ModelSpec spec = given;
  LOCKSTEP_TRY(fillModel(spec));
  models::Model model;
  model.name = spec.name();
  model.input.assign(spec.input().shape().begin(), spec.input().shape().end());
  model.inputScale = spec.input().scale();
  model.vocabulary = spec.input().vocabulary();
  model.columns = spec.input().columns();
  model.categories = spec.input().categories();
  if (isTable(spec.input())) model.inputDtype = DType::kF32;
  model.loss = spec.loss();
  model.classes = spec.classes();
  for (const LayerSpec& layer : spec.layers()) model.layers.push_back(toLayer(layer));
  if (Status shapes = models::describe(model).status(); !shapes.ok()) {
    Error error = shapes.error();
    error.field = error.field.empty() ? "model" : "model." + error.field;
    std::vector<Remedy> remedies = std::move(error.remedies);
    if (remedies.empty()) return error;
    for (Remedy& remedy : remedies)
      for (Setting& setting : remedy) setting.field = "model." + setting.field;
    return withRemedies(std::move(error), std::move(remedies));
  }
  return model;
}

}  // namespace lockstep::specs
