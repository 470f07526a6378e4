#include "app/report/prometheus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "app/history/run_csv.h"
#include "app/history/series_name.h"
#include "engine/metrics/prometheus_page.h"

namespace lockstep::app {
namespace {

using metrics::Figure;
using metrics::figureOf;
using metrics::Labels;
using metrics::Metric;
using metrics::PrometheusPage;

constexpr double kFresh = 60;  // seconds

constexpr Metric kInfo{"lockstep_run_info", "What a run is; always 1."};
constexpr Metric kReadable{"lockstep_run_readable",
                           "1 if the curves of a run can be read from the history."};
constexpr Metric kUpdated{"lockstep_run_updated_timestamp_seconds",
                          "When a node last reported; it stops while no program follows the run."};
constexpr Metric kStarted{"lockstep_run_started_timestamp_seconds", "When a run started."};
constexpr Metric kRanks{"lockstep_run_ranks", "The number of ranks."};
constexpr Metric kStep{"lockstep_run_step", "The last step."};
constexpr Metric kEpoch{"lockstep_run_epoch", "The last epoch that was trained."};
constexpr Metric kQuality{"lockstep_run_quality",
                          "The quality in training: accuracy, AUC or perplexity."};
constexpr Metric kEvalQuality{"lockstep_run_eval_quality",
                              "The quality in the last evaluation: accuracy, AUC or perplexity."};
constexpr Metric kValue{"lockstep_run_value", "A value that a program reported."};
constexpr Metric kRestarts{"lockstep_run_restarts_total", "Restarts after failures.", true};
constexpr Metric kLost{"lockstep_run_lost_seconds_total",
                       "Time lost to failures: until the run trained again, and steps trained "
                       "again.",
                       true};
constexpr Metric kPhase{"lockstep_rank_phase_seconds",
                        "How long a rank spent in a phase of its last step."};
constexpr Metric kStraggler{"lockstep_straggler_factor",
                            "The time of the rank or link that the others wait for, against the "
                            "others'; NaN if unknown."};
constexpr Metric kHalted{"lockstep_straggler_halted", "1 if it has stopped rather than is slow."};

constexpr Figure kOfRun[] = {
    {"loss", {"lockstep_run_loss", "The training loss, the mean over the global batch."}},
    {"learning_rate", {"lockstep_run_learning_rate", "The learning rate as applied."}},
    {"gradient_norm", {"lockstep_run_gradient_norm", "The norm of the gradient."}},
    {"update_ratio",
     {"lockstep_run_update_ratio", "The norm of the update against that of the parameters."}},
    {"loss_scale", {"lockstep_run_loss_scale", "The factor of the loss in fp16."}},
    {"samples_per_second", {"lockstep_run_samples_per_second", "Samples of all ranks a second."}},
    {"tokens_per_second", {"lockstep_run_tokens_per_second", "Tokens of all ranks a second."}},
    {"samples", {"lockstep_run_samples_total", "Samples trained on.", true}},
    {"tokens", {"lockstep_run_tokens_total", "Tokens trained on.", true}},
    {"epoch/train_loss", {"lockstep_run_epoch_loss", "The training loss of the last epoch."}},
    {"epoch/eval_loss", {"lockstep_run_eval_loss", "The loss in the last evaluation."}},
};
constexpr Figure kOfRank[] = {
    {"step", {"lockstep_rank_step_seconds", "How long a rank's last step took."}},
    {"stalled",
     {"lockstep_rank_stalled_seconds",
      "The part of the transfer in which a rank's process did not run."}},
    {"cpu", {"lockstep_rank_cpu_cores", "Cores that a rank's process uses."}},
    {"memory", {"lockstep_rank_memory_bytes", "Memory that a rank's process uses."}},
};
constexpr std::string_view kPhases[] = {"data",    "forward",  "backward",
                                        "waiting", "transfer", "optimizer"};
constexpr Figure kOfLink[] = {
    {"sent", {"lockstep_link_sent_bytes_per_second", "Sent over a link between two nodes."}},
    {"rate",
     {"lockstep_link_rate_bytes_per_second", "What a link carried while data was under way."}},
    {"sending", {"lockstep_link_sending_ratio", "The part of the time data was under way."}},
    {"round_trip", {"lockstep_link_round_trip_seconds", "The round trip of a link."}},
};

Labels with(Labels labels, const Labels& more) {
  labels.insert(labels.end(), more.begin(), more.end());
  return labels;
}

// Adds the samples of one run.
class RunSamples {
 public:
  RunSamples(PrometheusPage& page, const RunRow& row, double now)
      : page_(page), row_(row), now_(now), labels_{{"run", row.run}, {"name", row.name}} {}

  void addRow() {
    page_.add(kInfo,
              with(labels_, {{"strategy", row_.strategy},
                             {"cluster", row_.clusterName},
                             {"communicator", row_.comm},
                             {"version", row_.version}}),
              1);
    const bool away = row_.unreachableNs > 0 && !isFinal(row_.phase);
    page_.add(metrics::kRunState,
              with(labels_, {{"state", away ? "unreachable" : std::string(stateName(row_.phase))}}),
              1);
    if (row_.startedNs > 0)
      page_.add(kStarted, labels_, static_cast<double>(row_.startedNs) * 1e-9);
    page_.add(kRanks, labels_, row_.world);
    page_.add(kRestarts, labels_, std::max(row_.generation - 1, 0));
    page_.add(kLost, labels_, row_.figures.lostSeconds);
  }

  void addStragglers(const std::vector<StragglerRow>& rows) {
    if (isFinal(row_.phase)) return;
    for (const StragglerRow& one : rows) {
      if (one.endNs > 0 || one.sinceStep == 0) continue;  // 0: of an earlier version
      const Labels labels =
          with(labels_, {{"rank", one.rank < 0 ? "" : fmt::format("{}", one.rank)},
                         {"node", one.node},
                         {"to", one.to},
                         {"phase", one.phase}});
      page_.add(kStraggler, labels,
                one.factor > 0 ? one.factor : std::numeric_limits<double>::quiet_NaN());
      page_.add(kHalted, labels, one.halted ? 1 : 0);
    }
  }

  void addCurve(const std::string& series, const Point& last) {
    const SeriesName name = parseSeriesName(series);
    const bool overTime = seriesAxis(series) == SeriesAxis::kTime;
    if (overTime) updated_ = std::max(updated_, last.x);
    const bool isOld = overTime && !(last.x > now_ - kFresh);
    if (name.rank >= 0) {
      addOfRank(name, last.y, isOld);
    } else if (name.node.empty()) {
      addOfRun(series, last);
    } else if (name.gpu >= 0) {
      addFigure(metrics::kOfGpu, name.figure,
                {{"node", name.node}, {"gpu", fmt::format("{}", name.gpu)}}, last.y, isOld);
    } else if (!name.to.empty()) {
      addFigure(kOfLink, name.figure, {{"node", name.node}, {"to", name.to}}, last.y, isOld);
    } else {
      addFigure(metrics::kOfNode, name.figure, {{"node", name.node}}, last.y, isOld);
    }
  }

  void addProgress(bool readable) {
    page_.add(kReadable, labels_, readable ? 1 : 0);
    page_.add(kStep, labels_, std::max(step_, static_cast<double>(row_.figures.steps)));
    page_.add(kEpoch, labels_, static_cast<double>(row_.figures.epochs));
    if (updated_ > 0) page_.add(kUpdated, labels_, updated_);
  }

 private:
  // Errors are recorded when there are more, so that theirs are never old.
  void addFigure(std::span<const Figure> all, std::string_view figure, const Labels& labels,
                 double value, bool isOld) {
    const Figure* one = figureOf(all, figure);
    if (one != nullptr && (!isOld || one->metric.counter))
      page_.add(one->metric, with(labels_, labels), value * one->scale);
  }

  void addOfRank(const SeriesName& name, double value, bool isOld) {
    if (name.rank >= row_.world) return;
    const Labels rank{{"rank", fmt::format("{}", name.rank)}};
    if (std::find(std::begin(kPhases), std::end(kPhases), name.figure) != std::end(kPhases))
      page_.add(kPhase, with(with(labels_, rank), {{"phase", name.figure}}), value);
    else
      addFigure(kOfRank, name.figure, rank, value, isOld);
  }

  void addOfRun(const std::string& series, const Point& last) {
    constexpr std::string_view kReported = "scalar/", kEvaluated = "epoch/eval_";
    if (seriesAxis(series) == SeriesAxis::kStep) step_ = std::max(step_, last.x);
    if (series.starts_with(kReported))
      page_.add(kValue, with(labels_, {{"tag", series.substr(kReported.size())}}), last.y);
    else if (isMetric(series))
      page_.add(kQuality, with(labels_, {{"metric", series}}), last.y);
    else if (series.starts_with(kEvaluated) && isMetric(series.substr(kEvaluated.size())))
      page_.add(kEvalQuality, with(labels_, {{"metric", series.substr(kEvaluated.size())}}),
                last.y);
    else
      addFigure(kOfRun, series, {}, last.y, false);
  }

  PrometheusPage& page_;
  const RunRow& row_;
  const double now_;
  const Labels labels_;
  double step_ = 0, updated_ = 0;
};

}  // namespace

Status PrometheusText::readCurves(const std::string& run, Curves& curves) const {
  if (!curves.store) {
    LOCKSTEP_ASSIGN(curves.store, history_.openRun(run));
  }
  for (const SeriesInfo& info : curves.store->series()) {
    if (info.points == 0) continue;
    const auto known = curves.last.find(info.name);
    if (known != curves.last.end() && !(info.lastX > known->second.x)) continue;
    LOCKSTEP_ASSIGN(const auto points,
                    curves.store->readAfter(info.name, std::nextafter(info.lastX, -HUGE_VAL)));
    if (!points.empty()) curves.last[info.name] = points.back();
  }
  return {};
}

Result<std::string> PrometheusText::read(const std::string& run, std::int64_t wallNs) {
  std::vector<RunRow> rows;
  if (run.empty()) {
    LOCKSTEP_ASSIGN(rows, history_.list());
    std::erase_if(rows, [](const RunRow& row) { return isFinal(row.phase); });
  } else {
    LOCKSTEP_ASSIGN(RunRow row, history_.row(run));
    rows.push_back(std::move(row));
  }
  std::erase_if(curves_, [&](const auto& one) {
    return std::none_of(rows.begin(), rows.end(),
                        [&](const RunRow& row) { return row.run == one.first; });
  });
  PrometheusPage page;
  for (const RunRow& row : rows) {
    RunSamples samples(page, row, static_cast<double>(wallNs) * 1e-9);
    samples.addRow();
    Curves& curves = curves_[row.run];
    const bool readable = readCurves(row.run, curves).ok();
    for (const auto& [series, last] : curves.last) samples.addCurve(series, last);
    if (curves.store) samples.addStragglers(curves.store->stragglers());
    samples.addProgress(readable);
    if (!readable) curves = {};  // it may have been replaced
  }
  return page.text();
}

}  // namespace lockstep::app
