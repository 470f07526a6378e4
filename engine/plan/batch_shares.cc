#include "engine/plan/batch_shares.h"

#include <algorithm>
#include <utility>

#include "engine/cluster/cuts.h"
#include "engine/plan/plan.h"

namespace lockstep::plan {

BatchShares::BatchShares(const Plan& plan)
    : mesh_(plan.mesh), cuts_(plan.batchCuts), microBatches_(plan.microBatches) {}

// The plan's; of another world, the plan's with another size of axis data.
cluster::Mesh BatchShares::meshOf(int world) const {
  if (world == mesh_.size()) return mesh_;
  const int others = std::max(1, mesh_.workers() / std::max(1, mesh_.axisSize(cluster::kDataAxis)));
  std::vector<cluster::Axis> axes = mesh_.axes();
  for (cluster::Axis& axis : axes)
    if (axis.name == cluster::kDataAxis) axis.size = (world - mesh_.servers()) / others;
  return cluster::Mesh(std::move(axes), mesh_.servers());
}

std::vector<int> BatchShares::shareOf(int world) const {
  const cluster::Mesh mesh = meshOf(world);
  if (cuts_.size() < 2 || mesh.axisSize(cluster::kDataAxis) < 1 || mesh.size() != world) return {};
  std::vector<int> out;
  for (int rank = 0; rank < world; ++rank)
    out.push_back(mesh.isServer(rank) ? -1 : mesh.coordinate(rank, cluster::kDataAxis));
  return out;
}

std::vector<double> BatchShares::of(int world) const {
  if (!anew_.empty() && std::ssize(anew_) == world) return anew_;
  const std::vector<int> shares = shareOf(world);
  if (shares.empty()) return {};
  const int parts = meshOf(world).axisSize(cluster::kDataAxis);
  const std::vector<std::int64_t> cuts =
      world == mesh_.size() ? cuts_ : cluster::evenCuts(cuts_.back(), parts);
  std::vector<double> out;
  for (const int share : shares) {
    const auto at = static_cast<std::size_t>(share);
    if (share >= 0 && at + 1 >= cuts.size()) return {};
    out.push_back(share < 0 ? 0 : static_cast<double>((cuts[at + 1] - cuts[at]) * microBatches_));
  }
  return out;
}

}  // namespace lockstep::plan
