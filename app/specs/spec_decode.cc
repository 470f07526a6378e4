#include "app/specs/spec_decode.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/models/model.h"
#include "engine/specs/specs.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

struct Decoder {
  const std::string& file;
  std::vector<SpecProblem>& problems;
  std::string* modelPath;

  void problem(const YamlNode& at, const std::string& path, std::string what,
               std::string expected) const {
    problems.push_back({file, at.line, at.column, std::move(what), std::move(expected), path});
  }

  static std::string shown(const YamlNode& node) {
    switch (node.kind) {
      case YamlNode::Kind::kNull:
        return "empty";
      case YamlNode::Kind::kMap:
        return "a group of fields";
      case YamlNode::Kind::kList:
        return "a list";
      case YamlNode::Kind::kScalar:
        break;
    }
    std::string text = node.value.substr(0, 40);
    if (text.size() < node.value.size()) text += "…";
    return "'" + text + "'";
  }
  static std::string lastName(const std::string& path) {
    const auto dot = path.rfind('.');
    return dot == std::string::npos ? path : path.substr(dot + 1);
  }

  void message(const YamlNode& node, const std::string& path, Message& out) const {
    if (node.kind == YamlNode::Kind::kNull) return;
    const Descriptor& type = *out.GetDescriptor();
    if (node.kind == YamlNode::Kind::kScalar && type.name() == "LayerSpec") {
      // "- flatten" for "- flatten: {}"
      const auto* kind = type.FindFieldByName(node.value);
      if (kind != nullptr && kind->message_type() != nullptr) {
        out.GetReflection()->MutableMessage(&out, kind);
        return;
      }
    }
    if (node.kind != YamlNode::Kind::kMap) {
      problem(node, path,
              (path.empty() ? "the file" : "'" + lastName(path) + "'") + " is " + shown(node),
              "expected " + fieldList(type));
      return;
    }
    for (const auto& entry : node.entries) {
      const std::string& name = entry.key.value;
      const std::string below = path.empty() ? name : path + "." + name;
      const FieldDescriptor* field = type.FindFieldByName(name);
      if (field == nullptr) {
        std::vector<std::string> names;
        for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
        const std::string near = nearest(name, names);
        problem(entry.key, below,
                "unknown field '" + name + "'" + (path.empty() ? "" : " in " + path),
                near.empty() ? "expected " + fieldList(type) : "did you mean '" + near + "'?");
        continue;
      }
      this->field(entry.node, below, *field, out);
    }
    if (type.name() == "LayerSpec") checkLayer(node, path, type);
    if (type.FindFieldByName("version") != nullptr) checkVersion(node, path);
  }

  void checkVersion(const YamlNode& node, const std::string& path) const {
    const auto* version = node.find("version");
    if (version != nullptr && version->node.kind == YamlNode::Kind::kScalar &&
        version->node.value != "1" && version->node.value != "0") {
      problem(version->node, path.empty() ? "version" : path + ".version",
              "version " + version->node.value + " of this format is not known", "expected 1");
    }
  }

  void checkLayer(const YamlNode& node, const std::string& path, const Descriptor& type) const {
    std::vector<std::string> kinds;
    int given = 0;
    const YamlNode* second = nullptr;
    for (int i = 0; i < type.field_count(); ++i) {
      if (type.field(i)->containing_oneof() == nullptr) continue;
      kinds.push_back(type.field(i)->name());
      if (const auto* entry = node.find(type.field(i)->name())) {
        if (++given == 2) second = &entry->key;
      }
    }
    if (given == 0) {
      bool unknown = false;
      for (const auto& entry : node.entries) {
        unknown = unknown || type.FindFieldByName(entry.key.value) == nullptr;
      }
      if (!unknown) problem(node, path, "a layer without a kind", "expected one of " + join(kinds));
    } else if (given > 1) {
      problem(*second, path, "a layer of two kinds", "expected one of " + join(kinds));
    }
  }

  static std::string join(const std::vector<std::string>& names) {
    std::string text;
    for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
  }
  static std::string fieldList(const Descriptor& type) {
    std::vector<std::string> names;
    for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
    if (names.empty()) return "no fields: {}";
    return "the fields " + join(names);
  }

  void field(const YamlNode& node, const std::string& path, const FieldDescriptor& field,
             Message& out) const {
    const auto* reflection = out.GetReflection();
    if (field.is_map()) {
      map(node, path, field, out);
    } else if (field.is_repeated()) {
      if (node.kind == YamlNode::Kind::kNull) return;
      if (node.kind != YamlNode::Kind::kList) {
        problem(node, path, "'" + field.name() + "' is " + shown(node),
                field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE
                    ? "expected a list ('- …' lines)"
                    : "expected a list: [a, b]");
        return;
      }
      for (std::size_t i = 0; i < node.items.size(); ++i) {
        const std::string below = path + "[" + std::to_string(i) + "]";
        if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
          message(node.items[i], below, *reflection->AddMessage(&out, &field));
        } else {
          scalar(node.items[i], below, field, out, true);
        }
      }
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (modelPath != nullptr && field.full_name() == "lockstep.spec.v1.RunSpec.model" &&
          node.kind == YamlNode::Kind::kScalar) {
        *modelPath = node.value;
        return;
      }
      message(node, path, *reflection->MutableMessage(&out, &field));
    } else {
      if (node.kind == YamlNode::Kind::kNull) {
        problem(node, path, "'" + field.name() + "' is empty", expected(field));
        return;
      }
      scalar(node, path, field, out, false);
    }
  }

  void map(const YamlNode& node, const std::string& path, const FieldDescriptor& field,
           Message& out) const {
    if (node.kind == YamlNode::Kind::kNull) return;
    if (node.kind != YamlNode::Kind::kMap) {
      problem(node, path, "'" + field.name() + "' is " + shown(node),
              "expected 'path: path' lines");
      return;
    }
    const auto* entryType = field.message_type();
    for (const auto& entry : node.entries) {
      if (entry.node.kind != YamlNode::Kind::kScalar) {
        problem(entry.node, path + "[" + entry.key.value + "]",
                "'" + entry.key.value + "' is " + shown(entry.node), "expected text");
        continue;
      }
      Message* pair = out.GetReflection()->AddMessage(&out, &field);
      pair->GetReflection()->SetString(pair, entryType->map_key(), entry.key.value);
      pair->GetReflection()->SetString(pair, entryType->map_value(), entry.node.value);
    }
  }

  // Left out, these have a default, which a message holds as 0; written as 0 they are mistakes.
  static bool countsFromOne(const FieldDescriptor& field) {
    constexpr std::string_view kTraining = "lockstep.spec.v1.TrainingSpec.";
    std::string_view name = field.full_name();
    if (!name.starts_with(kTraining)) return false;
    name.remove_prefix(kTraining.size());
    return name == "batch" || name == "epochs";
  }

  static std::string expected(const FieldDescriptor& field) {
    if (countsFromOne(field)) return "expected a whole number, at least 1";
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
      case FieldDescriptor::CPPTYPE_INT64:
        return "expected a whole number";
      case FieldDescriptor::CPPTYPE_UINT64:
        return "expected a whole number, 0 or more";
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return "expected a number";
      case FieldDescriptor::CPPTYPE_BOOL:
        return "expected true or false";
      default:
        break;
    }
    const auto& choices = choicesOf(field);
    if (!choices.empty()) return "expected one of " + join(choices);
    return "expected text";
  }

  template <typename T>
  static bool number(const YamlNode& node, T& value) {
    if (node.quoted) return false;
    std::string_view text = node.value;
    if (text.size() > 1 && text[0] == '+') text.remove_prefix(1);
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    return failure == std::errc() && end == text.data() + text.size();
  }

  void scalar(const YamlNode& node, const std::string& path, const FieldDescriptor& field,
              Message& out, bool add) const {
    const auto* r = out.GetReflection();
    const auto wrong = [&] {
      problem(node, path, "'" + (add ? lastName(path) : field.name()) + "' is " + shown(node),
              expected(field));
    };
    if (node.kind != YamlNode::Kind::kScalar) return wrong();
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32: {
        std::int32_t value = 0;
        if (!number(node, value)) return wrong();
        add ? r->AddInt32(&out, &field, value) : r->SetInt32(&out, &field, value);
        return;
      }
      case FieldDescriptor::CPPTYPE_INT64: {
        std::int64_t value = 0;
        if (!number(node, value)) return wrong();
        if (value == 0 && countsFromOne(field)) return wrong();
        add ? r->AddInt64(&out, &field, value) : r->SetInt64(&out, &field, value);
        return;
      }
      case FieldDescriptor::CPPTYPE_UINT64: {
        std::uint64_t value = 0;
        if (!number(node, value)) return wrong();
        add ? r->AddUInt64(&out, &field, value) : r->SetUInt64(&out, &field, value);
        return;
      }
      case FieldDescriptor::CPPTYPE_DOUBLE: {
        double value = 0;
        if (!number(node, value) || !std::isfinite(value)) return wrong();
        add ? r->AddDouble(&out, &field, value) : r->SetDouble(&out, &field, value);
        return;
      }
      case FieldDescriptor::CPPTYPE_BOOL: {
        if (node.quoted || (node.value != "true" && node.value != "false")) return wrong();
        r->SetBool(&out, &field, node.value == "true");
        return;
      }
      case FieldDescriptor::CPPTYPE_STRING: {
        const auto& choices = choicesOf(field);
        if (!choices.empty() && !node.value.empty() &&
            std::find(choices.begin(), choices.end(), node.value) == choices.end()) {
          const std::string near = nearest(node.value, choices);
          problem(node, path, "'" + (add ? lastName(path) : field.name()) + "' is " + shown(node),
                  expected(field) + (near.empty() ? "" : " (did you mean '" + near + "'?)"));
          return;
        }
        if (node.value.find('\0') != std::string::npos) return wrong();
        add ? r->AddString(&out, &field, node.value) : r->SetString(&out, &field, node.value);
        return;
      }
      default:
        return wrong();
    }
  }
};

// Optimal string alignment distance.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min(
          {d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

struct FieldFacts {
  const char* name;  // "Message.field"
  std::vector<std::string> choices;
  const char* help;
};
const std::vector<FieldFacts>& facts() {
  const auto functions = models::activations(), strategies = specs::strategyKinds(),
             comms = specs::commKinds(), devices = specs::deviceKinds(),
             backends = specs::backendKinds(), precisions = specs::precisions();
  static const std::vector<FieldFacts> kFacts = {
      {"ClusterSpec.name", {}, "What this cluster is called"},
      {"ClusterSpec.nodes", {}, "The machines, in the order of their ranks; the first coordinates"},
      {"ClusterSpec.comm", {comms.begin(), comms.end()}, "How ranks exchange data; empty: chosen"},
      {"ClusterSpec.links", {}, "What is known of links before they are measured"},
      {"NodeSpec.name", {}, "Unique name of the node"},
      {"NodeSpec.ssh", {}, "How to reach it; absent: this machine"},
      {"NodeSpec.address", {}, "Address at which the other nodes reach this one"},
      {"NodeSpec.interface", {}, "Network interface instead of an address"},
      {"NodeSpec.workdir", {}, "Folder for everything on the node; empty: ~/.lockstep"},
      {"NodeSpec.roles",
       {"worker", "ps", "chief", "evaluator"},
       "What the node does: computes, holds parameters (ps), or evaluates"},
      {"NodeSpec.devices", {}, "Devices to train on; none: one cpu"},
      {"NodeSpec.data", {}, "Data path of the run spec: path on this node"},
      {"SshSpec.host", {}, "A Host of ~/.ssh/config, or a name or address"},
      {"SshSpec.user", {}, "User name; empty: as ~/.ssh/config says"},
      {"SshSpec.port", {}, "Port; 0: as ~/.ssh/config says"},
      {"SshSpec.identity_file", {}, "Private key; empty: as ~/.ssh/config says"},
      {"SshSpec.proxy_jump", {}, "Host to jump through"},
      {"DeviceSpec.kind",
       {devices.begin(), devices.end()},
       "What ranks compute on: processors (cpu), or GPUs (cuda)"},
      {"DeviceSpec.count", {}, "Ranks of this kind on the node"},
      {"DeviceSpec.threads", {}, "Compute threads a rank; 0: 1"},
      {"DeviceSpec.gpus", {}, "GPUs that the ranks share; 0: each has its own"},
      {"ModelSpec.name", {}, "What this model is called"},
      {"ModelSpec.input", {}, "Shape of one sample"},
      {"ModelSpec.layers", {}, "Layers; each takes the one before it unless it names its inputs"},
      {"ModelSpec.loss",
       {"cross-entropy", "binary-cross-entropy", "mse"},
       "What training makes small"},
      {"ModelSpec.classes", {}, "Number of labels"},
      {"InputSpec.shape",
       {},
       "Of one sample: height, width, channels; of text: tokens; of a table: numbers"},
      {"InputSpec.scale", {}, "Factor on the input; 0: 1/255 for bytes"},
      {"LayerSpec.dense", {}, "Each output is a weighted sum of all inputs"},
      {"LayerSpec.conv2d", {}, "A small window of weights moves over an image"},
      {"LayerSpec.max_pool2d", {}, "The largest value in each window of an image"},
      {"LayerSpec.flatten", {}, "An image as one row of values, as dense layers take it"},
      {"LayerSpec.activation", {}, "A function on each value"},
      {"LayerSpec.add", {}, "The sum of several layers' outputs, as in residual networks"},
      {"LayerSpec.embedding",
       {},
       "A learned vector for each token and position, or for each category"},
      {"LayerSpec.layer_norm", {}, "Normalises each sample or token over its channels"},
      {"LayerSpec.transformer", {}, "Self-attention, then feed-forward, each added to its input"},
      {"LayerSpec.batch_norm", {}, "Normalises each channel over the batch"},
      {"LayerSpec.global_average_pool", {}, "The mean of each channel of an image"},
      {"LayerSpec.concat", {}, "Several layers' outputs side by side"},
      {"LayerSpec.dropout", {}, "Leaves out random values during training"},
      {"LayerSpec.name", {}, "Unique name; empty: kind and number"},
      {"LayerSpec.inputs", {}, "Names of layers; empty: the layer before"},
      {"DenseLayer.units", {}, "Number of outputs"},
      {"DenseLayer.activation",
       {functions.begin(), functions.end()},
       "Function on the outputs; empty: none"},
      {"DenseLayer.no_bias", {}, "Without a bias"},
      {"Conv2dLayer.filters", {}, "Number of output channels"},
      {"Conv2dLayer.kernel", {}, "Side of the window"},
      {"Conv2dLayer.stride", {}, "Step of the window; 0: 1"},
      {"Conv2dLayer.padding", {"valid", "same"}, "valid: no padding; same: keeps the size"},
      {"Conv2dLayer.activation",
       {functions.begin(), functions.end()},
       "Function on the outputs; empty: none"},
      {"Conv2dLayer.no_bias", {}, "Without a bias"},
      {"MaxPool2dLayer.size", {}, "Side of the window"},
      {"MaxPool2dLayer.stride", {}, "Step of the window; 0: its size"},
      {"AddLayer.activation",
       {functions.begin(), functions.end()},
       "Function on the outputs; empty: none"},
      {"BatchNormLayer.momentum", {}, "How much of the running statistics a step keeps; 0: 0.9"},
      {"BatchNormLayer.epsilon", {}, "Added to the variance; 0: 1e-5"},
      {"BatchNormLayer.groups",
       {},
       "Equal parts of the batch with statistics of their own; 0: as many as micro-batches"},
      {"BatchNormLayer.activation",
       {functions.begin(), functions.end()},
       "Function on the outputs; empty: none"},
      {"ActivationLayer.function", {functions.begin(), functions.end()}, "The function"},
      {"DataSpec.format", {"idx", "text", "table"}, "Format of the files"},
      {"DataSpec.train", {}, "Files to train on"},
      {"DataSpec.evaluate", {}, "Files to evaluate on after each epoch"},
      {"DataSpec.augment", {}, "How training images are varied from epoch to epoch"},
      {"DataSpec.copy_to_nodes",
       {},
       "A launch copies the files from this machine to nodes that lack them"},
      {"AugmentSpec.crop", {}, "Images are moved by up to so many pixels each way"},
      {"AugmentSpec.flip", {}, "One image in two is mirrored left to right"},
      {"DataFiles.images", {}, "Path, absolute or relative to this file"},
      {"DataFiles.labels", {}, "Path, absolute or relative to this file"},
      {"DataFiles.images_sha256", {}, "Expected SHA-256 of the file; empty: not checked"},
      {"DataFiles.labels_sha256", {}, "Expected SHA-256 of the file; empty: not checked"},
      {"DataFiles.text", {}, "A plain text; every byte is a token"},
      {"DataFiles.text_sha256", {}, "Expected SHA-256 of the file; empty: not checked"},
      {"DataFiles.table", {}, "Rows of a label, numbers and categories, tabs or commas between"},
      {"DataFiles.table_sha256", {}, "Expected SHA-256 of the file; empty: not checked"},
      {"DataFiles.from",
       {},
       "Where the part that is used begins, as a fraction of the text or the rows"},
      {"DataFiles.to", {}, "Where it ends; 0: at the end"},
      {"InputSpec.vocabulary", {}, "Above 0: the input is text, tokens below it"},
      {"InputSpec.columns", {}, "Columns of categories after the numbers of a table's row"},
      {"InputSpec.categories", {}, "Categories a column's texts are hashed to"},
      {"EmbeddingLayer.units", {}, "Channels a token or a category becomes"},
      {"DropoutLayer.rate", {}, "Share of the values that a step leaves out"},
      {"TransformerLayer.dropout", {}, "Share of the values that a step leaves out"},
      {"TransformerLayer.heads", {}, "Attention heads; they share the channels evenly"},
      {"TransformerLayer.feed_forward", {}, "Units between; 0: four times the channels"},
      {"TransformerLayer.not_causal", {}, "A token sees those after it too"},
      {"DenseLayer.tied", {}, "The embedding whose table serves as the weight"},
      {"TrainingSpec.batch", {}, "Samples a step, over all ranks"},
      {"TrainingSpec.epochs",
       {},
       "Times through the data; left out: 1, or as many as max_steps needs"},
      {"TrainingSpec.max_steps", {}, "Steps at most; 0: no limit"},
      {"TrainingSpec.seed", {}, "Of initial weights and the order of samples; left out: 1"},
      {"TrainingSpec.precision",
       {precisions.begin(), precisions.end()},
       "Number format of the computation; tf32, bf16, fp16: of the factors of matrix products and "
       "convolutions alone"},
      {"TrainingSpec.no_shuffle", {}, "Take the samples in the order of the files"},
      {"TrainingSpec.backend",
       {backends.begin(), backends.end()},
       "What computes, on every rank; empty: what the kind of its device has"},
      {"TrainingSpec.evaluate_batch", {}, "Samples an evaluation step; 0: chosen"},
      {"TrainingSpec.unpinned", {}, "Compute threads move between cores as the kernel likes"},
      {"TrainingSpec.on_nonfinite",
       {"fail", "continue"},
       "A loss that is not finite ends the run; continue: it does not"},
      {"OptimizerSpec.kind", {"sgd", "adam", "adagrad"}, "How weights follow gradients"},
      {"OptimizerSpec.learning_rate", {}, "Size of a step"},
      {"OptimizerSpec.momentum", {}, "Of SGD"},
      {"OptimizerSpec.weight_decay", {}, "Pull of weights towards 0"},
      {"OptimizerSpec.beta1", {}, "Of Adam; 0: 0.9"},
      {"OptimizerSpec.beta2", {}, "Of Adam; 0: 0.999"},
      {"OptimizerSpec.epsilon", {}, "Of Adam, 0: 1e-8; of Adagrad, 0: 1e-10"},
      {"OptimizerSpec.decay_matrices_only",
       {},
       "Spare parameters of one dimension from weight_decay"},
      {"OptimizerSpec.for_batch",
       {},
       "Global batch the rate is for, in proportion to others; 0: as written"},
      {"OptimizerSpec.clip_norm", {}, "Length of the mean gradient at most; 0: any"},
      {"ScheduleSpec.kind", {"constant", "step", "cosine", "linear"}, "Learning rate over time"},
      {"ScheduleSpec.warmup_steps", {}, "Steps in which the rate grows to learning_rate"},
      {"ScheduleSpec.steps", {}, "Steps until final_rate; 0: max_steps"},
      {"ScheduleSpec.final_rate", {}, "Rate at the end of cosine and linear"},
      {"ScheduleSpec.every", {}, "Steps after which the rate falls by factor"},
      {"ScheduleSpec.factor", {}, "What the rate is multiplied by; 0: 0.1"},
      {"LossScaleSpec.initial", {}, "Of fp16: what the loss is multiplied by first; 0: 65536"},
      {"LossScaleSpec.growth_interval",
       {},
       "Of fp16: steps that update after which the scale doubles; 0: 2000"},
      {"LossScaleSpec.fixed", {}, "Of fp16: the scale stays as it is"},
      {"CheckpointSpec.disabled", {}, "Write no checkpoints"},
      {"CheckpointSpec.keep", {}, "Checkpoints kept; 0: 2"},
      {"StrategySpec.kind", {strategies.begin(), strategies.end()}, "How the work is distributed"},
      {"StrategySpec.bucket_bytes", {}, "Bytes of gradients sent together; 0: chosen"},
      {"StrategySpec.micro_batches",
       {},
       "Parts of the batch that are added up before an update; 0: 1"},
      {"StrategySpec.local_steps",
       {},
       "Updates each rank makes by itself in a step; 0: at most 8, as the batch divides"},
      {"StrategySpec.staleness",
       {},
       "Steps a worker may be ahead of the slowest; 0: none, -1: any number"},
      {"StrategySpec.dense",
       {"servers", "all-reduce"},
       "With servers: where what is no table is; all-reduce: with the workers"},
      {"StrategySpec.tensor",
       {},
       "Ranks that share each layer; 0: all with tensor-parallel, else 1"},
      {"StrategySpec.stages",
       {},
       "Ranks the layers are divided among; 0: all with pipeline, else 1"},
      {"StrategySpec.servers",
       {},
       "Ranks that hold the parameters; 0: as many as nodes of role ps have, or one"},
      {"StrategySpec.deterministic_parts",
       {},
       "Equal parts of the batch, added up in one order on any number of ranks; 0: not so"},
      {"StrategySpec.shares",
       {},
       "Parts of the batch, one for each rank it is divided over; none: even"},
      {"StrategySpec.pins", {}, "Layers and the stage each is on; none: stages of equal cost"},
      {"PinSpec.layer", {}, "A layer's name"},
      {"PinSpec.stage", {}, "It and the layers after it, up to the next pin, are on this stage"},
      {"StrategySpec.all_reduce",
       {"auto", "direct", "ring", "halving-doubling", "tree", "hierarchical"},
       "How ranks add up gradients; auto: what the cluster's links make cheapest"},
      {"StrategySpec.compression",
       {"none", "fp16", "bf16", "int8", "top-k"},
       "How gradients travel; what coding leaves out is added to the next step's"},
      {"StrategySpec.overlap",
       {"auto", "always", "never"},
       "Collectives overlapped with computation; auto: those between hosts"},
      {"StrategySpec.gather_bytes",
       {},
       "What zero-2 and zero-3 hold whole at once, in bytes; 0: twice a layer's"},
      {"StrategySpec.recompute",
       {"none", "selective", "full"},
       "Activations made again in the backward pass, for less memory and more time"},
      {"StrategySpec.top_k_after",
       {},
       "Steps in which gradients travel whole before top-k begins; 0: 200"},
      {"StrategySpec.top_k_ratio",
       {},
       "Part of the gradients that top-k sends, the largest; 0: 0.01"},
      {"StrategySpec.schedule",
       {"1f1b", "gpipe", "zb-h1"},
       "The order of micro-batches on a stage"},
  };
  return kFacts;
}
// What leaving a field out means, where the spec's rules write no default in.
struct UnsetFact {
  std::string_view name, means;
};
constexpr UnsetFact kUnset[] = {
    {"ClusterSpec.name", "none"},
    {"ClusterSpec.comm", "automatic"},
    {"ClusterSpec.version", "1"},
    {"NodeSpec.address", "automatic"},
    {"NodeSpec.interface", "any"},
    {"NodeSpec.workdir", "~/.lockstep"},
    {"NodeSpec.roles", "worker"},
    {"SshSpec.user", "from SSH config"},
    {"SshSpec.port", "from SSH config"},
    {"SshSpec.identity_file", "from SSH config"},
    {"SshSpec.proxy_jump", "from SSH config"},
    {"DeviceSpec.kind", "cpu"},
    {"DeviceSpec.count", "1"},
    {"DeviceSpec.threads", "1"},
    {"DeviceSpec.gpus", "one for each rank"},
    {"LinkSpec.bandwidth_mbit", "unknown"},
    {"LinkSpec.latency_us", "unknown"},
    {"ModelSpec.classes", "from the last layer"},
    {"ModelSpec.name", "model"},
    {"ModelSpec.version", "1"},
    {"InputSpec.scale", "1/255 for images, otherwise 1"},
    {"InputSpec.vocabulary", "not text"},
    {"InputSpec.columns", "none"},
    {"InputSpec.categories", "none"},
    {"LayerSpec.name", "kind and number"},
    {"LayerSpec.inputs", "the layer before"},
    {"DenseLayer.activation", "none"},
    {"DenseLayer.tied", "a weight of its own"},
    {"Conv2dLayer.stride", "1"},
    {"Conv2dLayer.padding", "valid"},
    {"Conv2dLayer.activation", "none"},
    {"MaxPool2dLayer.stride", "its size"},
    {"AddLayer.activation", "none"},
    {"BatchNormLayer.momentum", "0.9"},
    {"BatchNormLayer.epsilon", "1e-5"},
    {"BatchNormLayer.groups", "one for each micro-batch"},
    {"BatchNormLayer.activation", "none"},
    {"TransformerLayer.feed_forward", "4 × the channels"},
    {"TransformerLayer.dropout", "none"},
    {"DropoutLayer.rate", "none"},
    {"DataSpec.format", "from the model's input"},
    {"DataFiles.images_sha256", "not checked"},
    {"DataFiles.labels_sha256", "not checked"},
    {"DataFiles.text_sha256", "not checked"},
    {"DataFiles.table_sha256", "not checked"},
    {"DataFiles.from", "the beginning"},
    {"DataFiles.to", "the end"},
    {"AugmentSpec.crop", "none"},
    {"TrainingSpec.epochs", "until max_steps"},
    {"TrainingSpec.max_steps", "no limit"},
    {"TrainingSpec.backend", "from the device"},
    {"TrainingSpec.evaluate_batch", "automatic"},
    {"OptimizerSpec.momentum", "none"},
    {"OptimizerSpec.weight_decay", "none"},
    {"OptimizerSpec.beta1", "not used"},
    {"OptimizerSpec.beta2", "not used"},
    {"OptimizerSpec.epsilon", "not used"},
    {"OptimizerSpec.clip_norm", "no limit"},
    {"OptimizerSpec.for_batch", "as written"},
    {"ScheduleSpec.warmup_steps", "none"},
    {"ScheduleSpec.steps", "max_steps"},
    {"ScheduleSpec.final_rate", "0"},
    {"ScheduleSpec.every", "not used"},
    {"ScheduleSpec.factor", "not used"},
    {"LossScaleSpec.initial", "not used"},
    {"LossScaleSpec.growth_interval", "not used"},
    {"CheckpointSpec.keep", "2"},
    {"StrategySpec.bucket_bytes", "automatic"},
    {"StrategySpec.micro_batches", "1"},
    {"StrategySpec.local_steps", "strategy default"},
    {"StrategySpec.tensor", "strategy default"},
    {"StrategySpec.stages", "strategy default"},
    {"StrategySpec.servers", "strategy default"},
    {"StrategySpec.staleness", "none"},
    {"StrategySpec.dense", "servers"},
    {"StrategySpec.gather_bytes", "automatic"},
    {"StrategySpec.deterministic_parts", "off"},
    {"StrategySpec.shares", "even"},
    {"StrategySpec.top_k_after", "200"},
    {"StrategySpec.top_k_ratio", "0.01"},
    {"RunSpec.version", "1"},
};

// Without these a spec is not complete.
constexpr std::string_view kNeeded[] = {
    "NodeSpec.name",        "SshSpec.host",
    "LinkSpec.from",        "LinkSpec.to",
    "InputSpec.shape",      "DenseLayer.units",
    "Conv2dLayer.filters",  "Conv2dLayer.kernel",
    "MaxPool2dLayer.size",  "ActivationLayer.function",
    "EmbeddingLayer.units", "TransformerLayer.heads",
    "DataFiles.images",     "DataFiles.labels",
    "DataFiles.text",       "DataFiles.table",
    "PinSpec.layer",        "PinSpec.stage",
};

constexpr std::string_view kFiles[] = {"DataFiles.images", "DataFiles.labels", "DataFiles.text",
                                       "DataFiles.table", "SshSpec.identity_file"};

// What a new layer begins with.
constexpr std::pair<std::string_view, std::string_view> kStart[] = {
    {"DenseLayer.units", "128"},          {"DenseLayer.activation", "relu"},
    {"Conv2dLayer.filters", "32"},        {"Conv2dLayer.kernel", "3"},
    {"Conv2dLayer.activation", "relu"},   {"MaxPool2dLayer.size", "2"},
    {"ActivationLayer.function", "relu"}, {"EmbeddingLayer.units", "128"},
    {"TransformerLayer.heads", "4"},      {"DropoutLayer.rate", "0.1"},
};

std::string fullName(const FieldDescriptor& field) {
  return field.containing_type()->name() + "." + field.name();
}

const FieldFacts* factsOf(const FieldDescriptor& field) {
  const std::string name = fullName(field);
  for (const auto& entry : facts()) {
    if (name == entry.name) return &entry;
  }
  return nullptr;
}

}  // namespace

std::string nearest(const std::string& text, const std::vector<std::string>& names) {
  if (text.size() > 64) return {};
  std::string best;
  std::size_t least = text.size() / 3 + 1;
  if (least > 3) least = 3;
  for (const auto& name : names) {
    const std::size_t d = distance(text, name);
    if (d <= least && (best.empty() || d < least)) {
      best = name;
      least = d;
    }
  }
  if (best.empty() && text.size() >= 3) {
    for (const auto& name : names) {
      if (name.rfind(text, 0) == 0 || (name.size() >= 3 && text.rfind(name, 0) == 0)) return name;
      if (name.size() > text.size() &&
          name.compare(name.size() - text.size(), text.size(), text) == 0) {
        return name;
      }
    }
  }
  return best;
}

const std::vector<std::string>& choicesOf(const FieldDescriptor& field) {
  static const std::vector<std::string> kNone;
  const auto* entry = factsOf(field);
  return entry == nullptr ? kNone : entry->choices;
}

std::string helpOf(const FieldDescriptor& field) {
  const auto* entry = factsOf(field);
  return entry == nullptr ? std::string() : entry->help;
}

std::string unsetOf(const FieldDescriptor& field) {
  const std::string name = fullName(field);
  for (const auto& fact : kUnset) {
    if (fact.name == name) return std::string(fact.means);
  }
  return {};
}

bool isNeeded(const FieldDescriptor& field) {
  return std::find(std::begin(kNeeded), std::end(kNeeded), fullName(field)) != std::end(kNeeded);
}

bool isFile(const FieldDescriptor& field) {
  return std::find(std::begin(kFiles), std::end(kFiles), fullName(field)) != std::end(kFiles);
}

std::string startOf(const FieldDescriptor& field) {
  const std::string name = fullName(field);
  for (const auto& [key, value] : kStart) {
    if (key == name) return std::string(value);
  }
  return {};
}

const Descriptor* rootOf(SpecKind kind) {
  switch (kind) {
    case SpecKind::kRun:
      return spec::v1::RunSpec::descriptor();
    case SpecKind::kCluster:
      return spec::v1::ClusterSpec::descriptor();
    case SpecKind::kModel:
      return spec::v1::ModelSpec::descriptor();
  }
  return nullptr;
}

std::vector<std::string> splitPath(std::string_view path) {
  std::vector<std::string> parts;
  std::string word;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '.') {
      if (!word.empty()) parts.push_back(std::move(word));
      word.clear();
    } else if (path[i] == '[') {
      if (!word.empty()) parts.push_back(std::move(word));
      word.clear();
      const auto close = path.find(']', i);
      const auto end = close == std::string_view::npos ? path.size() : close + 1;
      parts.emplace_back(path.substr(i, end - i));
      i = end - 1;
    } else {
      word += path[i];
    }
  }
  if (!word.empty()) parts.push_back(std::move(word));
  return parts;
}

const FieldDescriptor* findField(SpecKind kind, std::string_view path, const Descriptor** parent) {
  const Descriptor* type = rootOf(kind);
  const FieldDescriptor* field = nullptr;
  for (const auto& part : splitPath(path)) {
    if (part[0] == '[') continue;
    if (type == nullptr) return nullptr;
    field = type->FindFieldByName(part);
    if (field == nullptr) return nullptr;
    if (parent != nullptr) *parent = type;
    type = field->is_map() ? nullptr : field->message_type();
  }
  return field;
}

void decode(const YamlNode& node, const std::string& file, Message& message, std::string* modelPath,
            std::vector<SpecProblem>& problems) {
  Decoder{file, problems, modelPath}.message(node, "", message);
}

}  // namespace lockstep::app
