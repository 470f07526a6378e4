#include "app/report/html_report.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <map>
#include <tuple>

#include "app/history/run_csv.h"
#include "app/report/markup.h"
#include "app/runs/energy.h"
#include "app/runs/preview.h"
#include "app/runs/run_environment.h"
#include "engine/base/suggest.h"

namespace lockstep::app {
namespace {

constexpr int kPixels = 640;                // spans of a curve
constexpr std::size_t kMostLines = 16;      // of a chart
constexpr int kMostRanks = 256;             // in the table of ranks
constexpr std::size_t kMostPlan = 400'000;  // bytes

constexpr std::string_view kStyle =
    "body{font-family:sans-serif;color:#1f2630;background:#fff;margin:2em auto;max-width:62em;"
    "padding:0 1em;line-height:1.4}"
    "h1{font-size:1.6em;margin:0}h2{font-size:1.15em;margin:1.6em 0 .5em}"
    "p.sub{color:#5b6470;margin:.2em 0 1em}"
    "table{border-collapse:collapse;font-size:.9em}"
    "td,th{padding:.25em .8em;border-bottom:1px solid #e2e5e9;text-align:left;vertical-align:top}"
    "th{color:#5b6470;font-weight:normal}td.n,th.n{text-align:right}"
    "pre{background:#f5f6f8;padding:.8em;overflow-x:auto;font-size:.85em}"
    "svg{max-width:100%;height:auto;display:block;margin:.6em 0}"
    ".error{border-left:4px solid #c0392b;padding:.1em 1em;background:#fdf3f2;margin:.5em 0}"
    "summary{cursor:pointer;color:#5b6470}td.wrap{overflow-wrap:anywhere}"
    "@media print{h2{break-after:avoid}svg,tr{break-inside:avoid}}";

std::string localTime(std::int64_t wallNs) {
  if (wallNs <= 0) return {};
  const std::time_t seconds = wallNs / 1'000'000'000;
  std::tm local{};
  localtime_r(&seconds, &local);
  char text[40];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local)};
}

std::string fullNumber(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : std::string();
}

// A table cell, or a row of a table of two columns.
std::string cell(std::string_view text) { return fmt::format("<td>{}</td>", escaped(text)); }
std::string cell(double value, Chart::Unit unit = Chart::Unit::kPlain) {
  return fmt::format("<td class=\"n\" data-value=\"{}\">{}</td>", fullNumber(value),
                     escaped(unitText(value, unit)));
}
std::string cell(std::int64_t value) {
  return fmt::format("<td class=\"n\" data-value=\"{}\">{}</td>", value, value);
}
std::string headers(std::initializer_list<std::string_view> names) {
  std::string out;
  for (const std::string_view name : names) {
    const bool right = name.starts_with('>');
    out += fmt::format("<th{}>{}</th>", right ? " class=\"n\"" : "",
                       escaped(right ? name.substr(1) : name));
  }
  return "<tr>" + out + "</tr>";
}
std::string section(std::string_view id, std::string_view title, const std::string& content) {
  if (content.empty()) return {};
  return fmt::format("<section id=\"{}\"><h2>{}</h2>{}</section>\n", id, escaped(title), content);
}
std::string folded(std::string_view id, std::string_view title, std::string_view text) {
  if (text.empty()) return {};
  return fmt::format(
      "<section id=\"{}\"><details><summary>{}</summary><pre>{}</pre></details>"
      "</section>\n",
      id, escaped(title), escaped(text));
}

class Figures {
 public:
  void add(std::string_view name, std::string_view text) {
    if (!text.empty())
      rows_ += fmt::format("<tr><th>{}</th><td class=\"wrap\">{}</td></tr>", escaped(name),
                           escaped(text));
  }
  void add(std::string_view name, double value, Chart::Unit unit = Chart::Unit::kPlain) {
    rows_ += fmt::format("<tr><th>{}</th><td data-value=\"{}\">{}</td></tr>", escaped(name),
                         fullNumber(value), escaped(unitText(value, unit)));
  }
  void add(std::string_view name, std::int64_t value) {
    rows_ += fmt::format("<tr><th>{}</th><td data-value=\"{}\">{}</td></tr>", escaped(name), value,
                         value);
  }
  std::string text() const { return "<table>" + rows_ + "</table>"; }

 private:
  std::string rows_;
};

std::string figuresOf(const RunRow& row) {
  const RunFigures& figures = row.figures;
  Figures out;
  out.add("Run", row.run);
  out.add("State", stateName(row.phase));
  out.add("Created", localTime(row.createdNs));
  out.add("Started", localTime(row.startedNs));
  out.add("Finished", localTime(row.finishedNs));
  if (row.startedNs > 0 && row.finishedNs > row.startedNs)
    out.add("Took", static_cast<double>(row.finishedNs - row.startedNs) * 1e-9,
            Chart::Unit::kDuration);
  out.add("Strategy", row.strategy);
  out.add("Ranks", std::int64_t{row.world});
  out.add("Steps", figures.steps);
  out.add("Epochs", figures.epochs);
  if (std::isfinite(figures.trainLoss)) out.add("Training loss", figures.trainLoss);
  if (figures.evalLoss != 0) {
    out.add("Evaluation loss", figures.evalLoss);
    if (!figures.metric.empty())
      out.add("Evaluation " + figures.metric, figures.evalMetric,
              figures.metric == "accuracy" ? Chart::Unit::kPercent : Chart::Unit::kPlain);
  }
  if (figures.samplesPerSecond > 0) out.add("Samples per second", figures.samplesPerSecond);
  if (row.predictedStepSeconds > 0)
    out.add("Predicted step", row.predictedStepSeconds, Chart::Unit::kSeconds);
  if (row.measuredStepSeconds > 0)
    out.add("Measured step", row.measuredStepSeconds, Chart::Unit::kSeconds);
  if (row.predictedStepSeconds > 0 && row.measuredStepSeconds > 0)
    out.add("Measured / predicted", row.measuredStepSeconds / row.predictedStepSeconds);
  out.add("Lost to failures", figures.lostSeconds, Chart::Unit::kSeconds);
  out.add("Effective training time", effectiveTime(row), Chart::Unit::kPercent);
  out.add("Energy", energyText(figures));
  out.add("Weights, SHA-256", figures.weightsSha256);
  out.add("Resumed from", row.resumedFrom);
  out.add("Tags", fmt::format("{}", fmt::join(row.tags, ", ")));
  out.add("Notes", row.notes);
  return out.text();
}

std::string errorText(const Error& error) {
  std::string out =
      "<div class=\"error\"><p><strong>" + escaped(error.what.text()) + "</strong></p>";
  if (!error.why.empty()) out += "<p>" + escaped(error.why.text()) + "</p>";
  if (!error.next.empty()) out += "<p>" + escaped(error.next.text()) + "</p>";
  std::string where;
  if (!error.node.empty()) where += "node " + error.node + " ";
  if (error.rank >= 0) where += fmt::format("rank {} ", error.rank);
  if (error.step >= 0) where += fmt::format("step {}", error.step);
  return out + (where.empty() ? "" : "<p>" + escaped(where) + "</p>") + "</div>";
}

std::string errorsOf(const RunRow& row, const RunStore& store) {
  std::string out;
  for (const Error& error : store.errors()) out += errorText(error);
  if (out.empty() && !row.error.empty())
    out = "<div class=\"error\"><p>" + escaped(row.error.text()) + "</p></div>";
  return out;
}

// Reads a series for a chart; seconds since `origin` where it is not 0.
Result<ChartLine> lineOf(const RunStore& store, const SeriesInfo& info, std::string name,
                         double origin = 0) {
  LOCKSTEP_ASSIGN(std::vector<Span> spans, store.read(info.name, info.firstX, info.lastX, kPixels));
  for (Span& span : spans) span.x -= origin;
  return ChartLine{std::move(name), std::move(spans), false, false};
}

ChartLine evaluationsOf(const RunStore& store, double EpochRow::*value) {
  ChartLine out{"evaluation", {}, true, false};
  for (const EpochRow& row : store.epochs())
    if (row.evaluated())
      out.spans.push_back({static_cast<double>(row.step), row.*value, row.*value, row.*value});
  return out;
}

Chart::Unit unitOf(std::string_view series) {
  const std::string_view last = series.substr(series.rfind('/') + 1);
  if (series.starts_with("rank/"))
    return last == "began" || last == "staleness" || last == "cpu" || last == "gpu_clock"
               ? Chart::Unit::kPlain
           : last == "memory" ? Chart::Unit::kBytes
                              : Chart::Unit::kSeconds;
  if (series.starts_with("node/")) {
    if (last == "cpu" || last.ends_with("utilisation") || last == "sending")
      return Chart::Unit::kPercent;
    if (last == "memory" || last == "memory_total" || last == "disk_free")
      return Chart::Unit::kBytes;
    return Chart::Unit::kPlain;
  }
  return series == "accuracy" || series == "epoch/eval_accuracy" ? Chart::Unit::kPercent
                                                                 : Chart::Unit::kPlain;
}

Result<Chart> chartOfSeries(const RunRow& row, const RunStore& store, const SeriesInfo& info) {
  Chart out;
  out.title = info.name;
  out.y = unitOf(info.name);
  const SeriesAxis axis = seriesAxis(info.name);
  out.xTitle = axis == SeriesAxis::kStep ? "step" : axis == SeriesAxis::kEpoch ? "epoch" : "time";
  double origin = 0;
  if (axis == SeriesAxis::kTime) {
    out.x = Chart::Unit::kDuration;
    origin = row.startedNs > 0 ? static_cast<double>(row.startedNs) * 1e-9 : info.firstX;
  }
  const bool trained = info.name == "loss" || info.name == row.figures.metric;
  LOCKSTEP_ASSIGN(ChartLine line, lineOf(store, info, trained ? "training" : info.name, origin));
  line.dots = axis == SeriesAxis::kEpoch;
  out.lines.push_back(std::move(line));
  if (trained) {
    ChartLine tested =
        evaluationsOf(store, info.name == "loss" ? &EpochRow::evalLoss : &EpochRow::evalMetric);
    if (!tested.spans.empty()) out.lines.push_back(std::move(tested));
  }
  return out;
}

// All series that end in `ending` and begin with `beginning`, in one chart.
Result<Chart> chartOfAll(const RunRow& row, const RunStore& store, std::string_view beginning,
                         std::string_view ending, Chart chart) {
  const bool time = chart.x == Chart::Unit::kDuration;
  const double origin = time && row.startedNs > 0 ? static_cast<double>(row.startedNs) * 1e-9 : 0;
  for (const SeriesInfo& info : store.series()) {
    const std::string_view name = info.name;
    if (name.size() < beginning.size() + ending.size() || !name.starts_with(beginning) ||
        !name.ends_with(ending) || chart.lines.size() == kMostLines)
      continue;
    const std::string_view middle =
        name.substr(beginning.size(), name.size() - beginning.size() - ending.size());
    if (middle.find('/') != std::string_view::npos) continue;
    const std::string shown =
        beginning == "rank/" ? fmt::format("rank {}", middle) : std::string(middle);
    LOCKSTEP_ASSIGN(ChartLine line,
                    lineOf(store, info, shown, time && origin == 0 ? info.firstX : origin));
    chart.lines.push_back(std::move(line));
  }
  return chart;
}

Result<std::string> curvesOf(const RunRow& row, const RunStore& store) {
  std::string out;
  const auto series = store.series();
  for (const std::string& name :
       {std::string("loss"), row.figures.metric, std::string("samples_per_second"),
        std::string("learning_rate"), std::string("gradient_norm"), std::string("loss_scale")}) {
    const auto found = std::find_if(series.begin(), series.end(),
                                    [&](const SeriesInfo& info) { return info.name == name; });
    if (found == series.end()) continue;
    LOCKSTEP_ASSIGN(Chart chart, chartOfSeries(row, store, *found));
    chart.title = name == "loss"                 ? "Loss"
                  : name == "samples_per_second" ? "Samples per second"
                  : name == "learning_rate"      ? "Learning rate"
                  : name == "gradient_norm"      ? "Gradient norm"
                  : name == "loss_scale"         ? "Loss scale"
                                                 : name;
    out += svgOf(chart);
  }
  Chart steps{"Step time of each rank", "step", Chart::Unit::kPlain,
              Chart::Unit::kSeconds,    true,   {}};
  LOCKSTEP_ASSIGN(steps, chartOfAll(row, store, "rank/", "/step", steps));
  if (!steps.lines.empty() && !steps.lines[0].spans.empty() && row.predictedStepSeconds > 0) {
    const Span first{steps.lines[0].spans.front().x, row.predictedStepSeconds,
                     row.predictedStepSeconds, row.predictedStepSeconds};
    Span last = first;
    last.x = steps.lines[0].spans.back().x;
    steps.lines.push_back({"predicted", {first, last}, false, true});
  }
  if (!steps.lines.empty()) out += svgOf(steps);
  for (const auto& [ending, title, unit] :
       {std::tuple{"/cpu", "CPU use of each node", Chart::Unit::kPercent},
        {"/memory", "Memory of each node", Chart::Unit::kBytes}}) {
    Chart nodes{title, "time", Chart::Unit::kDuration, unit, true, {}};
    LOCKSTEP_ASSIGN(nodes, chartOfAll(row, store, "node/", ending, nodes));
    if (!nodes.lines.empty()) out += svgOf(nodes);
  }
  return out;
}

// Rank and measure of "rank/3/forward"; -1 of another series.
std::pair<int, std::string_view> rankSeries(std::string_view name) {
  constexpr std::string_view kPrefix = "rank/";
  if (!name.starts_with(kPrefix)) return {-1, {}};
  name.remove_prefix(kPrefix.size());
  int rank = -1;
  const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), rank);
  const auto at = static_cast<std::size_t>(end - name.data());
  if (failed != std::errc() || at >= name.size() || name[at] != '/') return {-1, {}};
  return {rank, name.substr(at + 1)};
}

// The mean over the run of what each rank spent on a step, beside the prediction.
Result<std::string> ranksOf(const RunStore& store, const RunDocuments& documents) {
  std::vector<RankPreview> predicted;
  if (auto preview = parsePrediction(documents.prediction); preview.ok())
    predicted = std::move(preview->ranks);
  std::map<int, std::map<std::string, double>> measured;
  int ranks = static_cast<int>(predicted.size());
  constexpr std::string_view kParts[] = {"data",    "forward",  "backward",
                                         "waiting", "transfer", "optimizer"};
  for (const SeriesInfo& info : store.series()) {
    const auto [rank, part] = rankSeries(info.name);
    if (rank < 0 || rank >= kMostRanks ||
        std::find(std::begin(kParts), std::end(kParts), part) == std::end(kParts))
      continue;
    LOCKSTEP_ASSIGN(const auto points, store.readAll(info.name));
    double sum = 0;
    std::size_t count = 0;
    for (const Point& point : points)
      if (std::isfinite(point.y)) sum += point.y, ++count;
    if (count > 0) measured[rank][std::string(part)] = sum / static_cast<double>(count);
    ranks = std::max(ranks, rank + 1);
  }
  if (ranks == 0) return std::string();
  std::string rows = headers({">Rank", "Node", "Device", "", ">Data", ">Forward", ">Backward",
                              ">Waiting", ">Transfer", ">Optimizer", ">Memory"});
  constexpr double RankPreview::*kPredicted[] = {&RankPreview::data,     &RankPreview::forward,
                                                 &RankPreview::backward, &RankPreview::waiting,
                                                 &RankPreview::transfer, &RankPreview::optimizer};
  for (int rank = 0; rank < std::min(ranks, kMostRanks); ++rank) {
    const bool known = rank < static_cast<int>(predicted.size());
    const RankPreview one = known ? predicted[static_cast<std::size_t>(rank)] : RankPreview();
    std::string first = cell(std::int64_t{rank}) + cell(one.node) + cell(one.device);
    std::string expected = "<td>predicted</td>", actual = "<td>measured</td>";
    for (std::size_t part = 0; part < std::size(kParts); ++part) {
      expected += cell(known ? one.*kPredicted[part] : NAN, Chart::Unit::kSeconds);
      const auto found = measured[rank].find(std::string(kParts[part]));
      actual += cell(found == measured[rank].end() ? NAN : found->second, Chart::Unit::kSeconds);
    }
    expected += cell(known ? static_cast<double>(one.totalBytes()) : NAN, Chart::Unit::kBytes);
    rows += "<tr>" + first + expected + "</tr><tr><td></td><td></td><td></td>" + actual +
            "<td></td></tr>";
  }
  return "<table>" + rows + "</table>";
}

std::string stragglersOf(const RunStore& store) {
  std::string rows;
  for (const StragglerRow& row : store.stragglers()) {
    const std::string who =
        row.rank >= 0 ? fmt::format("rank {} ({})", row.rank, row.node) : row.node + " → " + row.to;
    const std::string steps = row.sinceStep <= 0 ? std::string()
                              : row.untilStep > 0
                                  ? fmt::format("{} to {}", row.sinceStep, row.untilStep)
                                  : fmt::format("since {}", row.sinceStep);
    rows += "<tr>" + cell(localTime(row.wallNs)) + cell(localTime(row.endNs)) + cell(who) +
            cell(steps) + cell(row.factor > 0 ? row.factor : NAN) + cell(row.phase) +
            cell(row.cause) + cell(row.endNs > 0 ? row.lostSeconds : NAN, Chart::Unit::kSeconds) +
            cell(row.text) + "</tr>";
  }
  if (rows.empty()) return rows;
  return "<table>" +
         headers({"Noticed", "Over", "Rank or link", "Steps", ">Times the others", "Phase", "Cause",
                  ">Cost", "As it was told"}) +
         rows + "</table>";
}

std::string restartsOf(const RunStore& store) {
  std::string rows;
  for (const RestartRow& row : store.restarts())
    rows += "<tr>" + cell(std::int64_t{row.generation}) + cell(localTime(row.wallNs)) +
            cell(localTime(row.endNs)) + cell(row.cause ? row.cause->text() : std::string()) +
            cell(row.lostSteps) + cell(row.endNs > 0 ? row.seconds : NAN, Chart::Unit::kSeconds) +
            "</tr>";
  if (rows.empty()) return rows;
  return "<table>" +
         headers(
             {">Generation", "Failed", "Trained again", "Cause", ">Steps trained again", ">Time"}) +
         rows + "</table>";
}

std::string epochsOf(const RunRow& row, const RunStore& store) {
  std::string rows;
  for (const EpochRow& epoch : store.epochs()) {
    rows += "<tr>" + cell(epoch.epoch) + cell(epoch.step) + cell(epoch.trainLoss) +
            cell(epoch.evalLoss);
    if (!row.figures.metric.empty()) rows += cell(epoch.evaluated() ? epoch.evalMetric : NAN);
    rows += "</tr>";
  }
  if (rows.empty()) return rows;
  std::string head = headers({">Epoch", ">Step", ">Training loss", ">Evaluation loss"});
  if (!row.figures.metric.empty()) {
    head.erase(head.size() - std::string_view("</tr>").size());
    head += fmt::format("<th class=\"n\">Evaluation {}</th></tr>", escaped(row.figures.metric));
  }
  return "<table>" + head + rows + "</table>";
}

std::string environmentOf(const RunRow& row, const RunDocuments& documents) {
  Figures out;
  out.add("Cluster", row.clusterName);
  out.add("Communicator", row.comm);
  out.add("Agents", row.version);
  out.add("Plan", row.planHash);
  out.add("Model file", row.modelFile);
  const std::vector<NodeEnvironment> nodes = nodeEnvironments(documents.nodes);
  for (const EnvironmentField& field : environmentFields(nodes))
    if (field.value != row.version) out.add(environmentTitle(field.name).text(), field.value);
  for (const NodeEnvironment& node : nodes) {
    std::string line = node.node;
    if (!node.host.empty() && node.host != line) line += " on " + node.host;
    if (!node.ranks.empty()) line += fmt::format(", ranks {}", fmt::join(node.ranks, ", "));
    out.add("Node", line);
  }
  return out.text();
}

}  // namespace

Result<Chart> chartOf(const History& history, const std::string& run, const std::string& series) {
  LOCKSTEP_ASSIGN(const RunRow row, history.row(run));
  LOCKSTEP_ASSIGN(const auto store, history.openRun(run));
  const auto all = store->series();
  std::vector<std::string_view> names;
  for (const SeriesInfo& info : all) {
    if (info.name == series) return chartOfSeries(row, *store, info);
    names.push_back(info.name);
  }
  Error error = makeError(Code::kNotFound, "run {} has no curve \"{}\"", run, series);
  const std::string near = nearest(series, names);
  error.next = near.empty() ? message("`lockstep history show {} --json` lists its curves", run)
                            : message("did you mean {}?", near);
  return error;
}

Result<std::string> htmlReport(const History& history, const std::string& run) {
  LOCKSTEP_ASSIGN(const RunRow row, history.row(run));
  LOCKSTEP_ASSIGN(const RunDocuments documents, history.documents(run));
  LOCKSTEP_ASSIGN(const auto store, history.openRun(run));
  LOCKSTEP_ASSIGN(const std::string curves, curvesOf(row, *store));
  LOCKSTEP_ASSIGN(const std::string ranks, ranksOf(*store, documents));
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\"><head>"
      "<meta charset=\"utf-8\"/>"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\"/>"
      "<meta name=\"viewport\" content=\"width=device-width\"/><title>{}</title><style>{}</style>"
      "</head>\n<body><h1>{}</h1><p class=\"sub\">{} · {}</p>\n",
      escaped(row.name + " – " + row.run), kStyle, escaped(row.name.empty() ? row.run : row.name),
      escaped(row.run), escaped(localTime(row.createdNs)));
  const std::string& spec = documents.specAsRun();
  out += section("figures", "Figures", figuresOf(row));
  out += section("errors", "Error", errorsOf(row, *store));
  out += section("curves", "Curves", curves);
  out += section("prediction", "Prediction and measurement, a step", ranks);
  out += section("stragglers", "Stragglers", stragglersOf(*store));
  out += section("restarts", "Restarts", restartsOf(*store));
  out += section("epochs", "Epochs", epochsOf(row, *store));
  out += section("environment", "Nodes and versions", environmentOf(row, documents));
  out += folded("spec", "Spec, as it ran", spec);
  out += folded("code", "Code, its differences from the commit", documents.codePatch);
  out += folded("cluster", "Cluster", documents.clusterYaml);
  const bool whole = documents.plan.size() <= kMostPlan;
  out += folded("plan", whole ? "Plan" : "Plan, its beginning",
                std::string_view(documents.plan).substr(0, kMostPlan));
  return out + "</body></html>\n";
}

}  // namespace lockstep::app
