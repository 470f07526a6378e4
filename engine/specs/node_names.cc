#include "engine/specs/node_names.h"

#include <algorithm>
#include <charconv>

#include "engine/specs/field.h"
#include "engine/specs/specs.h"

namespace lockstep::specs {
namespace {

using spec::v1::ClusterSpec;
using spec::v1::NodeSpec;

constexpr std::string_view kRange = "0123456789,-";
constexpr std::size_t kMostDigits = 9;

bool isDigits(std::string_view text) {
  return !text.empty() && text.size() <= kMostDigits &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

int numberOf(std::string_view digits) {
  int out = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), out);
  return out;
}

// The first brackets of a text that hold a range: what they hold. Empty at npos: none.
struct Brackets {
  std::size_t begin = std::string_view::npos, end = 0;  // of '[' and behind ']'
  std::string_view inside;
};
Brackets firstRange(std::string_view text) {
  for (std::size_t at = text.find('['); at != std::string_view::npos; at = text.find('[', at + 1)) {
    const std::size_t close = text.find(']', at);
    if (close == std::string_view::npos) break;
    const std::string_view inside = text.substr(at + 1, close - at - 1);
    if (inside.find_first_not_of(kRange) == std::string_view::npos) return {at, close + 1, inside};
  }
  return {};
}

// The numbers of "1-4,9" with their leading zeros.
Result<std::vector<std::string>> numbersOf(std::string_view range) {
  const auto wrong = [&] {
    return invalidArgument("[{}] is no range; expected numbers as [1-8] or [1,3,5-8]", range);
  };
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= range.size();) {
    const std::size_t comma = std::min(range.find(',', at), range.size());
    const std::string_view part = range.substr(at, comma - at);
    const std::size_t dash = part.find('-');
    const std::string_view first = part.substr(0, dash),
                           last = dash == std::string_view::npos ? first : part.substr(dash + 1);
    if (!isDigits(first) || !isDigits(last) || numberOf(last) < numberOf(first)) return wrong();
    if (numberOf(last) - numberOf(first) >= kMaxRanks - static_cast<int>(out.size()))
      return invalidArgument("[{}] stands for more than {} names", range, kMaxRanks);
    for (int number = numberOf(first); number <= numberOf(last); ++number)
      out.push_back(fmt::format("{:0{}}", number, first.size()));
    at = comma + 1;
  }
  return out;
}

// "1-4,9" of the numbers 1, 2, 3, 4 and 9.
std::string rangesOf(const std::vector<std::string>& numbers) {
  std::string out;
  for (std::size_t begin = 0, end = 0; begin < numbers.size(); begin = end) {
    const int first = numberOf(numbers[begin]);
    const auto follows = [&](std::size_t at) {
      return numbers[at] ==
             fmt::format("{:0{}}", first + static_cast<int>(at - begin), numbers[begin].size());
    };
    for (end = begin + 1; end < numbers.size() && follows(end);) ++end;
    if (!out.empty()) out += ',';
    out += numbers[begin];
    if (end > begin + 1) out += '-' + numbers[end - 1];
  }
  return out;
}

// * and ? only.
bool matchesGlob(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, star = std::string_view::npos, from = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++from;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

// The texts of a node's field for each of its names.
Result<std::vector<std::string>> textsOf(const std::string& text, const std::string& field,
                                         const std::string& name, std::size_t names) {
  auto texts = expandRanges(text);
  if (!texts.ok()) return wrongField(field, texts.error().what);
  if (texts->size() == 1 && firstRange(text).begin == std::string_view::npos)
    texts->assign(names, text);
  if (texts->size() != names)
    return wrongField(field, message("{} stands for {}, and the node's name {} for {}; expected as "
                                     "many",
                                     text, texts->size(), name, names));
  return texts;
}

Status addNodes(const NodeSpec& node, const std::string& path, ClusterSpec& out) {
  const auto names = expandRanges(node.name());
  if (!names.ok()) return wrongField(path + ".name", names.error().what);
  LOCKSTEP_ASSIGN(const auto hosts,
                  textsOf(node.ssh().host(), path + ".ssh.host", node.name(), names->size()));
  LOCKSTEP_ASSIGN(const auto addresses,
                  textsOf(node.address(), path + ".address", node.name(), names->size()));
  if (out.nodes_size() + names->size() > static_cast<std::size_t>(kMaxRanks))
    return wrongField(path + ".name", message("there are more than {} nodes", kMaxRanks));
  for (std::size_t i = 0; i < names->size(); ++i) {
    NodeSpec& one = *out.add_nodes();
    one = node;
    one.set_name((*names)[i]);
    if (node.has_ssh()) one.mutable_ssh()->set_host(hosts[i]);
    one.set_address(addresses[i]);
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> expandRanges(std::string_view text) {
  const Brackets range = firstRange(text);
  if (range.begin == std::string_view::npos) return std::vector{std::string(text)};
  LOCKSTEP_ASSIGN(const std::vector<std::string> numbers, numbersOf(range.inside));
  LOCKSTEP_ASSIGN(const std::vector<std::string> rests, expandRanges(text.substr(range.end)));
  if (numbers.size() * rests.size() > static_cast<std::size_t>(kMaxRanks))
    return invalidArgument("{} stands for more than {} names", text, kMaxRanks);
  std::vector<std::string> out;
  for (const std::string& number : numbers)
    for (const std::string& rest : rests)
      out.push_back(std::string(text.substr(0, range.begin)) + number + rest);
  return out;
}

Result<std::string> withoutText(std::string_view text, std::size_t index) {
  const Brackets range = firstRange(text);
  if (range.begin == std::string_view::npos) return std::string(text);
  const std::string_view rest = text.substr(range.end);
  if (firstRange(rest).begin != std::string_view::npos)
    return invalidArgument("{} has several ranges; write what is left of it as several nodes",
                           text);
  LOCKSTEP_ASSIGN(std::vector<std::string> numbers, numbersOf(range.inside));
  if (index < numbers.size()) numbers.erase(numbers.begin() + static_cast<std::ptrdiff_t>(index));
  const std::string_view begin = text.substr(0, range.begin);
  if (numbers.size() == 1) return fmt::format("{}{}{}", begin, numbers[0], rest);
  return fmt::format("{}[{}]{}", begin, rangesOf(numbers), rest);
}

NamePattern::NamePattern(std::string_view pattern) {
  const auto texts = expandRanges(pattern);
  for (const std::string& text : texts.ok() ? *texts : std::vector{std::string(pattern)}) {
    if (text.find_first_of("*?") == std::string::npos)
      names_.insert(text);
    else
      globs_.push_back(text);
  }
}

bool NamePattern::matches(std::string_view name) const {
  return names_.contains(name) ||
         std::ranges::any_of(globs_, [&](const auto& glob) { return matchesGlob(glob, name); });
}

Result<ClusterSpec> withExpandedNodes(const ClusterSpec& spec) {
  ClusterSpec out = spec;
  out.clear_nodes();
  for (int i = 0; i < spec.nodes_size(); ++i)
    LOCKSTEP_TRY(addNodes(spec.nodes(i), fmt::format("nodes[{}]", i), out));
  return out;
}

std::string writtenField(const ClusterSpec& written, std::string_view field) {
  constexpr std::string_view kNodes = "nodes[";
  const std::size_t close = field.find(']');
  if (!field.starts_with(kNodes) || close == std::string_view::npos) return std::string(field);
  const std::string_view digits = field.substr(kNodes.size(), close - kNodes.size());
  if (!isDigits(digits)) return std::string(field);
  std::size_t left = static_cast<std::size_t>(numberOf(digits));
  for (int i = 0; i < written.nodes_size(); ++i) {
    const auto names = expandRanges(written.nodes(i).name());
    if (!names.ok()) break;
    if (left < names->size()) return fmt::format("{}{}{}", kNodes, i, field.substr(close));
    left -= names->size();
  }
  return std::string(field);
}

}  // namespace lockstep::specs
