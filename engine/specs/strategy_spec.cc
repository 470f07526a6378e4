#include <algorithm>
#include <array>

#include "engine/specs/field.h"
#include "engine/specs/specs.h"

namespace lockstep::specs {

std::span<const std::string_view> strategyKinds() {
  static constexpr std::array<std::string_view, 11> kKinds{
      "multi-worker-mirrored", "mirrored", "zero-1", "zero-2", "zero-3", "tensor-parallel",
      "pipeline", "placement", "local-sgd", "parameter-server", "central-storage"};
  return kKinds;
}

bool hasServers(const spec::v1::StrategySpec& strategy) {
  return strategy.kind() == "parameter-server" || strategy.kind() == "central-storage" ||
         strategy.servers() > 0;
}

Result<cluster::Mesh> toMesh(const spec::v1::StrategySpec& strategy, int ranks, int servers) {
  if (servers > 0 && strategy.servers() > 0 && strategy.servers() != servers)
    return wrongField("strategy.servers",
                      fmt::format("servers is {}, and the nodes of role ps have {} devices; expected {}, or "
                                  "none, which means so many",
                                  strategy.servers(), servers, servers));
  if (servers == 0) servers = hasServers(strategy) ? std::max(strategy.servers(), 1) : 0;
  if (servers >= ranks)
    return wrongField("strategy.servers",
                      fmt::format("servers is {}; expected at most {}, so that one of the {} ranks "
                                  "computes",
                                  servers, ranks - 1, ranks));
  ranks -= servers;
  // What a kind is named for takes all ranks that are not asked for otherwise.
  const auto asked = [](int count) { return std::max(count, 1); };
  int tensor = asked(strategy.tensor()), stages = asked(strategy.stages());
  if (strategy.kind() == "tensor-parallel" && strategy.tensor() == 0 && ranks % stages == 0)
    tensor = ranks / stages;
  if (ranks % tensor != 0)
    return wrongField("strategy.tensor",
                      fmt::format("tensor is {}; expected a divisor of the {} ranks", tensor, ranks));
  const bool staged = strategy.kind() == "pipeline" || strategy.kind() == "placement";
  if (staged && strategy.stages() == 0) stages = ranks / tensor;
  if (ranks / tensor % stages != 0)
    return wrongField("strategy.stages",
                      fmt::format("stages is {}; expected a divisor of {}", stages,
                                  tensor > 1 ? fmt::format("{} ranks / {} of axis model", ranks, tensor)
                                             : fmt::format("the {} ranks", ranks)));
  std::vector<cluster::Axis> axes;
  if (stages > 1) axes.push_back({"stage", stages});
  axes.push_back({"data", ranks / tensor / stages});
  if (tensor > 1) axes.push_back({"model", tensor});
  return cluster::Mesh(std::move(axes), servers);
}

}  // namespace lockstep::specs
