#include <array>

#include "engine/specs/field.h"
#include "engine/specs/specs.h"

namespace lockstep::specs {

std::span<const std::string_view> strategyKinds() {
  static constexpr std::array<std::string_view, 6> kKinds{
      "multi-worker-mirrored", "mirrored", "zero-1", "zero-2", "zero-3", "tensor-parallel"};
  return kKinds;
}

Result<cluster::Mesh> toMesh(const spec::v1::StrategySpec& strategy, int ranks) {
  const bool all = strategy.kind() == "tensor-parallel";
  const int tensor = strategy.tensor() > 0 ? strategy.tensor() : all ? ranks : 1;
  if (ranks % tensor != 0)
    return wrongField("strategy.tensor",
                      fmt::format("tensor is {}; expected a divisor of the {} ranks", tensor, ranks));
  std::vector<cluster::Axis> axes{{"data", ranks / tensor}};
  if (tensor > 1) axes.push_back({"model", tensor});
  return cluster::Mesh(std::move(axes));
}

}  // namespace lockstep::specs
