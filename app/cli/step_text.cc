#include "app/cli/step_text.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace lockstep::app::cli {
namespace {

struct Look {
  std::string_view phase, letter;
};
constexpr std::array<Look, 6> kLooks{{{"data", "d"},
                                      {"forward", "F"},
                                      {"backward", "B"},
                                      {"waiting", "·"},
                                      {"transfer", "T"},
                                      {"optimizer", "O"}}};  // by SpanKind
using Cell = std::array<double, kLooks.size()>;              // ns of each kind

// Each cell has what takes place in its share of the step.
std::vector<Cell> cellsOf(const std::vector<TimelineSpan>& spans, double perCell,
                          std::size_t cells) {
  std::vector<Cell> out(cells);
  for (const TimelineSpan& span : spans) {
    const double from = static_cast<double>(span.begin) / perCell,
                 to = static_cast<double>(span.end) / perCell;
    for (auto c = static_cast<std::size_t>(std::max(from, 0.0));
         c < cells && static_cast<double>(c) < to; ++c)
      out[c][static_cast<std::size_t>(span.kind)] +=
          std::min(to, static_cast<double>(c + 1)) - std::max(from, static_cast<double>(c));
  }
  return out;
}

// What took most of each cell.
std::string letters(const std::vector<Cell>& cells, const Style& style) {
  std::string out;
  for (const Cell& cell : cells) {
    const auto most = std::max_element(cell.begin(), cell.end());
    const auto at = static_cast<std::size_t>(most - cell.begin());
    const std::string letter(*most <= 0 ? " " : kLooks[at].letter);
    switch (static_cast<SpanKind>(at)) {
      case SpanKind::kForward:
        out += style.green(letter);
        break;
      case SpanKind::kBackward:
        out += style.cyan(letter);
        break;
      case SpanKind::kTransfer:
        out += style.yellow(letter);
        break;
      case SpanKind::kWaiting:
        out += style.dim(letter);
        break;
      default:
        out += letter;
    }
  }
  return out;
}

std::string asynchronousLetters(const std::vector<Cell>& cells, const Style& style) {
  constexpr double kMost = 0.5;  // of a cell
  std::string out;
  for (const Cell& cell : cells)
    out += cell[static_cast<std::size_t>(SpanKind::kTransfer)] > kMost ? style.yellow("T") : " ";
  return out;
}

}  // namespace

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

std::string_view phaseText(SpanKind kind) { return kLooks[static_cast<std::size_t>(kind)].phase; }

std::vector<std::string> rankNodes(const Preview& preview) {
  std::vector<std::string> out;
  for (const RankPreview& rank : preview.ranks) out.push_back(rank.node);
  return out;
}

std::string timelineText(const StepTimeline& step, const std::vector<std::string>& nodes,
                         const Style& style, int columns) {
  if (step.empty()) return {};
  std::vector<std::string> names;
  std::size_t widest = 4;
  for (std::size_t rank = 0; rank < step.lanes.size(); ++rank) {
    names.push_back(fmt::format("{} {}", rank, rank < nodes.size() ? nodes[rank] : ""));
    widest = std::max(widest, names.back().size());
  }
  const auto cells =
      static_cast<std::size_t>(std::clamp(columns - static_cast<int>(widest) - 3, 20, 160));
  const double perCell = static_cast<double>(step.length) / static_cast<double>(cells);
  std::string out =
      fmt::format("one step, {} ms; {:.1f} µs a character\n",
                  millisecondsText(static_cast<double>(step.length) * 1e-9), perCell * 1e-3);
  const auto row = [&](const std::string& name, const std::string& text) {
    out += padded(name, widest) + " │" + text + "│\n";
  };
  for (std::size_t rank = 0; rank < step.lanes.size(); ++rank) {
    const StepTimeline::Lane& lane = step.lanes[rank];
    row(names[rank], letters(cellsOf(lane.spans, perCell, cells), style));
    if (!lane.communication.empty())
      row("  async", asynchronousLetters(cellsOf(lane.communication, perCell, cells), style));
  }
  return out + "d data  F forward  B backward  T transfer  · waiting  O optimizer\n";
}

std::string matrixText(const StepMatrix& matrix, std::int64_t first) {
  Table table{{"rank", "step ms", "own ms", "waiting ms"}, {true, true, true, true}, {}};
  const bool hasClocks = matrix.has(StepMeasure::kGpuClock);
  if (hasClocks) {
    table.header.push_back("GPU MHz");
    table.right.push_back(true);
  }
  table.header.push_back("over the steps: own time");
  table.right.push_back(false);
  const auto meanText = [&](StepMeasure measure, int rank) -> std::string {
    const double mean = matrix.mean(measure, rank);
    return std::isnan(mean) ? "–" : millisecondsText(mean);
  };
  for (int rank = 0; rank < matrix.ranks(); ++rank) {
    std::vector<double> own;
    for (std::int64_t step = first; step <= matrix.steps(); step += matrix.stride())
      own.push_back(static_cast<double>(matrix.value(StepMeasure::kCompute, rank, step)));
    std::vector<std::string>& row = table.rows.emplace_back();
    row = {std::to_string(rank), meanText(StepMeasure::kStep, rank),
           meanText(StepMeasure::kCompute, rank), meanText(StepMeasure::kWaiting, rank)};
    if (const double clock = matrix.mean(StepMeasure::kGpuClock, rank); hasClocks)
      row.push_back(std::isnan(clock) ? "–" : fmt::format("{:.0f}", clock));
    row.push_back(sparkline(own, 24));
  }
  return table.text();
}

std::string trafficText(const std::vector<plan::Traffic>& traffic) {
  Table table{{"from", "to", "a step"}, {true, true, true}, {}};
  for (const plan::Traffic& one : traffic)
    table.rows.push_back({std::to_string(one.from), std::to_string(one.to),
                          bytesText(static_cast<double>(one.bytes))});
  return table.text();
}

}  // namespace lockstep::app::cli
