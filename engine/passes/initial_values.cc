#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/base/hash.h"
#include "engine/base/random.h"
#include "engine/passes/graph_builder.h"
#include "engine/passes/programs.h"

namespace lockstep::passes {
namespace {

using ir::Attrs;
using ir::Op;
using ir::Phase;
using ir::ValueId;

Result<ValueId> initialValue(GraphBuilder& build, const ir::Parameter& parameter,
                             std::uint64_t seed) {
  const std::string& kind = parameter.initializer;
  const auto fanIn = static_cast<double>(std::max<std::int64_t>(parameter.fanIn, 1));
  const auto fanSum =
      static_cast<double>(std::max<std::int64_t>(parameter.fanIn + parameter.fanOut, 1));
  if (kind == "zeros" || kind == "ones") {
    return build.fill(parameter.name, parameter.shape, kind == "ones" ? 1.0 : 0.0);
  }
  constexpr std::string_view kNormal = "normal:";
  const bool normal = kind.ends_with("-normal") || kind.starts_with(kNormal);
  double scale = 0;
  if (kind == "glorot-uniform") {
    scale = std::sqrt(6.0 / fanSum);
  } else if (kind == "glorot-normal") {
    scale = std::sqrt(2.0 / fanSum);
  } else if (kind == "he-uniform") {
    scale = std::sqrt(6.0 / fanIn);
  } else if (kind == "he-normal") {
    scale = std::sqrt(2.0 / fanIn);
  } else if (kind == "torch-uniform") {
    scale = std::sqrt(1.0 / fanIn);
  } else if (kind.starts_with(kNormal) &&
             std::from_chars(kind.data() + kNormal.size(), kind.data() + kind.size(), scale).ec ==
                 std::errc()) {
    // the number is the standard deviation
  } else {
    return invalidArgument(
        "parameter {}: unknown initializer {}; known are zeros, ones, "
        "glorot-uniform, glorot-normal, he-uniform, he-normal, torch-uniform and "
        "normal:S",
        parameter.name, kind);
  }
  Attrs attrs = build.typed(parameter.shape);
  const std::string& whole = parameter.partOf.whole;
  attrs["key"] = static_cast<std::int64_t>(
      randomKey(seed, stableHash(whole.empty() ? parameter.name : whole)));
  if (!whole.empty()) {
    const std::int64_t count = elementCount(parameter.shape);
    attrs["block"] = attrs["pitch"] = count;
    attrs["first"] = parameter.partOf.first * (count / parameter.shape[0]);
  }
  attrs["kind"] = std::string(normal ? "normal" : "uniform");
  attrs["scale"] = scale;
  return build.add(Op::kRandom, parameter.name, {}, std::move(attrs));
}

}  // namespace

Result<ir::Graph> initGraph(const ir::ModelGraph& model, std::uint64_t seed) {
  ir::Graph graph("init");
  GraphBuilder build{graph, model.compute, ir::Phase::kInit};
  for (const auto* states : {&model.parameters, &model.statistics}) {
    for (const ir::Parameter& parameter : *states) {
      build.stage = model.graph.find(parameter.name)->stage;
      LOCKSTEP_ASSIGN(const ir::ValueId value, initialValue(build, parameter, seed));
      LOCKSTEP_TRY(build.store(parameter.name, value));
    }
  }
  return graph;
}

}  // namespace lockstep::passes
