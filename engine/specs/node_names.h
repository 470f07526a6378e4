// Names of nodes that stand for several: ranges of numbers, "n[1-4,9]", "rack[1-2]-n[01-16]", and
// patterns, "n*", in which * stands for any text and ? for one character.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "lockstep/spec/v1/cluster.pb.h"

namespace lockstep::specs {

// Returns the texts that a text with ranges stands for, the last range varying fastest; numbers are
// as wide as the range's first one. Brackets that hold anything but digits, ',' and '-' are text.
// Errors: kInvalidArgument for an empty or descending range, and for more than kMaxRanks texts.
Result<std::vector<std::string>> expandRanges(std::string_view text);

// Returns the text that stands for the same texts but the one at `index`: "n[1-3,5-8]" of "n[1-8]"
// and 3. A text without ranges stands for one and stays. Errors: kInvalidArgument for several
// ranges, which no one text is left of.
Result<std::string> withoutText(std::string_view text, std::size_t index);

// A pattern of names, which may have ranges too. One whose ranges are wrong is their text.
class NamePattern {
 public:
  explicit NamePattern(std::string_view pattern);
  bool matches(std::string_view name) const;
  // Returns whether it is the name of one node.
  bool isName() const { return globs_.empty() && names_.size() == 1; }

 private:
  std::set<std::string, std::less<>> names_;  // without * and ?
  std::vector<std::string> globs_;
};

// Returns the cluster with a node for each name that the names of its nodes stand for. `ssh.host`
// and `address` are expanded alike; those without ranges are the same for all. Errors:
// kInvalidArgument with `field`.
Result<spec::v1::ClusterSpec> withExpandedNodes(const spec::v1::ClusterSpec& spec);

// Returns the field of a cluster as it is written, of its field in withExpandedNodes():
// "nodes[0].name" of "nodes[17].name" where the first node stands for 128.
std::string writtenField(const spec::v1::ClusterSpec& written, std::string_view field);

}  // namespace lockstep::specs
