#include "engine/specs/link_rules.h"

namespace lockstep::specs {

using spec::v1::ClusterSpec;
using spec::v1::LinkSpec;

LinkRules::LinkRules(const ClusterSpec& spec) {
  for (const auto& node : spec.nodes()) numbers_.emplace(node.name(), numbers_.size());
  addPatterns(spec);
  findInside();
  findClasses();
}

void LinkRules::addPatterns(const ClusterSpec& spec) {
  std::unordered_map<std::string, std::size_t> known{{"", 0}};
  patterns_.push_back({{}, NumberSet(numbers_.size())});
  const auto numberOf = [&](const std::string& text) {
    const auto [found, isNew] = known.try_emplace(text, patterns_.size());
    if (isNew) patterns_.push_back(matchedBy(text, spec));
    return found->second;
  };
  for (const LinkSpec& link : spec.links())
    entries_.push_back({numberOf(link.from()), numberOf(link.to()), numberOf(link.inside())});
}

LinkRules::Matched LinkRules::matchedBy(const std::string& text, const ClusterSpec& spec) const {
  Matched out{{}, NumberSet(numbers_.size())};
  auto pattern = NamePattern::parse(text);
  if (!pattern.ok()) return out;
  out.pattern = *std::move(pattern);
  if (out.pattern.hasNamesOnly()) {
    const RangedText& names = out.pattern.names();
    for (std::size_t i = 0; i < names.count(); ++i)
      if (const auto node = numbers_.find(names.at(i)); node != numbers_.end())
        out.nodes.insert(node->second);
  } else {
    for (const auto& node : spec.nodes())
      if (out.pattern.matches(node.name())) out.nodes.insert(numbers_.at(node.name()));
  }
  return out;
}

void LinkRules::findInside() {
  insideOf_.assign(numbers_.size(), kNoEntry);
  for (int entry = 0; entry < std::ssize(entries_); ++entry)
    within(entry).nodes.forEach([&](std::size_t node) {
      if (insideOf_[node] == kNoEntry) insideOf_[node] = entry;
    });
}

void LinkRules::findClasses() {
  classOf_.assign(numbers_.size(), 0);
  std::vector<std::size_t> sizes{numbers_.size()};
  NumberSet done(patterns_.size());
  for (const Entry& entry : entries_)
    for (const std::size_t pattern : {entry.from, entry.to}) {
      if (!done.contains(pattern)) split(patterns_[pattern].nodes, sizes);
      done.insert(pattern);
    }
  fromOf_.assign(sizes.size(), NumberSet(entries_.size()));
  toOf_ = fromOf_;
  for (std::size_t entry = 0; entry < entries_.size(); ++entry) {
    patterns_[entries_[entry].from].nodes.forEach(
        [&](std::size_t node) { fromOf_[classOf_[node]].insert(entry); });
    patterns_[entries_[entry].to].nodes.forEach(
        [&](std::size_t node) { toOf_[classOf_[node]].insert(entry); });
  }
}

// Divides each class of which only a part is in `nodes`. `sizes`: of the classes.
void LinkRules::split(const NumberSet& nodes, std::vector<std::size_t>& sizes) {
  std::unordered_map<std::size_t, std::size_t> counts, parts;  // by class: nodes; the new class
  nodes.forEach([&](std::size_t node) { ++counts[classOf_[node]]; });
  for (const auto& [one, count] : counts) {
    if (count == sizes[one]) continue;
    parts[one] = sizes.size();
    sizes[one] -= count;
    sizes.push_back(count);
  }
  nodes.forEach([&](std::size_t node) {
    if (const auto part = parts.find(classOf_[node]); part != parts.end())
      classOf_[node] = part->second;
  });
}

int LinkRules::between(std::size_t from, std::size_t to) const {
  auto entry = fromOf_[from].firstCommon(toOf_[to]);
  if (!entry) entry = fromOf_[to].firstCommon(toOf_[from]);
  return entry ? static_cast<int>(*entry) : kNoEntry;
}

bool LinkRules::matchesTwo(int entry) const {
  const NumberSet &froms = from(entry).nodes, &tos = to(entry).nodes;
  return !froms.empty() && !tos.empty() && !(froms == tos && froms.count() == 1);
}

// An entry applies where it matches nodes in its direction that no earlier one does.
std::vector<bool> LinkRules::applied() const {
  std::vector<bool> out(entries_.size());
  for (const int entry : insideOf_)
    if (entry != kNoEntry) out[static_cast<std::size_t>(entry)] = true;
  std::vector<NumberSet> taken(numbers_.size(), NumberSet(numbers_.size()));
  for (std::size_t node = 0; node < taken.size(); ++node) taken[node].insert(node);
  for (int entry = 0; entry < std::ssize(entries_); ++entry) {
    const NumberSet& tos = to(entry).nodes;
    from(entry).nodes.forEach([&](std::size_t node) {
      if (tos.isWithin(taken[node])) return;
      out[static_cast<std::size_t>(entry)] = true;
      taken[node].add(tos);
    });
  }
  return out;
}

}  // namespace lockstep::specs
