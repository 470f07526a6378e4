#include "agent/workload/teed_lines.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace lockstep::agent {
namespace {

constexpr std::size_t kLongestLine = 1 << 16;
constexpr std::size_t kMostDigits = 4;

// Whether `text` begins a line as "[default12]:" does; the number once it is there.
struct Head {
  bool possible = false;
  std::optional<int> local;
};
Head headOf(std::string_view text, std::string_view begin) {
  const std::size_t common = std::min(text.size(), begin.size());
  if (text.substr(0, common) != begin.substr(0, common)) return {};
  text.remove_prefix(common);
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (text.empty()) return {true, {}};
  if (digits == 0 || digits > kMostDigits) return {};
  constexpr std::string_view kEnd = "]:";
  const std::string_view end = text.substr(digits);
  if (!kEnd.starts_with(end)) return {};
  Head out{true, {}};
  int number = 0;
  std::from_chars(text.data(), text.data() + digits, number);
  if (end == kEnd) out.local = number;
  return out;
}

}  // namespace

std::string torchrunRole(const spec::v1::WorkloadSpec& workload) {
  constexpr std::string_view kOption = "--role";
  const auto& words = workload.command();
  for (int i = 0; i < words.size() && !words.Get(i).ends_with(".py"); ++i) {
    if (words.Get(i) == kOption && i + 1 < words.size()) return words.Get(i + 1);
    if (words.Get(i).starts_with(std::string(kOption) + "="))
      return words.Get(i).substr(kOption.size() + 1);
  }
  const auto set = workload.env().find("PET_ROLE");
  return set == workload.env().end() ? "default" : set->second;
}

void TeedLines::begin(char c) {
  line_ += c;
  const Head head = headOf(line_, begin_);
  if (!head.possible) {
    take_(-1, line_);
    line_.clear();
    state_ = c == '\n' ? State::kBegin : State::kOther;
  } else if (head.local) {
    local_ = *head.local;
    line_.clear();
    state_ = State::kNamed;
  }
}

void TeedLines::add(std::string_view bytes) {
  while (!bytes.empty()) {
    if (state_ == State::kBegin) {
      begin(bytes.front());
      bytes.remove_prefix(1);
      continue;
    }
    const std::size_t newline = bytes.find('\n');
    const bool ends = newline != std::string_view::npos;
    const std::string_view part = bytes.substr(0, ends ? newline + 1 : bytes.size());
    bytes.remove_prefix(part.size());
    if (state_ == State::kOther) {
      take_(-1, part);
    } else {
      if (line_.size() < kLongestLine) line_.append(part.substr(0, part.size() - (ends ? 1 : 0)));
      if (ends) take_(local_, line_);
      if (ends) line_.clear();
    }
    if (ends) state_ = State::kBegin;
  }
}

void TeedLines::end() {
  if (state_ == State::kNamed || !line_.empty())
    take_(state_ == State::kNamed ? local_ : -1, line_);
  line_.clear();
  state_ = State::kBegin;
}

}  // namespace lockstep::agent
