#include "engine/specs/links.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/cluster/assumed.h"
#include "engine/cluster/data_sheets.h"
#include "engine/specs/field.h"
#include "engine/specs/node_names.h"
#include "engine/specs/placement.h"

namespace lockstep::specs {
namespace {

using cluster::Link;
using spec::v1::ClusterSpec;
using spec::v1::LinkSpec;

constexpr int kNoEntry = -1;

// Which entry applies to which nodes. Nodes that no pattern tells apart are one class.
class LinkRules {
 public:
  explicit LinkRules(const ClusterSpec& spec) {
    std::map<std::string, NamePattern, std::less<>> patterns;
    for (const LinkSpec& link : spec.links())
      for (const std::string* text : {&link.from(), &link.to(), &link.inside()})
        if (!text->empty()) patterns.try_emplace(*text, *text);
    std::map<std::string_view, std::size_t> numbers;
    for (const auto& [text, pattern] : patterns) numbers.emplace(text, numbers.size());
    const auto numberOf = [&](const std::string& text) {
      return text.empty() ? patterns.size() : numbers.at(text);
    };
    for (const LinkSpec& link : spec.links())
      entries_.push_back({numberOf(link.from()), numberOf(link.to()), numberOf(link.inside())});
    std::map<std::vector<bool>, std::size_t> known;
    for (const auto& node : spec.nodes()) {
      std::vector<bool> matched;
      for (const auto& [text, pattern] : patterns) matched.push_back(pattern.matches(node.name()));
      matched.push_back(false);  // what is left out
      const auto [at, isNew] = known.try_emplace(std::move(matched), classes_.size());
      if (isNew) classes_.push_back({at->first, 0});
      ++classes_[at->second].nodes;
      classOf_[node.name()] = at->second;
    }
  }

  std::size_t classes() const { return classes_.size(); }
  std::size_t classOf(const std::string& node) const { return classOf_.at(node); }
  int nodesIn(std::size_t one) const { return classes_[one].nodes; }

  // Returns the entry of nodes of two classes from one to the other.
  int between(std::size_t from, std::size_t to) const {
    const auto [known, isNew] = between_.try_emplace({from, to}, kNoEntry);
    if (!isNew) return known->second;
    int& entry = known->second;
    entry = firstOf([&](const Entry& e) { return isIn(from, e.from) && isIn(to, e.to); });
    if (entry == kNoEntry)
      entry = firstOf([&](const Entry& e) { return isIn(to, e.from) && isIn(from, e.to); });
    return entry;
  }
  int inside(std::size_t one) const {
    return firstOf([&](const Entry& e) { return isIn(one, e.inside); });
  }
  // Returns whether any node matches the ends, and whether two different ones do.
  bool matchesFrom(std::size_t entry) const { return matchesAny(entries_[entry].from); }
  bool matchesTo(std::size_t entry) const { return matchesAny(entries_[entry].to); }
  bool matchesInside(std::size_t entry) const { return matchesAny(entries_[entry].inside); }
  bool matchesTwo(std::size_t entry) const {
    const Entry& e = entries_[entry];
    for (std::size_t a = 0; a < classes_.size(); ++a)
      for (std::size_t b = 0; b < classes_.size(); ++b)
        if ((a != b || classes_[a].nodes > 1) && isIn(a, e.from) && isIn(b, e.to)) return true;
    return false;
  }

 private:
  struct Entry {  // numbers of patterns
    std::size_t from = 0, to = 0, inside = 0;
  };
  struct Class {
    std::vector<bool> matched;  // by pattern
    int nodes = 0;
  };
  template <typename Matches>
  int firstOf(Matches matches) const {
    for (std::size_t i = 0; i < entries_.size(); ++i)
      if (matches(entries_[i])) return static_cast<int>(i);
    return kNoEntry;
  }
  bool isIn(std::size_t one, std::size_t pattern) const { return classes_[one].matched[pattern]; }
  bool matchesAny(std::size_t pattern) const {
    return std::ranges::any_of(classes_, [&](const Class& one) { return one.matched[pattern]; });
  }

  std::vector<Entry> entries_;
  std::vector<Class> classes_;
  std::unordered_map<std::string, std::size_t> classOf_;
  mutable std::map<std::pair<std::size_t, std::size_t>, int> between_;
};

// Bytes per second of one adapter or device; 0: not known.
double bandwidthOf(const LinkSpec& link) {
  if (link.bandwidth_mbit() > 0) return link.bandwidth_mbit() * 1e6 / 8;
  const cluster::LinkSheet* sheet = cluster::findLinkSheet(link.kind());
  return sheet == nullptr ? 0 : cluster::kReachedOfLinks * sheet->bytesPerSecond;
}

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
    if (const auto ranges = expandRanges(text); !ranges.ok())
      return wrongField(fmt::format("{}.{}", path, field), ranges.error().what);
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

Status checkMatches(const LinkRules& rules, const LinkSpec& link, int index) {
  const std::string path = fmt::format("links[{}]", index);
  const auto entry = static_cast<std::size_t>(index);
  const auto missing = [&](const char* field, const std::string& text) {
    return wrongField(fmt::format("{}.{}", path, field),
                      NamePattern(text).isName()
                          ? message("there is no node {}; expected the name of one", text)
                          : message("no node has a name like {}", text));
  };
  if (!link.inside().empty())
    return rules.matchesInside(entry) ? Status() : Status(missing("inside", link.inside()));
  if (!rules.matchesFrom(entry)) return missing("from", link.from());
  if (!rules.matchesTo(entry)) return missing("to", link.to());
  if (link.from() == link.to() && NamePattern(link.to()).isName())
    return wrongField(path + ".to", message("both ends are node {}; expected inside: {}, or "
                                            "another node",
                                            link.to(), link.to()));
  return {};
}

}  // namespace

Status checkLinks(const ClusterSpec& spec) {
  for (int i = 0; i < spec.links_size(); ++i)
    LOCKSTEP_TRY(checkFields(spec.links(i), fmt::format("links[{}]", i)));
  if (awaitsAllocation(spec)) return {};  // names are not known yet
  const LinkRules rules(spec);
  std::set<int> applied;
  for (std::size_t a = 0; a < rules.classes(); ++a) {
    applied.insert(rules.inside(a));
    for (std::size_t b = 0; b < rules.classes(); ++b)
      if (a != b || rules.nodesIn(a) > 1) applied.insert(rules.between(a, b));
  }
  for (int i = 0; i < spec.links_size(); ++i) {
    LOCKSTEP_TRY(checkMatches(rules, spec.links(i), i));
    const bool couldApply =
        !spec.links(i).inside().empty() || rules.matchesTwo(static_cast<std::size_t>(i));
    if (couldApply && !applied.contains(i))
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
    Link out{cluster_.link.kind, 0, std::numeric_limits<double>::infinity()};
    for (const Group& group : groups) {
      const Link link = ofGroup(group, crossing);
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

  // What an entry says, in the place of what is assumed. What is sent by the processor is bound by
  // it, however fast the link.
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
    const int entry = rules_.inside(rules_.classOf(node));
    if (entry == kNoEntry) return assumed;
    return with(assumed, spec_.links(entry), bandwidthOf(spec_.links(entry)));
  }

  Link ofGroup(const Group& group, const std::map<std::string, int>& crossing) const {
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

}  // namespace lockstep::specs
