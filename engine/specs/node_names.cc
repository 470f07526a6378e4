#include "engine/specs/node_names.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "engine/specs/field.h"
#include "engine/specs/specs.h"

namespace lockstep::specs {
namespace {

using spec::v1::ClusterSpec;
using spec::v1::NodeSpec;

constexpr std::string_view kRange = "0123456789,-";
constexpr std::size_t kMostDigits = 9, kMostRanges = 8, kLongestText = 256;
constexpr std::size_t kMostNodeBytes = std::size_t{64} << 20;  // of all expanded nodes

// The first brackets of a text, from `from` on, that hold a range.
struct Brackets {
  std::size_t begin = 0, end = 0;  // of '[' and behind ']'
  std::string_view inside;
};
std::optional<Brackets> nextRange(std::string_view text, std::size_t from) {
  for (std::size_t at = text.find('[', from); at != std::string_view::npos;) {
    const std::size_t end = text.find_first_not_of(kRange, at + 1);
    if (end == std::string_view::npos) break;
    if (text[end] == ']') return Brackets{at, end + 1, text.substr(at + 1, end - at - 1)};
    at = text.find('[', end);
  }
  return std::nullopt;
}

Result<int> numberOf(std::string_view digits, std::string_view range) {
  if (digits.empty() || digits.find('-') != std::string_view::npos)
    return invalidArgument("[{}] is no range; expected numbers as [1-8] or [1,3,5-8]", range);
  if (digits.size() > kMostDigits)
    return invalidArgument("[{}] is no range: {} has more than {} digits", range, digits,
                           kMostDigits);
  int out = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), out);
  return out;
}

// The intervals of "1-4,9".
Result<std::vector<RangedText::Interval>> intervalsOf(std::string_view range) {
  std::vector<RangedText::Interval> out;
  for (std::size_t at = 0; at <= range.size();) {
    const std::size_t comma = std::min(range.find(',', at), range.size());
    const std::string_view part = range.substr(at, comma - at);
    const std::size_t dash = part.find('-');
    const std::string_view first = part.substr(0, dash),
                           last = dash == std::string_view::npos ? first : part.substr(dash + 1);
    RangedText::Interval one;
    LOCKSTEP_ASSIGN(one.first, numberOf(first, range));
    LOCKSTEP_ASSIGN(one.last, numberOf(last, range));
    one.width = first.size();
    if (one.last < one.first)
      return invalidArgument("[{}] is no range: {} is after {}", range, first, last);
    out.push_back(one);
    at = comma + 1;
  }
  return out;
}

std::size_t countOf(const std::vector<RangedText::Interval>& numbers) {
  std::size_t out = 0;
  for (const RangedText::Interval& one : numbers) out += one.count();
  return out;
}

// Places in a name, ascending, up to which a pattern may have matched.
using Places = std::vector<std::size_t>;

void matchCharacter(char pattern, std::string_view name, Places& places) {
  if (pattern == '*') {
    const std::size_t first = places.front();
    places.resize(name.size() - first + 1);
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = first + i;
    return;
  }
  std::size_t kept = 0;
  for (const std::size_t at : places)
    if (at < name.size() && (pattern == '?' || name[at] == pattern)) places[kept++] = at + 1;
  places.resize(kept);
}

bool isNumberOf(const std::vector<RangedText::Interval>& numbers, std::string_view digits) {
  int number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return std::ranges::any_of(numbers, [&](const RangedText::Interval& one) {
    const bool isAsWide =
        digits.size() == one.width || (digits.size() > one.width && digits.front() != '0');
    return isAsWide && number >= one.first && number <= one.last;
  });
}

void matchNumber(const std::vector<RangedText::Interval>& numbers, std::string_view name,
                 Places& places) {
  Places out;
  for (const std::size_t at : places)
    for (std::size_t end = at; end < name.size() && end - at < kMostDigits;) {
      if (name[end] < '0' || name[end] > '9') break;
      ++end;
      if (isNumberOf(numbers, name.substr(at, end - at))) out.push_back(end);
    }
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  places = std::move(out);
}

// A field of a node whose texts are as many as its names, or the same for all of them.
Result<RangedText> fieldOf(const std::string& text, const std::string& field,
                           const std::string& name, std::size_t names) {
  auto out = RangedText::parse(text);
  if (!out.ok()) return wrongField(field, out.error().what);
  if (out->hasRanges() && out->count() != names)
    return wrongField(field, message("{} stands for {}, and the node's name {} for {}; expected as "
                                     "many",
                                     text, out->count(), name, names));
  return out;
}

std::string textAt(const RangedText& text, std::size_t index) {
  return text.at(text.hasRanges() ? index : 0);
}

Status addNodes(const NodeSpec& node, const std::string& path, std::size_t& bytes,
                ClusterSpec& out) {
  const auto names = RangedText::parse(node.name());
  if (!names.ok()) return wrongField(path + ".name", names.error().what);
  const std::size_t count = names->count();
  LOCKSTEP_ASSIGN(const RangedText hosts,
                  fieldOf(node.ssh().host(), path + ".ssh.host", node.name(), count));
  LOCKSTEP_ASSIGN(const RangedText addresses,
                  fieldOf(node.address(), path + ".address", node.name(), count));
  if (static_cast<std::size_t>(out.nodes_size()) + count > static_cast<std::size_t>(kMaxRanks))
    return wrongField(path + ".name", message("there are more than {} nodes", kMaxRanks));
  const std::size_t each = node.SpaceUsedLong();
  if (each > (kMostNodeBytes - bytes) / count)
    return wrongField(path, message("{} nodes of {} KiB each are too large; at most {} MiB of "
                                    "nodes are read",
                                    count, each >> 10, kMostNodeBytes >> 20));
  bytes += count * each;
  for (std::size_t i = 0; i < count; ++i) {
    NodeSpec& one = *out.add_nodes();
    one = node;
    one.set_name(names->at(i));
    if (node.has_ssh()) one.mutable_ssh()->set_host(textAt(hosts, i));
    one.set_address(textAt(addresses, i));
  }
  return {};
}

}  // namespace

Result<RangedText> RangedText::parse(std::string_view text) {
  RangedText out;
  std::size_t at = 0;
  while (const auto range = nextRange(text, at)) {
    if (text.size() > kLongestText)
      return invalidArgument("a name with ranges has {} characters; expected {} at most",
                             text.size(), kLongestText);
    if (out.parts_.size() > kMostRanges)
      return invalidArgument("{} has more than {} ranges", text, kMostRanges);
    out.parts_.back().text = text.substr(at, range->begin - at);
    LOCKSTEP_ASSIGN(out.parts_.back().numbers, intervalsOf(range->inside));
    const std::size_t numbers = countOf(out.parts_.back().numbers);
    if (numbers > static_cast<std::size_t>(kMaxRanks))
      return invalidArgument("[{}] stands for more than {} names", range->inside, kMaxRanks);
    out.count_ *= numbers;
    if (out.count_ > static_cast<std::size_t>(kMaxRanks))
      return invalidArgument("{} stands for more than {} names", text, kMaxRanks);
    out.parts_.emplace_back();
    at = range->end;
  }
  out.parts_.back().text = text.substr(at);
  return out;
}

std::string RangedText::at(std::size_t index) const {
  std::string out;
  std::size_t left = count_;
  for (const Part& part : parts_) {
    out += part.text;
    if (part.numbers.empty()) break;
    left /= countOf(part.numbers);
    std::size_t number = index / left;
    index %= left;
    auto one = part.numbers.begin();
    for (; number >= one->count(); ++one) number -= one->count();
    out += fmt::format("{:0{}}", static_cast<std::size_t>(one->first) + number, one->width);
  }
  return out;
}

Result<std::vector<std::string>> expandRanges(std::string_view text) {
  LOCKSTEP_ASSIGN(const RangedText ranged, RangedText::parse(text));
  std::vector<std::string> out;
  out.reserve(ranged.count());
  for (std::size_t i = 0; i < ranged.count(); ++i) out.push_back(ranged.at(i));
  return out;
}

Result<std::string> withoutText(std::string_view text, std::size_t index) {
  LOCKSTEP_ASSIGN(const RangedText ranged, RangedText::parse(text));
  if (!ranged.hasRanges()) return std::string(text);
  if (ranged.parts().size() > 2)
    return invalidArgument("{} has several ranges; write what is left of it as several nodes",
                           text);
  std::vector<std::string> left;
  std::size_t before = 0, count = 0;
  const auto keep = [&](int first, int last, std::size_t width) {
    if (first > last) return;
    count += static_cast<std::size_t>(last - first) + 1;
    left.push_back(first == last ? fmt::format("{:0{}}", first, width)
                                 : fmt::format("{:0{}}-{:0{}}", first, width, last, width));
  };
  for (const RangedText::Interval& one : ranged.parts()[0].numbers) {
    const bool isHere = index >= before && index - before < one.count();
    const int number = isHere ? one.first + static_cast<int>(index - before) : one.last + 1;
    keep(one.first, number - 1, one.width);
    keep(number + 1, one.last, one.width);
    before += one.count();
  }
  const std::string numbers = fmt::format("{}", fmt::join(left, ","));
  const std::string &begin = ranged.parts()[0].text, &rest = ranged.parts()[1].text;
  if (count == 0) return invalidArgument("{} stands for one name", text);
  if (count == 1) return begin + numbers + rest;
  return fmt::format("{}[{}]{}", begin, numbers, rest);
}

Result<NamePattern> NamePattern::parse(std::string_view pattern) {
  NamePattern out;
  LOCKSTEP_ASSIGN(out.text_, RangedText::parse(pattern));
  const auto& parts = out.text_.parts();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string& text = parts[i].text;
    if (text.find_first_of("*?") != std::string::npos) out.hasNamesOnly_ = false;
    const bool isBeside =
        (i > 0 && text.starts_with('*')) || (!parts[i].numbers.empty() && text.ends_with('*'));
    if (isBeside)
      return invalidArgument(
          "{} has a range beside *, which matches digits too; expected a character between them, "
          "as n[1-4]-*",
          pattern);
  }
  return out;
}

bool NamePattern::matches(std::string_view name) const {
  Places places{0};
  for (const RangedText::Part& part : text_.parts()) {
    for (const char c : part.text) {
      matchCharacter(c, name, places);
      if (places.empty()) return false;
    }
    if (!part.numbers.empty()) matchNumber(part.numbers, name, places);
    if (places.empty()) return false;
  }
  return places.back() == name.size();
}

Result<ClusterSpec> withExpandedNodes(const ClusterSpec& spec) {
  ClusterSpec out = spec;
  out.clear_nodes();
  std::size_t bytes = 0;
  for (int i = 0; i < spec.nodes_size(); ++i)
    LOCKSTEP_TRY(addNodes(spec.nodes(i), fmt::format("nodes[{}]", i), bytes, out));
  return out;
}

std::string writtenField(const ClusterSpec& written, std::string_view field) {
  constexpr std::string_view kNodes = "nodes[";
  const std::size_t close = field.find(']');
  if (!field.starts_with(kNodes) || close == std::string_view::npos) return std::string(field);
  std::size_t left = 0;
  const char* const end = field.data() + close;
  const auto [stop, wrong] = std::from_chars(field.data() + kNodes.size(), end, left);
  if (wrong != std::errc() || stop != end) return std::string(field);
  for (int i = 0; i < written.nodes_size(); ++i) {
    const auto names = RangedText::parse(written.nodes(i).name());
    if (!names.ok()) break;
    if (left < names->count()) return fmt::format("{}{}{}", kNodes, i, field.substr(close));
    left -= names->count();
  }
  return std::string(field);
}

}  // namespace lockstep::specs
