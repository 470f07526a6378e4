#include "engine/plan/batch_shares.h"

#include <algorithm>
#include <utility>

#include "engine/cluster/cuts.h"
#include "engine/plan/plan.h"

namespace lockstep::plan {

BatchShares::BatchShares(const Plan& plan) : mesh_(plan.mesh), cuts_(plan.batchCuts) {}

std::vector<double> BatchShares::of(int world) const {
  if (cuts_.size() < 2) return {};
  cluster::Mesh mesh = mesh_;
  std::vector<std::int64_t> cuts = cuts_;
  if (world != mesh.size()) {
    const int others = std::max(1, mesh.workers() / std::max(1, mesh.axisSize(cluster::kDataAxis)));
    std::vector<cluster::Axis> axes = mesh.axes();
    for (cluster::Axis& axis : axes)
      if (axis.name == cluster::kDataAxis) axis.size = (world - mesh.servers()) / others;
    mesh = cluster::Mesh(std::move(axes), mesh.servers());
    if (mesh.axisSize(cluster::kDataAxis) < 1 || mesh.size() != world) return {};
    cuts = cluster::evenCuts(cuts.back(), mesh.axisSize(cluster::kDataAxis));
  }
  std::vector<double> out;
  for (int rank = 0; rank < world; ++rank) {
    if (mesh.isServer(rank)) {
      out.push_back(0);
      continue;
    }
    const auto share = static_cast<std::size_t>(mesh.coordinate(rank, cluster::kDataAxis));
    if (share + 1 >= cuts.size()) return {};
    out.push_back(static_cast<double>(cuts[share + 1] - cuts[share]));
  }
  return out;
}

}  // namespace lockstep::plan
