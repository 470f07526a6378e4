// history export: a run as a table, JSON, a page, its spec, metrics of OpenTelemetry or event files
// of TensorBoard; curves of one run or several as a picture or a table.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>

#include "app/cli/commands.h"
#include "app/cli/history_json.h"
#include "app/cli/terminal.h"
#include "app/history/history.h"
#include "app/history/run_csv.h"
#include "app/report/html_report.h"
#include "app/report/run_axis.h"
#include "app/runs/relaunch.h"
#include "app/sinks/otlp.h"
#include "app/sinks/tensorboard.h"
#include "engine/base/file.h"
#include "engine/base/suggest.h"

namespace lockstep::app::cli {
namespace {

constexpr std::string_view kFormats[] = {"csv",  "json",        "html", "svg", "yaml",
                                         "otlp", "tensorboard", "png",  "pdf"};
constexpr std::size_t kWritten = 7;  // of them; the others are pictures that need a window

// --format, else what the file's name ends with, else CSV.
Result<std::string> formatOf(const Arguments& arguments) {
  std::string format = arguments.text("format");
  const std::string out = arguments.text("out");
  const std::size_t dot = out.rfind('.');
  if (format.empty() && dot != std::string::npos) {
    const std::string ending = out.substr(dot + 1);
    if (std::find(std::begin(kFormats), std::end(kFormats), ending) != std::end(kFormats))
      format = ending;
  }
  if (format.empty()) return std::string(arguments.has("curve") ? "svg" : "csv");
  const auto found = std::find(std::begin(kFormats), std::end(kFormats), format);
  if (found == std::end(kFormats)) {
    Error error = invalidArgument("there is no format \"{}\"", format);
    error.next =
        message("a format is {}", expectedOneOf(format, std::span(kFormats).first(kWritten)));
    return error;
  }
  if (found - std::begin(kFormats) < static_cast<std::ptrdiff_t>(kWritten)) return format;
  Error error = invalidArgument("the command line writes no {}", format);
  error.why = "drawing one needs the studio's libraries";
  error.next = message(
      "--format svg writes the same curve as a vector picture; the studio saves {} from the menu "
      "of "
      "a plot",
      format);
  return error;
}

struct Curve {
  std::string name;
  std::vector<Point> points;
};

Result<std::vector<Curve>> readCurves(const History& history, const std::vector<RunRow>& rows,
                                      const std::string& series, RunAxis axis) {
  std::vector<Curve> out;
  for (const RunRow& row : rows) {
    LOCKSTEP_TRY(chartOf(history, row.run, series).status());  // says what the run lacks
    LOCKSTEP_ASSIGN(const auto store, history.openRun(row.run));
    LOCKSTEP_ASSIGN(std::vector<Point> points, store->readAll(series));
    LOCKSTEP_ASSIGN(points, placedOn(axis, history, *store, row.run, std::move(points)));
    const std::string name = rows.size() == 1 ? series : fmt::format("{} {}", row.name, row.run);
    out.push_back({name, std::move(points)});
  }
  return out;
}

// A row for each place on the axis that a curve has a point at; a column for each curve.
std::string csvOfCurves(const std::vector<Curve>& curves, std::string_view axis) {
  std::string out(axis);
  for (const Curve& curve : curves) out += "," + csvText(curve.name);
  out += "\n";
  std::vector<std::size_t> at(curves.size(), 0);
  for (;;) {
    double x = INFINITY;
    for (std::size_t c = 0; c < curves.size(); ++c)
      if (at[c] < curves[c].points.size()) x = std::min(x, curves[c].points[at[c]].x);
    if (x == INFINITY) return out;
    out += fmt::format("{}", x);
    for (std::size_t c = 0; c < curves.size(); ++c) {
      out += ",";
      if (at[c] >= curves[c].points.size() || curves[c].points[at[c]].x != x) continue;
      const double y = curves[c].points[at[c]++].y;
      if (!std::isnan(y)) out += fmt::format("{:.9g}", y);
    }
    out += "\n";
  }
}

Result<std::string> pictureOf(const std::vector<Curve>& curves, const History& history,
                              const RunRow& first, const std::string& series, RunAxis axis) {
  LOCKSTEP_ASSIGN(Chart chart, chartOf(history, first.run, series));
  if (curves.size() == 1 && axis == RunAxis::kStep) return svgOf(chart);
  if (axis != RunAxis::kStep) chart.xTitle = axisName(axis);
  if (axis == RunAxis::kTime) chart.x = Chart::Unit::kDuration;
  const bool dots = !chart.lines.empty() && chart.lines.front().dots;
  chart.lines.clear();
  for (const Curve& curve : curves)
    chart.lines.push_back({curve.name, spansFor(curve.points), dots, false});
  return svgOf(chart);
}

Result<std::string> exportOf(const History& history, const std::vector<RunRow>& rows,
                             const std::string& format, const Arguments& arguments) {
  LOCKSTEP_ASSIGN(const RunAxis axis, axisFromName(arguments.text("axis", "step")));
  const std::string series = arguments.text("curve", format == "svg" ? "loss" : "");
  if (series.empty() && arguments.has("axis"))
    return invalidArgument("--axis is for a curve: add --curve loss");
  if (!series.empty()) {
    if (format != "svg" && format != "csv")
      return invalidArgument("--curve is for --format csv and svg");
    if (axis != RunAxis::kStep && seriesAxis(series) != SeriesAxis::kStep)
      return invalidArgument("the curve {} has no steps that --axis could replace", series);
    LOCKSTEP_ASSIGN(const auto curves, readCurves(history, rows, series, axis));
    if (format == "svg") return pictureOf(curves, history, rows.front(), series, axis);
    return csvOfCurves(curves, axisName(axis));
  }
  if (rows.size() > 1) {
    Error error = invalidArgument("--format {} takes one run", format);
    error.next = "with --curve, csv and svg take several";
    return error;
  }
  const std::string& run = rows.front().run;
  if (format == "csv") return history.csv(run);
  if (format == "html") return htmlReport(history, run);
  if (format == "json") return jsonOfRun(history, run);
  if (format == "otlp") return otlpOfRun(history, run);
  LOCKSTEP_ASSIGN(const Relaunch again, relaunchOf(history, run, RelaunchKind::kRerun));
  return again.specYaml;
}

Status writeFolder(const History& history, const std::vector<RunRow>& rows,
                   const Arguments& arguments) {
  for (const char* other : {"curve", "axis"})
    if (arguments.has(other))
      return invalidArgument("--format tensorboard writes all curves: leave out --{}", other);
  if (!arguments.has("out"))
    return invalidArgument("--format tensorboard writes a folder: add --out FOLDER");
  std::vector<std::string> runs;
  for (const RunRow& row : rows) runs.push_back(row.run);
  return writeTensorBoard(history, runs, absolutePath(arguments.text("out"), {}));
}

Status writeText(const History& history, const std::vector<RunRow>& rows, const std::string& format,
                 const Arguments& arguments) {
  LOCKSTEP_ASSIGN(const std::string text, exportOf(history, rows, format, arguments));
  if (arguments.has("out"))
    return writeFileAtomically(absolutePath(arguments.text("out"), {}), text);
  putDocument(text);
  return {};
}

}  // namespace

int historyExportCommand(const Globals& globals, const Arguments& arguments) {
  const Status status = [&]() -> Status {
    LOCKSTEP_ASSIGN(const std::string format, formatOf(arguments));
    LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
    std::vector<RunRow> rows;
    for (const std::string& word : arguments.words()) {
      LOCKSTEP_ASSIGN(RunRow row, history->find(word));
      rows.push_back(std::move(row));
    }
    LOCKSTEP_TRY(format == "tensorboard" ? writeFolder(*history, rows, arguments)
                                         : writeText(*history, rows, format, arguments));
    for (const RunRow& row : rows)
      if (format != "yaml") LOCKSTEP_TRY(checkExported(*history, row.run));
    return {};
  }();
  if (status.ok()) return kSucceeded;
  report(status.error(), false);
  return exitCodeOf(status.error());
}

}  // namespace lockstep::app::cli
