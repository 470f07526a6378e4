#include "app/cluster/node_versions.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <ranges>
#include <utility>

namespace lockstep::app {
namespace {

using Kind = NodeVersion::Kind;
using Grade = NodeVersion::Grade;

constexpr std::array<std::string_view, 5> kNames{"agent", "kernel", "gpu-driver", "cuda", "nccl"};
constexpr std::size_t kHashDigits = 12;
constexpr std::size_t kMostNamed = 4;  // nodes

std::string shortOf(Kind kind, const std::string& version) {
  return kind == Kind::kAgent ? version.substr(0, kHashDigits) : version;
}

struct Usual {
  std::string version;
  std::vector<std::string> nodes;
  std::size_t known = 0;  // nodes whose version is known
};
Usual usualOf(const std::vector<NodeVersion>& versions, Kind kind) {
  std::vector<std::pair<std::string, std::vector<std::string>>> all;  // nodes by version
  Usual out;
  for (const NodeVersion& one : versions) {
    if (one.kind != kind || one.version.empty()) continue;
    ++out.known;
    const auto isIt = [&](const auto& group) { return group.first == one.version; };
    auto found = std::ranges::find_if(all, isIt);
    if (found == all.end()) found = all.insert(all.end(), {one.version, {}});
    found->second.push_back(one.node);
  }
  for (auto& [version, nodes] : all)
    if (nodes.size() > out.nodes.size()) {
      out.version = std::move(version);
      out.nodes = std::move(nodes);
    }
  return out;
}

}  // namespace

std::string_view kindName(Kind kind) { return kNames[static_cast<std::size_t>(kind)]; }

void gradeVersions(std::vector<NodeVersion>& versions) {
  std::map<Kind, Usual> usual;
  for (const NodeVersion& one : versions)
    if (!usual.contains(one.kind)) usual[one.kind] = usualOf(versions, one.kind);
  for (NodeVersion& one : versions) {
    const Usual& most = usual[one.kind];
    one.usual.clear();
    one.peers.clear();
    one.grade = Grade::kUngraded;
    if (one.version.empty() || most.known < 2) continue;
    one.usual = most.version;
    std::ranges::copy_if(most.nodes, std::back_inserter(one.peers),
                         [&](const std::string& node) { return node != one.node; });
    one.grade = one.version == most.version ? Grade::kSame : Grade::kDifferent;
  }
}

std::string shortVersion(const NodeVersion& version) {
  return shortOf(version.kind, version.version);
}

Message differentText(const NodeVersion& version) {
  const std::string has = shortVersion(version), usual = shortOf(version.kind, version.usual);
  const std::string peers =
      fmt::format("{}{}", fmt::join(version.peers | std::views::take(kMostNamed), ", "),
                  version.peers.size() > kMostNamed ? ", …" : "");
  switch (version.kind) {
    case Kind::kAgent:
      return message("node {} has agent {}, unlike the {} of {}", version.node, has, usual, peers);
    case Kind::kKernel:
      return message("node {} has kernel {}, unlike the {} of {}", version.node, has, usual, peers);
    case Kind::kGpuDriver:
      return message("node {} has GPU driver {}, unlike the {} of {}", version.node, has, usual,
                     peers);
    case Kind::kCuda:
      return message("the GPU driver of node {} runs CUDA {}, unlike the {} of {}", version.node,
                     has, usual, peers);
    case Kind::kNccl:
      return message("node {} has NCCL {}, unlike the {} of {}", version.node, has, usual, peers);
  }
  return {};
}

}  // namespace lockstep::app
