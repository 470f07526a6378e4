#include "ui/studio/metrics.h"

#include <QCoreApplication>
#include <QStringList>
#include <algorithm>
#include <array>
#include <string_view>

#include "app/history/run_row.h"
#include "ui/studio/run_document.h"
#include "ui/theme/format.h"

namespace lockstep::ui {
namespace {

QString say(const char* text) { return QCoreApplication::translate("lockstep::ui::Metrics", text); }

struct Known {
  std::string_view name;  // what follows the node, rank or GPU; the whole of others
  const char* text;
  MetricInfo info;
};
using Unit = MetricUnit;
constexpr MetricAxis kStep = MetricAxis::kStep, kEpoch = MetricAxis::kEpoch,
                     kTime = MetricAxis::kTime;

// Of the run.
constexpr std::array kOfRun{
    Known{"loss",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "Loss"),
          {kStep, Unit::kNumber, "", false, true}},
    Known{"learning_rate",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "Learning rate"),
          {kStep, Unit::kNumber, "", true, false}},
    Known{"gradient_norm",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "Gradient norm"),
          {kStep, Unit::kNumber, "", false, true}},
    Known{"update_ratio",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "Update ratio"),
          {kStep, Unit::kNumber, "", false, true}},
    Known{"samples_per_second",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "Samples per second"),
          {kStep, Unit::kNumber, "", true, true}},
    Known{"tokens_per_second",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "Tokens per second"),
          {kStep, Unit::kNumber, "", true, true}},
    Known{"samples",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "Samples seen"),
          {kStep, Unit::kNumber, "", true, false}},
    Known{"tokens",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "Tokens seen"),
          {kStep, Unit::kNumber, "", true, false}},
    Known{"loss_scale",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "Loss scale"),
          {kStep, Unit::kNumber, "", false, false}},
    Known{"skipped",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "Skipped updates"),
          {kStep, Unit::kNumber, "", true, false}},
    Known{"evaluated/loss",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "Evaluated loss"),
          {kStep, Unit::kNumber, "", false, false}},
    Known{"evaluated/metric",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "Evaluated metric"),
          {kStep, Unit::kOfMetric, "", false, false}},
    Known{"epoch/train_loss",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "Loss of the epoch"),
          {kEpoch, Unit::kNumber, "", false, false}},
    Known{"epoch/eval_loss",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "Evaluated loss of the epoch"),
          {kEpoch, Unit::kNumber, "", false, false}},
};
constexpr std::array kOfNode{
    Known{"cpu",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "CPU"),
          {kTime, Unit::kFraction, "", true, false}},
    Known{"memory",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "memory"),
          {kTime, Unit::kBytes, "", true, false}},
    Known{"memory_total",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "memory, total"),
          {kTime, Unit::kBytes, "", true, false}},
    Known{"disk_free",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "free disk space"),
          {kTime, Unit::kBytes, "", true, false}},
    Known{"net_in",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "network in"),
          {kTime, Unit::kByteRate, "", true, false}},
    Known{"net_out",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "network out"),
          {kTime, Unit::kByteRate, "", true, false}},
    Known{"loopback",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "loopback"),
          {kTime, Unit::kByteRate, "", true, false}},
    Known{"disk_read",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "disk read"),
          {kTime, Unit::kByteRate, "", true, false}},
    Known{"disk_write",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "disk write"),
          {kTime, Unit::kByteRate, "", true, false}},
    Known{"disk_busy",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "disk use"),
          {kTime, Unit::kFraction, "", true, false}},
    Known{"clock_offset",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "clock offset"),
          {kTime, Unit::kSeconds, "", false, false}},
    Known{"clock_uncertainty",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "clock uncertainty"),
          {kTime, Unit::kSeconds, "", true, false}},
};
constexpr std::array kOfLink{
    Known{"sent",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "sent"),
          {kTime, Unit::kByteRate, "", true, false}},
    Known{"rate",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "rate while sending"),
          {kTime, Unit::kByteRate, "", true, false}},
    Known{"sending",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "time spent sending"),
          {kTime, Unit::kFraction, "", true, false}},
    Known{"round_trip",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "round trip"),
          {kTime, Unit::kSeconds, "", true, false}},
};
constexpr std::array kOfGpu{
    Known{"utilisation",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "use"),
          {kTime, Unit::kFraction, "", true, false}},
    Known{"memory_utilisation",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "memory use"),
          {kTime, Unit::kFraction, "", true, false}},
    Known{"memory",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "memory"),
          {kTime, Unit::kBytes, "", true, false}},
    Known{"temperature",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "temperature"),
          {kTime, Unit::kOther, "°C", false, false}},
    Known{"power",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "power"),
          {kTime, Unit::kOther, "W", true, false}},
    Known{"sm_clock",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "SM clock"),
          {kTime, Unit::kOther, "MHz", true, false}},
    Known{"memory_clock",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "memory clock"),
          {kTime, Unit::kOther, "MHz", true, false}},
    Known{"pcie_in",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "PCIe in"),
          {kTime, Unit::kByteRate, "", true, false}},
    Known{"pcie_out",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "PCIe out"),
          {kTime, Unit::kByteRate, "", true, false}},
    Known{"nvlink_in",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "NVLink in"),
          {kTime, Unit::kByteRate, "", true, false}},
    Known{"nvlink_out",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "NVLink out"),
          {kTime, Unit::kByteRate, "", true, false}},
    Known{"throttled",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "throttled"),
          {kTime, Unit::kFraction, "", true, false}},
    Known{"slowed",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "slowed"),
          {kTime, Unit::kFraction, "", true, false}},
    Known{"ecc_corrected",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "corrected memory errors"),
          {kTime, Unit::kNumber, "", true, false}},
    Known{"ecc_uncorrected",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "uncorrected memory errors"),
          {kTime, Unit::kNumber, "", true, false}},
    Known{"xids",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "driver errors"),
          {kTime, Unit::kNumber, "", true, false}},
};
constexpr std::array kOfRank{
    Known{"step",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "step time"),
          {kStep, Unit::kSeconds, "", true, false}},
    Known{"data",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "data"),
          {kStep, Unit::kSeconds, "", true, false}},
    Known{"forward",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "forward"),
          {kStep, Unit::kSeconds, "", true, false}},
    Known{"backward",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "backward"),
          {kStep, Unit::kSeconds, "", true, false}},
    Known{"waiting",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "waiting"),
          {kStep, Unit::kSeconds, "", true, false}},
    Known{"transfer",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "transfer"),
          {kStep, Unit::kSeconds, "", true, false}},
    Known{"optimizer",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "optimizer"),
          {kStep, Unit::kSeconds, "", true, false}},
    Known{"stalled",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "process not running"),
          {kStep, Unit::kSeconds, "", true, false}},
    Known{"staleness",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "staleness"),
          {kStep, Unit::kNumber, "", true, false}},
    Known{"gpu_clock",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "GPU clock"),
          {kStep, Unit::kOther, "MHz", true, false}},
    Known{"cpu",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "CPU cores"),
          {kTime, Unit::kNumber, "", true, false}},
    Known{"memory",
          QT_TRANSLATE_NOOP("lockstep::ui::Metrics", "memory"),
          {kTime, Unit::kBytes, "", true, false}},
};

template <typename List>
const Known* findIn(const List& list, std::string_view name) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const Known& one) { return one.name == name; });
  return found == list.end() ? nullptr : &*found;
}

// What a name says: whose metric it is, and which.
struct Parsed {
  QString whose;
  const Known* known = nullptr;
};

QString nodeText(const QString& node) { return isPattern(node) ? say("all nodes") : node; }

Parsed parse(const QString& series) {
  const QStringList parts = series.split('/');
  const auto name = [&](int from) { return parts.mid(from).join('/').toStdString(); };
  if (parts.size() >= 3 && parts[0] == "rank") {
    const QString whose =
        isPattern(parts[1])
            ? say("all ranks")
            : QCoreApplication::translate("lockstep::ui::Metrics", "rank %1").arg(parts[1]);
    return {whose, findIn(kOfRank, name(2))};
  }
  if (parts.size() >= 5 && parts[0] == "node" && parts[2] == "gpu") {
    const QString gpu =
        isPattern(parts[3])
            ? say("all GPUs")
            : QCoreApplication::translate("lockstep::ui::Metrics", "GPU %1").arg(parts[3]);
    return {nodeText(parts[1]) + QString::fromUtf8(" · ") + gpu, findIn(kOfGpu, name(4))};
  }
  if (parts.size() >= 5 && parts[0] == "node" && parts[2] == "to")
    return {nodeText(parts[1]) + QString::fromUtf8(" → ") + nodeText(parts[3]),
            findIn(kOfLink, name(4))};
  if (parts.size() >= 3 && parts[0] == "node")
    return {nodeText(parts[1]), findIn(kOfNode, name(2))};
  return {{}, findIn(kOfRun, series.toStdString())};
}

constexpr const char* kEvaluated = "epoch/eval_";

}  // namespace

MetricInfo metricInfo(const std::string& series) {
  if (const Known* known = parse(QString::fromStdString(series)).known; known != nullptr)
    return known->info;
  MetricInfo out;
  if (isTimeSeries(series))
    out.axis = MetricAxis::kTime;
  else if (series.starts_with("epoch/"))
    out.axis = MetricAxis::kEpoch;
  const std::string metric =
      series.starts_with(kEvaluated) ? series.substr(std::string_view(kEvaluated).size()) : series;
  if (app::isMetric(metric)) {
    out.smooth = out.axis == MetricAxis::kStep;
    if (metric == "accuracy") out.kind = MetricUnit::kFraction;
  }
  return out;
}

bool shareUnit(const MetricInfo& a, const MetricInfo& b) {
  const auto isPlain = [](const MetricInfo& one) {
    return one.kind == Unit::kNumber || one.kind == Unit::kFraction || one.kind == Unit::kOfMetric;
  };
  if (a.kind == Unit::kOfMetric || b.kind == Unit::kOfMetric) return isPlain(a) && isPlain(b);
  return a.kind == b.kind && std::string_view(a.unit) == b.unit;
}

QString metricText(const QString& series) {
  const std::string name = series.toStdString();
  if (app::isMetric(name)) return metricName(name);
  if (name.starts_with(kEvaluated)) {
    const std::string metric = name.substr(std::string_view(kEvaluated).size());
    if (app::isMetric(metric))
      return QCoreApplication::translate("lockstep::ui::Metrics", "%1, evaluated")
          .arg(metricName(metric));
  }
  if (series.startsWith("scalar/")) return series.mid(7);  // as its program calls it
  const Parsed parsed = parse(series);
  if (parsed.known == nullptr) return series;
  const QString text = say(parsed.known->text);
  return parsed.whose.isEmpty() ? text : parsed.whose + QString::fromUtf8(" · ") + text;
}

bool matchesPattern(QStringView pattern, QStringView series) {
  // Greedy, going back to the last '*' where the rest does not match.
  qsizetype p = 0, s = 0, star = -1, from = 0;
  while (s < series.size()) {
    const bool one = p < pattern.size() && pattern[p] != u'*' &&
                     (pattern[p] == series[s] || (pattern[p] == u'?' && series[s] != u'/'));
    if (one) {
      ++p;
      ++s;
    } else if (p < pattern.size() && pattern[p] == u'*') {
      star = p++;
      from = s;
    } else if (star >= 0 && series[from] != u'/') {
      p = star + 1;
      s = ++from;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == u'*') ++p;
  return p == pattern.size();
}

QString patternOf(const QString& series) {
  QStringList parts = series.split('/');
  if (parts.size() < 3 || (parts[0] != "node" && parts[0] != "rank")) return series;
  parts[1] = "*";
  if (parts.size() >= 5 && (parts[2] == "gpu" || parts[2] == "to")) parts[3] = "*";
  return parts.join('/');
}

}  // namespace lockstep::ui
