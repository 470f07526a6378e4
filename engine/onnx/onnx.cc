#include "engine/onnx/onnx.h"

#include <onnx/onnx_pb.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <vector>

#include "engine/base/file.h"
#include "engine/ir/ops.h"
#include "engine/weights/layout.h"

namespace lockstep::onnx {
namespace {

using Floats = std::vector<float>;

constexpr int kOpset = 17;
constexpr const char* kBatch = "batch";
constexpr std::int64_t kAny = -1;  // of an extent, in Reshape

int onnxType(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return ::onnx::TensorProto::UINT8;
    case DType::kI32:
      return ::onnx::TensorProto::INT32;
    default:
      return ::onnx::TensorProto::FLOAT;
  }
}

// Builds the nodes of a graph of one sample, whose batch is then any.
class Exporter {
 public:
  Exporter(const models::Model& model, const ir::ModelGraph& graph,
           const weights::ModelWeights& weights, ::onnx::GraphProto& out)
      : model_(model), from_(graph.graph), weights_(weights), out_(out) {
    output_ = from_.node(from_.value(graph.loss).producer).inputs.front();
  }
  std::int64_t count() const { return count_; }

  Status run() {
    for (const ir::NodeId id : needed()) {
      node_ = &from_.node(id);
      LOCKSTEP_TRY(add());
    }
    const std::string last = names_.at(output_);
    const ir::TensorType& type = from_.value(output_).type;
    const bool isText = model_.vocabulary > 0;
    if (isText)
      reshape(last, {kAny, model_.input[0], type.shape[1]}, "output");
    else
      emit("Identity", {last}, "output");
    auto* output = out_.add_output();
    output->set_name("output");
    const Shape sample = isText ? Shape{model_.input[0], type.shape[1]}
                                : Shape{type.shape.begin() + 1, type.shape.end()};
    setType(*output, DType::kF32, sample);
    return {};
  }

 private:
  // The nodes that the output depends on, in order.
  std::vector<ir::NodeId> needed() const {
    std::vector<bool> is(from_.nodes().size(), false);
    is[static_cast<std::size_t>(from_.value(output_).producer)] = true;
    for (std::size_t id = is.size(); id-- > 0;)
      if (is[id])
        for (const ir::ValueId input : from_.nodes()[id].inputs)
          is[static_cast<std::size_t>(from_.value(input).producer)] = true;
    std::vector<ir::NodeId> out;
    for (std::size_t id = 0; id < is.size(); ++id)
      if (is[id]) out.push_back(static_cast<ir::NodeId>(id));
    return out;
  }

  const ir::TensorType& typeOf(int input) const {
    return from_.value(node_->inputs[static_cast<std::size_t>(input)]).type;
  }
  // The name of an operand; parameters that are used as they are become initializers here.
  std::string in(int input) {
    const ir::ValueId value = node_->inputs[static_cast<std::size_t>(input)];
    return names_.at(value);
  }
  // The name of the state that an operand is, or is a view of.
  const std::string& stateOf(int input) const {
    const ir::Node* at =
        &from_.node(from_.value(node_->inputs[static_cast<std::size_t>(input)]).producer);
    while (at->op == ir::Op::kReshape) at = &from_.node(from_.value(at->inputs[0]).producer);
    return at->name;
  }
  std::int64_t number(std::string_view attribute, std::int64_t fallback = 0) const {
    const auto at = node_->attrs.find(attribute);
    return at == node_->attrs.end() ? fallback : std::get<std::int64_t>(at->second);
  }
  double real(std::string_view attribute) const {
    return std::get<double>(node_->attrs.find(attribute)->second);
  }

  ::onnx::NodeProto& emit(const std::string& op, const std::vector<std::string>& inputs,
                          const std::string& output) {
    auto* node = out_.add_node();
    node->set_op_type(op);
    node->set_name(output + "." + op);
    for (const std::string& input : inputs) node->add_input(input);
    node->add_output(output);
    return *node;
  }
  // Likewise; the output is named after the model's node and `part`.
  std::string step(const std::string& op, const std::vector<std::string>& inputs,
                   std::string_view part) {
    std::string name = fmt::format("{}.{}", node_->name, part);
    emit(op, inputs, name);
    return name;
  }
  static void set(::onnx::NodeProto& node, const std::string& name, std::int64_t value) {
    auto* attribute = node.add_attribute();
    attribute->set_name(name);
    attribute->set_type(::onnx::AttributeProto::INT);
    attribute->set_i(value);
  }
  static void set(::onnx::NodeProto& node, const std::string& name, float value) {
    auto* attribute = node.add_attribute();
    attribute->set_name(name);
    attribute->set_type(::onnx::AttributeProto::FLOAT);
    attribute->set_f(value);
  }
  static void set(::onnx::NodeProto& node, const std::string& name, const Shape& values) {
    auto* attribute = node.add_attribute();
    attribute->set_name(name);
    attribute->set_type(::onnx::AttributeProto::INTS);
    for (const std::int64_t value : values) attribute->add_ints(value);
  }
  static void setType(::onnx::ValueInfoProto& value, DType dtype, const Shape& sample) {
    auto* type = value.mutable_type()->mutable_tensor_type();
    type->set_elem_type(onnxType(dtype));
    type->mutable_shape()->add_dim()->set_dim_param(kBatch);
    for (const std::int64_t extent : sample)
      type->mutable_shape()->add_dim()->set_dim_value(extent);
  }

  template <typename T>
  std::string constant(const std::string& name, const Shape& shape, const std::vector<T>& values,
                       int type) {
    auto* tensor = out_.add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(type);
    for (const std::int64_t extent : shape) tensor->add_dims(extent);
    tensor->set_raw_data(values.data(), values.size() * sizeof(T));
    return name;
  }
  std::string constant(std::string_view part, float value) {
    return constant<float>(fmt::format("{}.{}", node_->name, part), {}, {value},
                           ::onnx::TensorProto::FLOAT);
  }
  std::string numbers(const std::string& name, const Shape& values) {
    return constant<std::int64_t>(name, {std::ssize(values)}, values, ::onnx::TensorProto::INT64);
  }
  void reshape(const std::string& input, const Shape& shape, const std::string& output) {
    emit("Reshape", {input, numbers(output + ".shape", shape)}, output);
  }
  std::string reshaped(const std::string& input, const Shape& shape, std::string_view part) {
    std::string name = fmt::format("{}.{}", node_->name, part);
    reshape(input, shape, name);
    return name;
  }
  std::string transposed(const std::string& input, const Shape& order, std::string_view part) {
    std::string name = fmt::format("{}.{}", node_->name, part);
    set(emit("Transpose", {input}, name), "perm", order);
    return name;
  }

  // The weights of a state as f32.
  Result<Floats> read(const std::string& name, const Shape& shape) {
    const auto at = weights_.tensors().find(name);
    if (at == weights_.tensors().end() || at->second.shape != shape ||
        !weights::isConvertible(at->second.dtype)) {
      Error error = invalidArgument("{} is not of this model", weights_.path());
      error.why =
          at == weights_.tensors().end()
              ? message("it has no {}", name)
              : message("its {} is {}[{}], the model's f32[{}]", name, dtypeName(at->second.dtype),
                        shapeText(at->second.shape), shapeText(shape));
      return error;
    }
    const std::int64_t count = elementCount(shape);
    std::vector<std::byte> stored(static_cast<std::size_t>(count) * sizeOf(at->second.dtype));
    LOCKSTEP_TRY(weights_.read(name, stored));
    Floats out(static_cast<std::size_t>(count));
    weights::convert(at->second.dtype, stored.data(), DType::kF32,
                     reinterpret_cast<std::byte*>(out.data()), count);
    return out;
  }

  Status add() {
    using ir::Op;
    const std::string& name = node_->name;
    switch (node_->op) {
      case Op::kInput:
        return addInput();
      case Op::kState:
        return addState();
      case Op::kCast:
        set(emit("Cast", {in(0)}, name + ".cast"), "to", std::int64_t{::onnx::TensorProto::FLOAT});
        emit("Mul", {name + ".cast", constant("scale", static_cast<float>(real("scale")))}, name);
        break;
      case Op::kReshape:
        addReshape();
        break;
      case Op::kAdd:
        emit("Add", {in(0), in(1)}, name);
        break;
      case Op::kRelu:
        emit("Relu", {in(0)}, name);
        break;
      case Op::kTanh:
        emit("Tanh", {in(0)}, name);
        break;
      case Op::kGelu:
        addGelu();
        break;
      case Op::kMatmul:
        emit("MatMul", {in(0), number("tb") != 0 ? transposed(in(1), {1, 0}, "weight") : in(1)},
             name);
        break;
      case Op::kBiasAdd:
        addBias();
        break;
      case Op::kConcat:
        addConcat();
        break;
      default:
        return addLayer();
    }
    names_[node_->outputs[0]] = name;
    return {};
  }
  // The ops that are a layer of their own.
  Status addLayer() {
    using ir::Op;
    names_[node_->outputs[0]] = node_->name;
    switch (node_->op) {
      case Op::kConv2d:
        return addConv();
      case Op::kMaxPool2d:
        addMaxPool();
        return {};
      case Op::kMeanPool2d: {
        auto& node = emit("ReduceMean", {in(0)}, node_->name);
        set(node, "axes", Shape{1, 2});
        set(node, "keepdims", std::int64_t{0});
        return {};
      }
      case Op::kBatchNorm:
        return addBatchNorm();
      case Op::kEmbedding:
        emit("Gather", {in(0), in(1)}, node_->name);
        return {};
      case Op::kLayerNorm: {
        auto& node = emit("LayerNormalization", {in(0), in(1), in(2)}, node_->name);
        set(node, "axis", std::int64_t{-1});
        set(node, "epsilon", static_cast<float>(real("eps")));
        return {};
      }
      case Op::kAttention:
        addAttention();
        return {};
      default:
        return makeError(Code::kInternal, "{} is not known to ONNX", ir::info(node_->op).name);
    }
  }

  Status addInput() {
    const ir::TensorType& type = from_.value(node_->outputs[0]).type;
    auto* input = out_.add_input();
    input->set_name(node_->name);
    setType(*input, type.dtype, Shape(type.shape.begin() + 1, type.shape.end()));
    names_[node_->outputs[0]] = node_->name;
    return {};
  }
  // Weights of convolutions and batch norms are converted where they are used.
  Status addState() {
    const ir::TensorType& type = from_.value(node_->outputs[0]).type;
    count_ += type.count();
    names_[node_->outputs[0]] = node_->name;
    if (isConverted(node_->outputs[0])) return {};
    LOCKSTEP_ASSIGN(const Floats values, read(node_->name, type.shape));
    constant(node_->name, type.shape, values, ::onnx::TensorProto::FLOAT);
    return {};
  }
  bool isConverted(ir::ValueId value) const {
    for (const ir::Node& reader : from_.nodes())
      for (std::size_t i = 0; i < reader.inputs.size(); ++i)
        if (reader.inputs[i] == value)
          return reader.op == ir::Op::kBatchNorm || reader.op == ir::Op::kConv2d ||
                 isStatistic(reader);
    return false;
  }
  // Whether a node is the view that a batch norm has of a running statistic.
  bool isStatistic(const ir::Node& node) const {
    return node.op == ir::Op::kReshape &&
           from_.node(from_.value(node.inputs[0]).producer).op == ir::Op::kState;
  }

  void addReshape() {
    if (isStatistic(*node_)) return;
    Shape shape = from_.value(node_->outputs[0]).type.shape;
    shape[0] = kAny;  // the graph's is that of one sample
    reshape(in(0), shape, node_->name);
  }
  void addBias() {
    const Shape& bias = typeOf(1).shape;
    if (bias.size() == 1) {
      emit("Add", {in(0), in(1)}, node_->name);
      return;
    }
    const std::string samples = reshaped(in(0), {kAny, bias[0], bias[1]}, "samples");
    reshape(step("Add", {samples, in(1)}, "sum"), {kAny, bias[1]}, node_->name);
  }
  void addConcat() {
    std::vector<std::string> all;
    for (int i = 0; i < static_cast<int>(node_->inputs.size()); ++i) all.push_back(in(i));
    set(emit("Concat", all, node_->name), "axis", std::int64_t{1});
  }
  // ½·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))): opset 17 has no Gelu.
  void addGelu() {
    const std::string x = in(0);
    const std::string square = step("Mul", {x, x}, "square");
    const std::string cubic = step("Mul", {square, constant("cubic-factor", 0.044715F)}, "cubic");
    const std::string one = constant("one", 1);
    const std::string inner = step("Mul", {x, step("Add", {cubic, one}, "polynomial")}, "inner");
    const std::string scaled =
        step("Mul", {inner, constant("scale", 0.797884560802865F)}, "scaled");
    const std::string gate = step("Add", {step("Tanh", {scaled}, "tanh"), one}, "gate");
    const std::string half = step("Mul", {x, constant("half-factor", 0.5F)}, "half");
    emit("Mul", {half, gate}, node_->name);
  }

  Status addConv() {
    const Shape& shape = typeOf(1).shape;  // [kh×kw×C×O]
    LOCKSTEP_ASSIGN(const Floats given, read(stateOf(1), shape));
    const std::int64_t window = shape[0] * shape[1], in = shape[2], out = shape[3];
    Floats values(given.size());
    for (std::int64_t w = 0; w < window; ++w)
      for (std::int64_t c = 0; c < in; ++c)
        for (std::int64_t o = 0; o < out; ++o)
          values[static_cast<std::size_t>((o * in + c) * window + w)] =
              given[static_cast<std::size_t>((w * in + c) * out + o)];
    const std::string weight =
        constant(stateOf(1), {out, in, shape[0], shape[1]}, values, ::onnx::TensorProto::FLOAT);
    const std::string x = transposed(this->in(0), {0, 3, 1, 2}, "nchw");
    const std::string y = node_->name + ".conv";
    auto& node = emit("Conv", {x, weight}, y);
    const std::int64_t pad = number("pad"), stride = number("stride");
    set(node, "kernel_shape", Shape{shape[0], shape[1]});
    set(node, "pads", Shape{pad, pad, pad, pad});
    set(node, "strides", Shape{stride, stride});
    set(emit("Transpose", {y}, node_->name), "perm", Shape{0, 2, 3, 1});
    return {};
  }
  void addMaxPool() {
    const std::string x = transposed(in(0), {0, 3, 1, 2}, "nchw");
    const std::string y = node_->name + ".pool";
    auto& node = emit("MaxPool", {x}, y);
    const std::int64_t size = number("size"), stride = number("stride");
    set(node, "kernel_shape", Shape{size, size});
    set(node, "strides", Shape{stride, stride});
    set(emit("Transpose", {y}, node_->name), "perm", Shape{0, 2, 3, 1});
  }
  // x·factor + shift, from the running statistics.
  Status addBatchNorm() {
    const Shape channels = typeOf(1).shape;
    Floats of[4];  // gain, bias, mean, variance
    for (int i = 0; i < 4; ++i) {
      LOCKSTEP_ASSIGN(of[i], read(stateOf(i + 1), channels));
    }
    Floats factor, shift;
    for (std::size_t c = 0; c < of[0].size(); ++c) {
      const double scale = of[0][c] / std::sqrt(double{of[3][c]} + real("eps"));
      factor.push_back(static_cast<float>(scale));
      shift.push_back(static_cast<float>(of[1][c] - of[2][c] * scale));
    }
    const auto floats = ::onnx::TensorProto::FLOAT;
    const std::string scaled =
        step("Mul", {in(0), constant(node_->name + ".factor", channels, factor, floats)}, "scaled");
    emit("Add", {scaled, constant(node_->name + ".shift", channels, shift, floats)}, node_->name);
    return {};
  }
  void addAttention() {
    const std::int64_t tokens = number("tokens"), head = number("head");
    const std::int64_t channels = typeOf(0).shape[1] / 3, heads = channels / head;
    const std::string qkv = reshaped(in(0), {kAny, tokens, heads, 3, head}, "qkv");
    std::string parts[3];
    for (int i = 0; i < 3; ++i) {
      const std::string name(1, "qkv"[i]);
      const std::string index = constant<std::int64_t>(
          fmt::format("{}.{}-index", node_->name, name), {}, {i}, ::onnx::TensorProto::INT64);
      const std::string part = fmt::format("{}.{}", node_->name, name);
      set(emit("Gather", {qkv, index}, part), "axis", std::int64_t{3});
      parts[i] = transposed(part, i == 1 ? Shape{0, 2, 3, 1} : Shape{0, 2, 1, 3}, name + "-heads");
    }
    std::string scores = step("MatMul", {parts[0], parts[1]}, "products");
    scores =
        step("Mul", {scores, constant("scale", 1 / std::sqrt(static_cast<float>(head)))}, "scores");
    if (number("causal") != 0) scores = step("Add", {scores, mask(tokens)}, "causal");
    const std::string weights = node_->name + ".weights";
    set(emit("Softmax", {scores}, weights), "axis", std::int64_t{-1});
    const std::string y = step("MatMul", {weights, parts[2]}, "mixed");
    reshape(transposed(y, {0, 2, 1, 3}, "tokens"), {kAny, channels}, node_->name);
  }
  // 0 where a token may attend to another, else the least number: one for all layers.
  std::string mask(std::int64_t tokens) {
    std::string name = "causal-mask";
    if (hasMask_) return name;
    hasMask_ = true;
    Floats values(static_cast<std::size_t>(tokens * tokens), 0);
    for (std::int64_t row = 0; row < tokens; ++row)
      for (std::int64_t column = row + 1; column < tokens; ++column)
        values[static_cast<std::size_t>(row * tokens + column)] =
            std::numeric_limits<float>::lowest();
    return constant(name, {tokens, tokens}, values, ::onnx::TensorProto::FLOAT);
  }

  const models::Model& model_;
  const ir::Graph& from_;
  const weights::ModelWeights& weights_;
  ::onnx::GraphProto& out_;
  ir::ValueId output_ = -1;
  const ir::Node* node_ = nullptr;            // the one that is added
  std::map<ir::ValueId, std::string> names_;  // of what has been added
  bool hasMask_ = false;
  std::int64_t count_ = 0;
};

}  // namespace

Result<std::int64_t> exportModel(const models::Model& model, const weights::ModelWeights& weights,
                                 const std::string& to) {
  LOCKSTEP_ASSIGN(const ir::ModelGraph graph,
                  models::build(model, 1, DType::kF32, models::Use::kEvaluation));
  // Before the weights are read; a tensor's name and shape are little beside.
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  std::int64_t bytes = 0;
  for (const ir::Parameter& parameter : graph.parameters)
    bytes += elementCount(parameter.shape) * static_cast<std::int64_t>(sizeof(float));
  if (bytes > kMost)
    return invalidArgument("the weights are {} MiB; an ONNX file has at most {}", bytes >> 20,
                           kMost >> 20);
  ::onnx::ModelProto out;
  out.set_ir_version(::onnx::IR_VERSION);
  out.set_producer_name("Lockstep");
  auto* opset = out.add_opset_import();
  opset->set_domain("");
  opset->set_version(kOpset);
  out.mutable_graph()->set_name(graph.graph.name());
  Exporter exporter(model, graph, weights, *out.mutable_graph());
  LOCKSTEP_TRY(exporter.run());
  if (out.ByteSizeLong() > static_cast<std::size_t>(kMost))
    return invalidArgument("the model is {} MiB; an ONNX file has at most {}",
                           out.ByteSizeLong() >> 20, kMost >> 20);
  LOCKSTEP_TRY(writeFileAtomically(to, out.SerializeAsString()));
  return exporter.count();
}

}  // namespace lockstep::onnx
