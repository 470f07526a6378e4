// Appends nodes of one phase to a graph, each on the stage that is set.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/ir/graph.h"
#include "engine/ir/ops.h"

namespace lockstep::passes {

struct GraphBuilder {
  ir::Graph& graph;
  DType dtype;
  ir::Phase phase;
  int stage = 0;

  Result<ir::ValueId> add(ir::Op op, std::string name, std::vector<ir::ValueId> inputs,
                          ir::Attrs attrs) {
    LOCKSTEP_ASSIGN(const ir::NodeId node,
                    graph.add(op, std::move(name), std::move(inputs), std::move(attrs), phase));
    graph.setStage(node, stage);
    return graph.node(node).outputs.empty() ? ir::ValueId{-1} : graph.output(node);
  }
  ir::Attrs typed(const Shape& shape) const {
    return {{"dtype", std::string(dtypeName(dtype))}, {"shape", shape}};
  }
  Result<ir::ValueId> input(const std::string& name) {
    ir::Attrs attrs = typed({1});
    attrs["name"] = name;
    return add(ir::Op::kInput, name, {}, std::move(attrs));
  }
  Result<ir::ValueId> state(const std::string& name, std::int64_t count) {
    ir::Attrs attrs = typed({count});
    attrs["state"] = name;
    return add(ir::Op::kState, name, {}, std::move(attrs));
  }
  Result<ir::ValueId> fill(std::string name, const Shape& shape, double value) {
    ir::Attrs attrs = typed(shape);
    attrs["value"] = value;
    return add(ir::Op::kFill, std::move(name), {}, std::move(attrs));
  }
  Result<ir::ValueId> slice(std::string name, ir::ValueId of, std::int64_t offset,
                            const Shape& shape) {
    return add(ir::Op::kFlatView, std::move(name), {of}, {{"offset", offset}, {"shape", shape}});
  }
  Status store(const std::string& state, ir::ValueId value) {
    return add(ir::Op::kStore, state + ".store", {value}, {{"state", state}}).status();
  }
};

// "params.3"
inline std::string indexed(std::string_view prefix, std::size_t index) {
  return fmt::format("{}.{}", prefix, index);
}

}  // namespace lockstep::passes
