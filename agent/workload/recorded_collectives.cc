#include "agent/workload/recorded_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "agent/workload/collective_counts.h"
#include "engine/base/utf8.h"

namespace lockstep::agent {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 53;
constexpr std::size_t kLongestWord = 100, kLongestSizes = 300;
constexpr std::string_view kCollective = "Recorded collective ", kTransfer = "Recorded transfer ",
                           kOf = " of ", kGroup = " of group ", kColon = ": ", kComma = ", ";

bool isState(std::string_view text) {
  return text == "scheduled" || text == "started" || text == "completed";
}

std::string textIn(const nlohmann::json& message, const char* name, std::size_t longest) {
  const auto member = message.find(name);
  if (member == message.end() || !member->is_string()) return "";
  return member->get<std::string>().substr(0, longest);
}

// -1: there is none.
std::int64_t numberIn(const nlohmann::json& message, const char* name) {
  const auto member = message.find(name);
  if (member == message.end() || !member->is_number_integer()) return -1;
  const auto number = member->get<std::int64_t>();
  return number <= kMost ? number : -1;
}

bool take(std::string_view& text, std::string_view begin) {
  if (!text.starts_with(begin)) return false;
  text.remove_prefix(begin.size());
  return true;
}

bool take(std::string_view& text, std::int64_t& number) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return failed == std::errc() && number >= 0;
}

// Takes what is before the end, and the end.
bool takeUntil(std::string_view& text, std::string_view end, std::string& word) {
  const std::size_t at = text.find(end);
  if (at == std::string_view::npos || at == 0) return false;
  word = text.substr(0, at);
  text.remove_prefix(at + end.size());
  return true;
}

}  // namespace

std::optional<RecordedCollective> recordedIn(const nlohmann::json& message) {
  RecordedCollective out;
  out.name = oneWord(textIn(message, "recorded", kLongestWord));
  out.group = oneWord(textIn(message, "group", kLongestWord));
  out.state = textIn(message, "state", kLongestWord);
  out.number = numberIn(message, "number");
  out.scheduled = numberIn(message, "scheduled");
  out.sizes = validUtf8(textIn(message, "sizes", kLongestSizes));
  std::replace_if(
      out.sizes.begin(), out.sizes.end(), [](char c) { return c >= 0 && c < ' '; }, '_');
  const auto betweenTwo = message.find("between_two");
  out.betweenTwo = betweenTwo != message.end() && *betweenTwo == true;
  if (out.name.empty() || out.group.empty() || !isState(out.state) || out.number < 0 ||
      out.scheduled < out.number)
    return std::nullopt;
  return out;
}

std::string recordedLine(const RecordedCollective& collective) {
  return fmt::format("{}{}{}{}{}{}{}{} {}{}{}", collective.betweenTwo ? kTransfer : kCollective,
                     collective.number, kOf, collective.scheduled, kGroup, collective.group, kColon,
                     collective.state, collective.name, collective.sizes.empty() ? "" : kComma,
                     collective.sizes);
}

std::optional<RecordedCollective> recordedOf(std::string_view line) {
  RecordedCollective out;
  out.betweenTwo = take(line, kTransfer);
  if (!out.betweenTwo && !take(line, kCollective)) return std::nullopt;
  if (!take(line, out.number) || !take(line, kOf) || !take(line, out.scheduled) ||
      !take(line, kGroup) || !takeUntil(line, kColon, out.group) ||
      !takeUntil(line, " ", out.state) || !isState(out.state))
    return std::nullopt;
  if (!takeUntil(line, kComma, out.name)) {
    out.name = line;
    line = {};
  }
  out.sizes = line;
  return out;
}

}  // namespace lockstep::agent
