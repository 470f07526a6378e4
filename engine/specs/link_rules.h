// LinkRules: which entry of a cluster's links is of which nodes. Quick for thousands of both: an
// entry that names one node costs a look-up, and pairs of nodes are told apart by sets of bits.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/specs/node_names.h"
#include "engine/specs/number_set.h"
#include "lockstep/spec/v1/cluster.pb.h"

namespace lockstep::specs {

inline constexpr int kNoEntry = -1;

class LinkRules {
 public:
  // Names of nodes differ. Patterns that are wrong match no node.
  explicit LinkRules(const spec::v1::ClusterSpec& spec);

  // Returns the class of a node: nodes that no `from` and no `to` tells apart are of one.
  std::size_t classOf(const std::string& node) const { return classOf_[numbers_.at(node)]; }
  // Returns the entry that applies from a node of class `from` to another node of class `to`; the
  // classes may be equal.
  int between(std::size_t from, std::size_t to) const;
  // Returns the entry of the devices in a node.
  int inside(const std::string& node) const { return insideOf_[numbers_.at(node)]; }

  struct Matched {
    NamePattern pattern;
    NumberSet nodes;
  };
  // Returns the ends of an entry.
  const Matched& from(int entry) const { return patterns_[at(entry).from]; }
  const Matched& to(int entry) const { return patterns_[at(entry).to]; }
  const Matched& within(int entry) const { return patterns_[at(entry).inside]; }
  // Returns whether its ends match two different nodes.
  bool matchesTwo(int entry) const;
  // Returns by entry whether it applies to any nodes.
  std::vector<bool> applied() const;

 private:
  struct Entry {  // numbers of patterns
    std::size_t from = 0, to = 0, inside = 0;
  };
  const Entry& at(int entry) const { return entries_[static_cast<std::size_t>(entry)]; }
  Matched matchedBy(const std::string& text, const spec::v1::ClusterSpec& spec) const;
  void addPatterns(const spec::v1::ClusterSpec& spec);
  void findInside();
  void findClasses();
  void split(const NumberSet& nodes, std::vector<std::size_t>& sizes);

  std::unordered_map<std::string, std::size_t> numbers_;  // of nodes, by name
  std::vector<Matched> patterns_;                         // 0: of what is left out
  std::vector<Entry> entries_;
  std::vector<int> insideOf_;             // by node
  std::vector<std::size_t> classOf_;      // by node
  std::vector<NumberSet> fromOf_, toOf_;  // by class: entries
};

}  // namespace lockstep::specs
