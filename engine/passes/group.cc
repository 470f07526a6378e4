#include "engine/passes/group.h"

#include <algorithm>
#include <map>

namespace lockstep::passes {

std::vector<Group> formGroups(const std::vector<ir::Parameter>& parameters, DType dtype,
                              std::int64_t bucketBytes, int parts,
                              const std::vector<GroupKind>& kind) {
  const auto size = static_cast<std::int64_t>(sizeOf(dtype));
  const std::int64_t line = 64 / size;
  std::vector<Group> groups;
  std::map<GroupKind, std::size_t> open;  // the last group of a kind
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ir::Parameter& parameter = parameters[i];
    const GroupKind mine = kind.empty() ? GroupKind{} : kind[i];
    const auto last = open.find(mine);
    if (last == open.end() || groups[last->second].count * size >= bucketBytes) {
      open[mine] = groups.size();
      groups.emplace_back().kind = mine;
    }
    Group& group = groups[open[mine]];
    Group::Member member{parameter.name, parameter.shape, group.count, 0};
    const std::int64_t count = elementCount(parameter.shape);
    member.padding = (line - count % line) % line;
    group.count += count + member.padding;
    group.members.push_back(std::move(member));
  }
  for (Group& group : groups) {
    const std::int64_t unit = line * parts, rest = (unit - group.count % unit) % unit;
    group.members.back().padding += rest;
    group.count += rest;
  }
  return groups;
}

std::int64_t chooseBucketBytes(double latencySeconds, double bytesPerSecond,
                               std::int64_t gradientBytes) {
  constexpr double kMiB = 1 << 20;
  const double most = std::clamp(static_cast<double>(gradientBytes) / 32, 4 * kMiB, 32 * kMiB);
  return static_cast<std::int64_t>(std::clamp(64 * latencySeconds * bytesPerSecond, kMiB, most));
}

}  // namespace lockstep::passes
