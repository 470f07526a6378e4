#include "app/whatif/changes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <utility>

namespace lockstep::app {
namespace {

// 0: it is none.
double bytesPerSecond(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  if (unit.ends_with("/s")) unit.remove_suffix(2);
  if (error != std::errc()) return 0;
  constexpr std::array<std::pair<std::string_view, double>, 4> kPrefixes{
      {{"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}}};
  double factor = 1;
  for (const auto& [prefix, value] : kPrefixes)
    if (unit.starts_with(prefix) || (prefix == "K" && unit.starts_with("k"))) factor = value;
  if (factor > 1) unit.remove_prefix(1);
  if (unit == "bit") return number * factor / 8;
  return unit == "B" ? number * factor : 0;
}

}  // namespace

Result<LinkRate> parseLinkRate(const std::string& text, const std::vector<std::string>& nodes) {
  const std::set<std::string> known(nodes.begin(), nodes.end());
  const std::size_t equals = text.rfind('=');
  const std::string link = text.substr(0, equals);
  LinkRate out;
  if (equals != std::string::npos)
    out.bytesPerSecond = bytesPerSecond(std::string_view(text).substr(equals + 1));
  constexpr double kSlowest = 1, kFastest = 1e15;
  if (!(out.bytesPerSecond >= kSlowest && out.bytesPerSecond <= kFastest))
    return invalidArgument(
        "--link {}: NODE-NODE=RATE was expected, with a rate as 10Gbit/s or 1.2GB/s", text);
  for (std::size_t dash = link.find('-'); dash != std::string::npos;
       dash = link.find('-', dash + 1)) {
    out.a = link.substr(0, dash);
    out.b = link.substr(dash + 1);
    if (known.contains(out.a) && known.contains(out.b) && out.a != out.b) return out;
  }
  Error error =
      invalidArgument("--link {}: {} is not a link between two nodes of the run", text, link);
  if (known.size() < 2)
    error.why = known.empty() ? Message("the history does not know the nodes of its ranks")
                              : Message("the run has one node");
  else
    error.next = message("its nodes are {}", fmt::join(known, ", "));
  return error;
}

}  // namespace lockstep::app
