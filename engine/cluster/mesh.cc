#include "engine/cluster/mesh.h"

namespace lockstep::cluster {
namespace {

// Returns the distance of ranks whose coordinates differ by one along axis `index`.
int stride(const std::vector<Axis>& axes, std::size_t index) {
  int product = 1;
  for (std::size_t i = index + 1; i < axes.size(); ++i) product *= axes[i].size;
  return product;
}

}  // namespace

int Mesh::workers() const {
  int product = 1;
  for (const Axis& axis : axes_) product *= axis.size;
  return product;
}

std::vector<Axis> Mesh::groupAxes() const {
  std::vector<Axis> axes = axes_;
  if (servers_ > 0) axes.push_back({std::string(kServerAxis), size()});
  return axes;
}

int Mesh::stageOf(int rank) const {
  if (servers_ == 0) return coordinate(rank, kStageAxis);
  return isServer(rank) ? 1 + rank - workers() : 0;
}

int Mesh::axisSize(std::string_view axis) const {
  if (axis == kServerAxis && servers_ > 0) return size();
  for (const Axis& candidate : axes_)
    if (candidate.name == axis) return candidate.size;
  return 1;
}

int Mesh::coordinate(int rank, std::string_view axis) const {
  if (axis == kServerAxis) return servers_ > 0 ? rank : 0;
  if (isServer(rank) && axisSize(axis) > 1) return -1;
  for (std::size_t i = 0; i < axes_.size(); ++i)
    if (axes_[i].name == axis) return rank / stride(axes_, i) % axes_[i].size;
  return 0;
}

int Mesh::member(int rank, std::string_view axis, int coordinate) const {
  if (axis == kServerAxis) return servers_ > 0 ? coordinate : rank;
  if (isServer(rank)) return rank;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name != axis) continue;
    const int step = stride(axes_, i);
    return rank + (coordinate - rank / step % axes_[i].size) * step;
  }
  return rank;
}

std::vector<int> Mesh::group(int rank, std::string_view axis) const {
  const int size = isServer(rank) && axis != kServerAxis ? 1 : axisSize(axis);
  std::vector<int> ranks;
  for (int c = 0; c < size; ++c) ranks.push_back(member(rank, axis, c));
  return ranks;
}

std::string Mesh::text() const {
  std::string out;
  for (const Axis& axis : axes_)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", axis.name, axis.size);
  if (servers_ > 0) out += fmt::format(", servers {}", servers_);
  return out;
}

}  // namespace lockstep::cluster
