#include "app/cli/timeline_text.h"

#include <algorithm>
#include <array>
#include <limits>

namespace lockstep::app::cli {

std::string_view phaseText(const plan::Event& event) {
  if (event.kind != plan::EventKind::kCompute) return plan::eventKindName(event.kind);
  switch (event.phase) {
    case ir::Phase::kForward:
      return "forward";
    case ir::Phase::kBackward:
      return "backward";
    case ir::Phase::kOptimizer:
    case ir::Phase::kWatch:
      return "optimizer";
    default:
      return "other";
  }
}

std::string timelineText(const Preview& preview, const Style& style, int columns) {
  const auto& events = preview.simulation.events;
  if (events.empty()) return {};
  // A step in the middle: the first has nothing before it.
  std::int64_t last = 0;
  for (const plan::Event& event : events) last = std::max(last, event.step);
  const std::int64_t step = std::max<std::int64_t>(1, last - 1);
  std::int64_t begin = std::numeric_limits<std::int64_t>::max(), end = 0;
  for (const plan::Event& event : events)
    if (event.step == step) begin = std::min(begin, event.begin), end = std::max(end, event.end);
  if (end <= begin) return {};
  struct Look {
    std::string_view phase, letter;
  };
  static constexpr std::array<Look, 7> kLooks{{{"data", "d"},
                                               {"forward", "F"},
                                               {"backward", "B"},
                                               {"waiting", "·"},
                                               {"transfer", "T"},
                                               {"optimizer", "O"},
                                               {"other", "-"}}};
  const std::size_t ranks = preview.ranks.size();
  std::size_t label = 4;
  for (const RankPreview& rank : preview.ranks)
    label = std::max(label, fmt::format("{} {}", rank.rank, rank.node).size());
  const auto cells =
      static_cast<std::size_t>(std::clamp(columns - static_cast<int>(label) - 3, 20, 160));
  const double perCell = static_cast<double>(end - begin) / static_cast<double>(cells);
  std::string out = fmt::format("one step, {} ms; {} µs a character\n",
                                millisecondsText(static_cast<double>(end - begin) * 1e-9),
                                fmt::format("{:.1f}", perCell * 1e-3));
  for (std::size_t r = 0; r < ranks; ++r) {
    // Each cell shows what took most of it.
    std::vector<std::array<double, kLooks.size()>> spent(cells);
    std::vector<double> asynchronous(cells);
    for (const plan::Event& event : events) {
      if (event.step != step || event.rank != static_cast<int>(r)) continue;
      const auto look = static_cast<std::size_t>(
          std::find_if(kLooks.begin(), kLooks.end() - 1,
                       [&](const Look& one) { return one.phase == phaseText(event); }) -
          kLooks.begin());
      const double from = static_cast<double>(event.begin - begin) / perCell;
      const double to = static_cast<double>(event.end - begin) / perCell;
      for (auto c = static_cast<std::size_t>(from); c < cells && static_cast<double>(c) < to; ++c)
        (event.asynchronous && event.kind == plan::EventKind::kTransfer ? asynchronous[c]
                                                                        : spent[c][look]) +=
            std::min(to, static_cast<double>(c + 1)) - std::max(from, static_cast<double>(c));
    }
    std::string row;
    for (const auto& cell : spent) {
      const auto most = std::max_element(cell.begin(), cell.end());
      if (*most <= 0) {
        row += " ";
        continue;
      }
      const Look& look = kLooks[static_cast<std::size_t>(most - cell.begin())];
      const std::string letter(look.letter);
      row += look.phase == "forward"    ? style.green(letter)
             : look.phase == "backward" ? style.cyan(letter)
             : look.phase == "transfer" ? style.yellow(letter)
             : look.phase == "waiting"  ? style.dim(letter)
                                        : letter;
    }
    out += padded(fmt::format("{} {}", r, preview.ranks[r].node), label) + " │" + row + "│\n";
    if (std::all_of(asynchronous.begin(), asynchronous.end(),
                    [](double cell) { return cell <= 0; }))
      continue;
    row.clear();
    for (const double cell : asynchronous) row += cell > 0.5 ? style.yellow("T") : " ";
    out += padded("  async", label) + " │" + row + "│\n";
  }
  out += "d data  F forward  B backward  T transfer  · waiting  O optimizer\n";
  return out;
}

}  // namespace lockstep::app::cli
