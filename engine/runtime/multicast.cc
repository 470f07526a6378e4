#include "engine/runtime/multicast.h"

#include <algorithm>
#include <map>

namespace lockstep::runtime {
namespace {

// After so many bytes all ranks meet, so that those that receive nothing see progress.
constexpr std::int64_t kSlice = std::int64_t{32} << 20;

// The axes that lead from any rank to any other.
std::vector<std::string> routeAxes(const cluster::Mesh& mesh) {
  if (mesh.servers() > 0) return {std::string(cluster::kServerAxis)};
  std::vector<std::string> out;
  for (const cluster::Axis& axis : mesh.axes())
    if (axis.size > 1) out.push_back(axis.name);
  return out;
}

}  // namespace

Multicast::Multicast(const cluster::Mesh& mesh, int from, const std::set<int>& to)
    : mesh_(mesh), from_(from) {
  std::map<int, int> places;  // by rank that needs the bytes: how far they have come
  for (const int rank : to) places[rank] = from;
  for (const std::string& axis : routeAxes(mesh)) {
    std::map<int, std::set<int>> next;
    for (auto& [rank, place] : places) {
      const int step = mesh.member(place, axis, mesh.coordinate(rank, axis));
      if (step != place) next[place].insert(step);
      place = step;
    }
    for (const auto& [place, ranks] : next) {
      Hop hop{axis, {place}};
      hop.ranks.insert(hop.ranks.end(), ranks.begin(), ranks.end());
      hops_.push_back(std::move(hop));
    }
  }
}

bool Multicast::reaches(int rank) const {
  return rank == from_ || std::any_of(hops_.begin(), hops_.end(), [&](const Hop& hop) {
           return std::find(hop.ranks.begin(), hop.ranks.end(), rank) != hop.ranks.end();
         });
}

// In each round those that have the bytes send them to as many others.
Status Multicast::pass(const Hop& hop, comm::Communicator& group, int rank,
                       std::span<std::byte> bytes) const {
  const auto found = std::find(hop.ranks.begin(), hop.ranks.end(), rank);
  if (found == hop.ranks.end()) return {};
  const auto at = static_cast<std::size_t>(found - hop.ranks.begin());
  const auto peer = [&](std::size_t place) { return mesh_.coordinate(hop.ranks[place], hop.axis); };
  for (std::size_t have = 1; have < hop.ranks.size(); have *= 2) {
    if (at < have && at + have < hop.ranks.size())
      LOCKSTEP_TRY(group.send(bytes.data(), std::ssize(bytes), peer(at + have), 0));
    if (at >= have && at < 2 * have)
      LOCKSTEP_TRY(group.recv(bytes.data(), std::ssize(bytes), peer(at - have), 0));
  }
  return {};
}

Status Multicast::send(const Groups& groups, int rank, std::byte* data, std::int64_t bytes) const {
  const bool isReached = reaches(rank);
  for (std::int64_t begin = 0; begin < bytes; begin += kSlice) {
    if (begin > 0)
      for (const auto& [axis, group] : groups.all()) LOCKSTEP_TRY(group->barrier());
    if (!isReached) continue;
    const auto size = static_cast<std::size_t>(std::min(kSlice, bytes - begin));
    for (const Hop& hop : hops_)
      LOCKSTEP_TRY(pass(hop, *groups.along(hop.axis), rank, {data + begin, size}));
  }
  return {};
}

}  // namespace lockstep::runtime
