#include "app/runs/node_traffic.h"

#include <map>
#include <utility>

namespace lockstep::app {

std::vector<plan::Traffic> nodeTraffic(const std::vector<plan::Traffic>& ranks,
                                       const std::vector<std::string>& nodeOfRank,
                                       const std::vector<std::string>& nodes) {
  std::map<std::string, int> indexOf;
  for (std::size_t i = 0; i < nodes.size(); ++i) indexOf[nodes[i]] = static_cast<int>(i);
  const auto nodeIndex = [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    const auto found = at < nodeOfRank.size() ? indexOf.find(nodeOfRank[at]) : indexOf.end();
    return found == indexOf.end() ? -1 : found->second;
  };
  std::map<std::pair<int, int>, plan::Traffic> sums;
  for (const plan::Traffic& link : ranks) {
    const int from = nodeIndex(link.from), to = nodeIndex(link.to);
    if (from < 0 || to < 0 || from == to) continue;
    plan::Traffic& sum = sums[{from, to}];
    sum.from = from;
    sum.to = to;
    sum.bytes += link.bytes;
    sum.atMost = sum.atMost || link.atMost;
  }
  std::vector<plan::Traffic> out;
  for (const auto& [between, sum] : sums) out.push_back(sum);
  return out;
}

}  // namespace lockstep::app
