#include "engine/specs/links.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/cluster/assumed.h"
#include "engine/cluster/data_sheets.h"
#include "engine/specs/field.h"
#include "engine/specs/link_rules.h"
#include "engine/specs/node_names.h"
#include "engine/specs/placement.h"

namespace lockstep::specs {
namespace {

using cluster::Link;
using spec::v1::ClusterSpec;
using spec::v1::LinkSpec;

}  // namespace

double bandwidthOf(const LinkSpec& link) {
  if (link.bandwidth_mbit() > 0) return link.bandwidth_mbit() * 1e6 / 8;
  const cluster::LinkSheet* sheet = cluster::findLinkSheet(link.kind());
  return sheet == nullptr ? 0 : cluster::kReachedOfLinks * sheet->bytesPerSecond;
}

namespace {

Status checkFields(const LinkSpec& link, const std::string& path) {
  const bool isInside = !link.inside().empty();
  for (const auto& [field, text] : {std::pair("from", link.from()), std::pair("to", link.to())}) {
    if (isInside && !text.empty())
      return wrongField(
          fmt::format("{}.{}", path, field),
          message("{} and inside are both given; expected from and to, or inside", field),
          {{{fmt::format("{}.{}", path, field), ""}}});
    if (!isInside && text.empty())
      return wrongField(fmt::format("{}.{}", path, field),
                        message("{} is missing; expected from and to, or inside", field));
  }
  for (const auto& [field, text] : {std::pair("from", link.from()), std::pair("to", link.to()),
                                    std::pair("inside", link.inside())})
    if (const auto pattern = NamePattern::parse(text); !pattern.ok())
      return wrongField(fmt::format("{}.{}", path, field), pattern.error().what);
  if (isInside && link.rails() > 0)
    return wrongField(path + ".rails", "rails are adapters between nodes; expected it left out",
                      {{{path + ".rails", ""}}});
  if (const auto* sheet = cluster::findLinkSheet(link.kind());
      sheet != nullptr && sheet->isInside != isInside)
    return wrongField(path + ".kind",
                      isInside ? message("{} links nodes; expected nvlink or pcie", link.kind())
                               : message("{} links the devices of a node; expected it with inside, "
                                         "or a kind of network",
                                         link.kind()));
  return {};
}

// The error of an end that stands for a node that is not there.
std::optional<Message> missingIn(const LinkRules::Matched& end, const std::string& text,
                                 const ClusterSpec& spec) {
  const RangedText& names = end.pattern.names();
  if (!end.pattern.hasNamesOnly()) {
    if (end.nodes.empty()) return message("no node has a name like {}", text);
    return std::nullopt;
  }
  if (end.nodes.count() == names.count()) return std::nullopt;
  std::set<std::string_view> known;
  for (const auto& node : spec.nodes()) known.insert(node.name());
  for (std::size_t i = 0; i < names.count(); ++i) {
    const std::string name = names.at(i);
    if (known.contains(name)) continue;
    return names.hasRanges() ? message("{} stands for {}, and there is no such node", text, name)
                             : message("there is no node {}; expected the name of one", text);
  }
  return std::nullopt;
}

Status checkMatches(const LinkRules& rules, const ClusterSpec& spec, int index) {
  const LinkSpec& link = spec.links(index);
  const std::string path = fmt::format("links[{}]", index);
  const auto check = [&](const char* field, const LinkRules::Matched& end,
                         const std::string& text) -> Status {
    if (text.empty()) return {};
    const auto missing = missingIn(end, text, spec);
    return missing ? Status(wrongField(fmt::format("{}.{}", path, field), *missing)) : Status();
  };
  LOCKSTEP_TRY(check("inside", rules.within(index), link.inside()));
  LOCKSTEP_TRY(check("from", rules.from(index), link.from()));
  LOCKSTEP_TRY(check("to", rules.to(index), link.to()));
  const bool areNames = rules.from(index).pattern.isName() && rules.to(index).pattern.isName();
  if (link.inside().empty() && areNames && !rules.matchesTwo(index)) {
    const std::string name = rules.to(index).pattern.names().at(0);
    return wrongField(path + ".to", message("both ends are node {}; expected inside: {}, or "
                                            "another node",
                                            name, name));
  }
  return {};
}

}  // namespace

Status checkLinks(const ClusterSpec& spec) {
  for (int i = 0; i < spec.links_size(); ++i)
    LOCKSTEP_TRY(checkFields(spec.links(i), fmt::format("links[{}]", i)));
  if (awaitsAllocation(spec)) return {};  // names are not known yet
  const LinkRules rules(spec);
  const std::vector<bool> applied = rules.applied();
  for (int i = 0; i < spec.links_size(); ++i) {
    LOCKSTEP_TRY(checkMatches(rules, spec, i));
    const bool couldApply = !spec.links(i).inside().empty() || rules.matchesTwo(i);
    if (couldApply && !applied[static_cast<std::size_t>(i)])
      return wrongField(fmt::format("links[{}]", i),
                        message("it never applies: earlier entries match the same nodes; expected "
                                "it before them, or left out"),
                        {{{fmt::format("links[{}]", i), ""}}});
  }
  return {};
}

namespace {

// The links of groups along the axes of a mesh.
class AxisLinks {
 public:
  AxisLinks(const ClusterSpec& spec, const cluster::Cluster& cluster)
      : spec_(spec), cluster_(cluster), rules_(spec) {}

  Link along(const std::string& axis) const {
    const std::vector<Group> groups = groupsAlong(axis);
    std::map<std::string, int> crossing;  // groups that leave a node
    for (const Group& group : groups)
      for (const auto& [node, members] : group)
        if (group.size() > 1) ++crossing[node];
    const bool isOfMessages = cluster_.mesh.stages() > 1 && axis == cluster_.mesh.messageAxis();
    Link out{cluster_.link.kind, 0, std::numeric_limits<double>::infinity()};
    for (const Group& group : groups) {
      const Link link = ofGroup(group, crossing, isOfMessages);
      out.latency = std::max(out.latency, link.latency);
      out.bytesPerSecond = std::min(out.bytesPerSecond, link.bytesPerSecond);
    }
    return out;
  }

 private:
  struct Members {
    int ranks = 0;
    const cluster::Device* slowest = nullptr;  // by its link
  };
  using Group = std::map<std::string, Members>;  // by node

  std::vector<Group> groupsAlong(const std::string& axis) const {
    std::vector<Group> out;
    for (int rank = 0; rank < cluster_.mesh.size(); ++rank) {
      if (cluster_.mesh.coordinate(rank, axis) != 0) continue;
      Group group;
      for (const int member : cluster_.mesh.group(rank, axis)) {
        const cluster::Device& device = cluster_.devices[static_cast<std::size_t>(member)];
        Members& members = group[device.node];
        if (members.ranks++ == 0 || linkOf(device) < linkOf(*members.slowest))
          members.slowest = &device;
      }
      out.push_back(std::move(group));
    }
    return out;
  }
  double linkOf(const cluster::Device& device) const {
    return cluster::assumedLinkInside(cluster_.link.kind, device.figures).bytesPerSecond;
  }

  // What an entry says, in the place of what is assumed. Without NCCL the processor copies
  // the data, so a faster link does not help.
  Link with(Link assumed, const LinkSpec& entry, double bytesPerSecond) const {
    const bool isBound = assumed.kind != "nccl";
    if (const double latency = entry.latency_us() * 1e-6; latency > 0)
      assumed.latency = isBound ? std::max(assumed.latency, latency) : latency;
    if (bytesPerSecond > 0)
      assumed.bytesPerSecond =
          isBound ? std::min(assumed.bytesPerSecond, bytesPerSecond) : bytesPerSecond;
    return assumed;
  }

  Link inside(const std::string& node, const cluster::Device& device) const {
    const Link assumed = cluster::assumedLinkInside(cluster_.link.kind, device.figures);
    const int entry = rules_.inside(node);
    if (entry == kNoEntry) return assumed;
    return with(assumed, spec_.links(entry), bandwidthOf(spec_.links(entry)));
  }

  // A message between stages uses the adapter of its sender; a ring uses those of all its ranks.
  Link ofGroup(const Group& group, const std::map<std::string, int>& crossing,
               bool isOfMessages) const {
    Link out{cluster_.link.kind, 0, std::numeric_limits<double>::infinity()};
    const auto limit = [&](const Link& link) {
      out.latency = std::max(out.latency, link.latency);
      out.bytesPerSecond = std::min(out.bytesPerSecond, link.bytesPerSecond);
    };
    std::map<std::size_t, int> classes;
    std::set<std::string> hosts;
    int sharing = 1, members = std::numeric_limits<int>::max();
    for (const auto& [node, here] : group) {
      hosts.insert(here.slowest->host);
      ++classes[rules_.classOf(node)];
      members = std::min(members, here.ranks);
      // Of groups across nodes, only those of NCCL use what links the devices of a node.
      if (group.size() == 1 || (here.ranks > 1 && out.kind == "nccl"))
        limit(inside(node, *here.slowest));
      if (const auto found = crossing.find(node); found != crossing.end())
        sharing = std::max(sharing, found->second);
    }
    if (group.size() == 1) return out;
    if (isOfMessages) members = 1;
    Link assumed = cluster::assumedLink(out.kind, hosts.size() > 1);
    if (out.kind == "nccl" && hosts.size() > 1)
      assumed.bytesPerSecond *= members;  // an adapter each
    for (const auto& [from, nodes] : classes) {
      for (const auto& [to, others] : classes) {
        if (from == to && nodes < 2) continue;
        const int entry = rules_.between(from, to);
        if (entry == kNoEntry) {
          limit(assumed);
          continue;
        }
        const LinkSpec& link = spec_.links(entry);
        const double adapter = bandwidthOf(link), rails = std::max(1, link.rails());
        limit(with(assumed, link, std::min(rails / sharing, double{1} * members) * adapter));
      }
    }
    return out;
  }

  const ClusterSpec& spec_;
  const cluster::Cluster& cluster_;
  const LinkRules rules_;
};

}  // namespace

void resolveLinks(const ClusterSpec& spec, cluster::Cluster& out) {
  if (spec.links().empty() && out.link.kind != "nccl") return;
  const AxisLinks links(spec, out);
  Link slowest = out.link;
  slowest.bytesPerSecond = std::numeric_limits<double>::infinity();
  for (const cluster::Axis& axis : out.mesh.groupAxes()) {
    if (axis.size < 2) continue;
    const Link& link = out.links[axis.name] = links.along(axis.name);
    slowest.latency = std::max(slowest.latency, link.latency);
    slowest.bytesPerSecond = std::min(slowest.bytesPerSecond, link.bytesPerSecond);
  }
  if (!out.links.empty()) out.link = slowest;
}

double bandwidthBetween(const ClusterSpec& spec, const std::string& from, const std::string& to) {
  if (spec.links().empty()) return 0;
  const LinkRules rules(spec);
  const int entry = rules.between(rules.classOf(from), rules.classOf(to));
  return entry == kNoEntry ? 0 : bandwidthOf(spec.links(entry));
}

}  // namespace lockstep::specs
