#include "app/history/run_csv.h"

#include <cmath>
#include <string_view>
#include <vector>

#include "app/history/history.h"
#include "app/history/series_name.h"

namespace lockstep::app {

SeriesAxis seriesAxis(std::string_view series) {
  if (series.starts_with("epoch/")) return SeriesAxis::kEpoch;
  const SeriesName name = parseSeriesName(series);
  const bool ofProcess = name.rank >= 0 && (name.figure == "cpu" || name.figure == "memory");
  if (!name.node.empty() || ofProcess) return SeriesAxis::kTime;
  return SeriesAxis::kStep;
}

std::string csvNumber(double value) {
  if (std::isnan(value)) return {};
  const bool isFloat = std::isinf(value) || static_cast<double>(static_cast<float>(value)) == value;
  return isFloat ? fmt::format("{:.9g}", value) : fmt::format("{}", value);
}

std::string csvText(std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

Result<std::string> csvOf(const RunStore& store) {
  std::string out;
  for (const SeriesAxis axis : {SeriesAxis::kStep, SeriesAxis::kEpoch, SeriesAxis::kTime}) {
    std::vector<std::string> names;
    for (const SeriesInfo& info : store.series())
      if (seriesAxis(info.name) == axis) names.push_back(info.name);
    if (names.empty()) continue;
    if (!out.empty()) out += "\n";
    out += axis == SeriesAxis::kStep ? "step" : axis == SeriesAxis::kEpoch ? "epoch" : "time";
    std::vector<std::vector<Point>> columns;
    for (const std::string& name : names) {
      out += "," + csvText(name);
      LOCKSTEP_ASSIGN(auto points, store.readAll(name));
      columns.push_back(std::move(points));
    }
    out += "\n";
    // All columns have increasing x: merged as they are read.
    std::vector<std::size_t> at(columns.size(), 0);
    for (;;) {
      double x = INFINITY;
      for (std::size_t c = 0; c < columns.size(); ++c)
        if (at[c] < columns[c].size()) x = std::min(x, columns[c][at[c]].x);
      if (x == INFINITY) break;
      out += axis == SeriesAxis::kTime ? fmt::format("{:.3f}", x) : fmt::format("{:.0f}", x);
      for (std::size_t c = 0; c < columns.size(); ++c) {
        out += ",";
        if (at[c] < columns[c].size() && columns[c][at[c]].x == x) {
          out += csvNumber(columns[c][at[c]++].y);
        }
      }
      out += "\n";
    }
  }
  return out;
}

Status checkExported(const History& history, const std::string& run) {
  LOCKSTEP_ASSIGN(const auto store, history.openRun(run));
  const Status intact = store->checkCurves();
  if (intact.ok() || intact.code() != Code::kDataLoss) return intact;
  Error error = makeError(Code::kDataLoss, "curves of run {} are damaged", run);
  error.why = "what could be read was exported";
  error.next = message("run `lockstep history check {}` to read the run again from its nodes", run);
  return error;
}

}  // namespace lockstep::app
