// Runs a graph node by node on the reference backend: what a graph means, without plan, memory
// layout or streams.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "engine/backends/backend.h"
#include "engine/ir/graph.h"
#include "engine/ir/ops.h"

namespace lockstep::testing {

using Numbers = std::vector<double>;

class Evaluation {
 public:
  // `feeds` has inputs and states by their names, as doubles whatever their type.
  Evaluation(const ir::Graph& graph, const std::map<std::string, Numbers>& feeds)
      : graph_(graph), memory_(graph.values().size()) {
    const auto backend = backends::makeBackend("reference", {});
    LOCKSTEP_CHECK(backend.ok(), "{}", backend.ok() ? "" : backend.error().text());
    for (const ir::Node& node : graph.nodes()) run(**backend, node, feeds);
  }

  Numbers numbers(ir::ValueId id) const {
    const ir::TensorType& type = graph_.value(id).type;
    Numbers out(static_cast<std::size_t>(type.count()));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = get(id, i);
    return out;
  }
  const std::map<std::string, Numbers>& stored() const { return stored_; }    // by state
  const std::map<std::string, Numbers>& results() const { return results_; }  // by name

 private:
  std::byte* data(ir::ValueId id) const {
    return const_cast<std::byte*>(memory_[static_cast<std::size_t>(id)].data());
  }
  template <typename T>
  T read(ir::ValueId id, std::size_t i) const {
    T value;
    std::memcpy(&value, data(id) + i * sizeof(T), sizeof(T));
    return value;
  }
  double get(ir::ValueId id, std::size_t i) const {
    switch (graph_.value(id).type.dtype) {
      case DType::kF64:
        return read<double>(id, i);
      case DType::kF32:
        return static_cast<double>(read<float>(id, i));
      case DType::kI32:
        return read<std::int32_t>(id, i);
      default:
        return read<std::uint8_t>(id, i);
    }
  }
  template <typename T>
  void write(ir::ValueId id, std::size_t i, double number) {
    const T value = static_cast<T>(number);
    std::memcpy(data(id) + i * sizeof(T), &value, sizeof(T));
  }
  void fill(ir::ValueId id, const std::string& name, const std::map<std::string, Numbers>& feeds) {
    const auto it = feeds.find(name);
    const ir::TensorType& type = graph_.value(id).type;
    LOCKSTEP_CHECK(it != feeds.end(), "{} is not fed", name);
    LOCKSTEP_CHECK(it->second.size() == static_cast<std::size_t>(type.count()), "{}", name);
    for (std::size_t i = 0; i < it->second.size(); ++i) {
      const double number = it->second[i];
      switch (type.dtype) {
        case DType::kF64:
          write<double>(id, i, number);
          break;
        case DType::kF32:
          write<float>(id, i, number);
          break;
        case DType::kI32:
          write<std::int32_t>(id, i, number);
          break;
        default:
          write<std::uint8_t>(id, i, number);
          break;
      }
    }
  }

  void run(backends::Backend& backend, const ir::Node& node,
           const std::map<std::string, Numbers>& feeds) {
    for (ir::ValueId output : node.outputs)
      memory_[static_cast<std::size_t>(output)].resize(
          static_cast<std::size_t>(graph_.value(output).type.bytes()));
    const std::string name(ir::textAttr(
        node.attrs, node.op == ir::Op::kInput || node.op == ir::Op::kResult ? "name" : "state"));
    switch (node.op) {
      case ir::Op::kInput:
      case ir::Op::kState:
        return fill(node.outputs[0], name, feeds);
      case ir::Op::kStore:
        stored_[name] = numbers(node.inputs[0]);
        return;
      case ir::Op::kResult:
        results_[name] = numbers(node.inputs[0]);
        return;
      case ir::Op::kReshape:
      case ir::Op::kFlatView:
      case ir::Op::kFlatten:
        return view(node);
      default:
        break;
    }
    backends::KernelSpec spec;
    spec.op = node.op;
    spec.name = node.name;
    spec.attrs = &node.attrs;
    for (ir::ValueId id : node.inputs) spec.inputs.push_back({data(id), graph_.value(id).type});
    for (ir::ValueId id : node.outputs) spec.outputs.push_back({data(id), graph_.value(id).type});
    const auto kernel = backend.bind(spec);
    LOCKSTEP_CHECK(kernel.ok(), "{}", kernel.ok() ? "" : kernel.error().text());
    (*kernel)->run();
  }

  void view(const ir::Node& node) {
    const ir::ValueId output = node.outputs[0];
    const std::size_t element = sizeOf(graph_.value(output).type.dtype);
    if (node.op != ir::Op::kFlatten) {
      const auto offset = static_cast<std::size_t>(ir::intAttr(node.attrs, "offset")) * element;
      std::memcpy(data(output), data(node.inputs[0]) + offset,
                  static_cast<std::size_t>(graph_.value(output).type.bytes()));
      return;
    }
    std::byte* at = data(output);
    for (ir::ValueId input : node.inputs) {
      const auto bytes = static_cast<std::size_t>(graph_.value(input).type.bytes());
      std::memcpy(at, data(input), bytes);
      at += bytes;
    }
  }

  const ir::Graph& graph_;
  std::vector<std::vector<std::byte>> memory_;
  std::map<std::string, Numbers> stored_, results_;
};

}  // namespace lockstep::testing
