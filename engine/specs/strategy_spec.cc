#include <algorithm>
#include <vector>

#include "engine/cluster/cuts.h"
#include "engine/cluster/strategies.h"
#include "engine/specs/field.h"
#include "engine/specs/specs.h"

namespace lockstep::specs {

bool hasServers(const spec::v1::StrategySpec& strategy) {
  const cluster::Strategy* kind = cluster::findStrategy(strategy.kind());
  return (kind != nullptr && kind->servers) || strategy.servers() > 0;
}

bool isOpen(const spec::v1::StrategySpec& strategy) {
  return strategy.kind() == cluster::kAutoStrategy;
}

std::string_view plainestKind(const spec::v1::StrategySpec& strategy) {
  if (strategy.servers() > 0 || strategy.staleness() != 0 || strategy.dense() == "all-reduce")
    return "parameter-server";
  if (strategy.stages() > 1) return "pipeline";
  return strategy.tensor() > 1 ? "tensor-parallel" : "multi-worker-mirrored";
}

Result<cluster::Mesh> toMesh(const spec::v1::StrategySpec& strategy, int ranks, int servers) {
  if (servers > 0 && strategy.servers() > 0 && strategy.servers() != servers)
    return wrongField("strategy.servers",
                      message("strategy.servers is {}, and the nodes of role ps have {} "
                              "devices; expected it left out",
                              strategy.servers(), servers),
                      {{{"strategy.servers", ""}}});
  if (servers == 0) servers = hasServers(strategy) ? std::max(strategy.servers(), 1) : 0;
  if (servers >= ranks) {
    Remedy fewer{{"strategy.servers", fmt::format("{}", ranks - 1)}};
    if (ranks == 1) {  // suggest a strategy without servers
      fewer.front().value = "0";
      fewer.push_back({"strategy.kind", "multi-worker-mirrored"});
      if (strategy.staleness() != 0) fewer.push_back({"strategy.staleness", "0"});
      if (strategy.dense() == "all-reduce") fewer.push_back({"strategy.dense", "servers"});
    }
    return wrongField(
        "strategy.servers",
        message("strategy.servers is {}, and there {}; expected fewer, so that one computes",
                servers, ranks == 1 ? "is 1 rank" : message("are {} ranks", ranks)),
        {std::move(fewer)});
  }
  ranks -= servers;
  const cluster::Strategy* kind = cluster::findStrategy(strategy.kind());
  const std::string_view axis = kind == nullptr ? cluster::kDataAxis : kind->axis;
  const auto asked = [](int count) { return std::max(count, 1); };
  int tensor = asked(strategy.tensor()), stages = asked(strategy.stages());
  if (axis == cluster::kModelAxis && strategy.tensor() == 0 && ranks % stages == 0)
    tensor = ranks / stages;
  if (ranks % tensor != 0)
    return wrongField(
        "strategy.tensor",
        message("strategy.tensor is {}; expected a divisor of the {} ranks", tensor, ranks),
        {{{"strategy.tensor",
           fmt::format("{}", cluster::divisorUpTo(ranks % stages == 0 ? ranks / stages : ranks,
                                                  tensor))}}});
  if (axis == cluster::kStageAxis && strategy.stages() == 0) stages = ranks / tensor;
  if (ranks / tensor % stages != 0)
    return wrongField(
        "strategy.stages",
        message("strategy.stages is {}; expected a divisor of {}", stages,
                tensor > 1 ? message("{}, the {} ranks divided by strategy.tensor, {}",
                                     ranks / tensor, ranks, tensor)
                           : message("the {} ranks", ranks)),
        {{{"strategy.stages", fmt::format("{}", cluster::divisorUpTo(ranks / tensor, stages))}}});
  std::vector<cluster::Axis> axes;
  if (stages > 1) axes.push_back({std::string(cluster::kStageAxis), stages});
  axes.push_back({std::string(cluster::kDataAxis), ranks / tensor / stages});
  if (tensor > 1) axes.push_back({std::string(cluster::kModelAxis), tensor});
  return cluster::Mesh(std::move(axes), servers);
}

}  // namespace lockstep::specs
