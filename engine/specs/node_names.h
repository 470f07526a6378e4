// Names of nodes that stand for several: ranges of numbers, "n[1-4,9]", "rack[1-2]-n[01-16]", and
// patterns, "n*", in which * stands for any text and ? for one character.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "lockstep/spec/v1/cluster.pb.h"

namespace lockstep::specs {

// A text with ranges, which are kept as intervals: nothing is expanded before at() is called.
class RangedText {
 public:
  // Brackets that hold anything but digits, ',' and '-' are text. Errors: kInvalidArgument for an
  // empty or descending range, for more than kMaxRanks texts, and for a text with ranges that is
  // longer than 256 characters or has more than eight of them.
  static Result<RangedText> parse(std::string_view text);

  bool hasRanges() const { return parts_.size() > 1; }
  // Returns how many texts it stands for: 1 to kMaxRanks.
  std::size_t count() const { return count_; }
  // Returns one of them, the last range varying fastest; numbers are as wide as the first one of
  // their interval. Precondition: index < count().
  std::string at(std::size_t index) const;

  struct Interval {
    int first = 0, last = 0;
    std::size_t width = 1;  // of the shortest number; filled up with zeros
    std::size_t count() const { return static_cast<std::size_t>(last - first) + 1; }
  };
  struct Part {  // a text, and the numbers behind it; only the last part has none
    std::string text;
    std::vector<Interval> numbers;
  };
  const std::vector<Part>& parts() const { return parts_; }

 private:
  std::vector<Part> parts_{1};
  std::size_t count_ = 1;
};

// Returns the texts that a text with ranges stands for. Errors: those of RangedText.
Result<std::vector<std::string>> expandRanges(std::string_view text);

// Returns the text that stands for the same texts but the one at `index`: "n[1-3,5-8]" of "n[1-8]"
// and 3. A text without ranges stands for one and stays. Errors: those of RangedText;
// kInvalidArgument for several ranges, which no one text is left of, and for a range of one name.
Result<std::string> withoutText(std::string_view text, std::size_t index);

// A pattern of names, which may have ranges too.
class NamePattern {
 public:
  NamePattern() = default;  // matches the empty text
  // Errors: those of RangedText; kInvalidArgument for a range beside a *, which would match further
  // digits: "n[1-4]*" would be n10 as well.
  static Result<NamePattern> parse(std::string_view pattern);

  bool matches(std::string_view name) const;
  // Returns whether it has neither * nor ?, and so stands for the names of names().
  bool hasNamesOnly() const { return hasNamesOnly_; }
  const RangedText& names() const { return text_; }
  // Returns whether it is the name of one node.
  bool isName() const { return hasNamesOnly_ && text_.count() == 1; }

 private:
  RangedText text_;
  bool hasNamesOnly_ = true;
};

// Returns the cluster with a node for each name that the names of its nodes stand for. `ssh.host`
// and `address` are expanded alike; those without ranges are the same for all. Errors:
// kInvalidArgument with `field`; also where all nodes together would take more than 64 MiB.
Result<spec::v1::ClusterSpec> withExpandedNodes(const spec::v1::ClusterSpec& spec);

// Returns the field of a cluster as it is written, of its field in withExpandedNodes():
// "nodes[0].name" of "nodes[17].name" where the first node stands for 128.
std::string writtenField(const spec::v1::ClusterSpec& written, std::string_view field);

}  // namespace lockstep::specs
