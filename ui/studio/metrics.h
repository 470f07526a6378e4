// Metrics: the series of a run by name (app/runs/run_update.h): what their x axis is, in what they
// are measured, what people call them, and patterns that match several of them.
#pragma once

#include <QString>
#include <QStringView>
#include <cstdint>
#include <string>

namespace lockstep::ui {

enum class MetricAxis : std::uint8_t { kStep, kEpoch, kTime };
enum class MetricUnit : std::uint8_t {
  kNumber,
  kFraction,  // 0…1, shown in percent
  kBytes,
  kByteRate,
  kSeconds,
  kOther,     // named by MetricInfo::unit
  kOfMetric,  // a number or a fraction, whichever the run's metric is
};

struct MetricInfo {
  MetricAxis axis = MetricAxis::kStep;
  MetricUnit kind = MetricUnit::kNumber;
  const char* unit = "";  // "W"; "" where the kind says it
  bool fromZero = false;  // the y axis begins at 0
  bool smooth = false;    // drawn as a moving average, with the samples as a shadow
};
MetricInfo metricInfo(const std::string& series);
bool shareUnit(const MetricInfo& a, const MetricInfo& b);  // one y axis fits both

// "Gradient norm"; "n1 · CPU"; "rank 3 · forward"; the series' own name where it is not known. Of a
// pattern likewise, with "all nodes", "all ranks" and "all GPUs" for their wildcards.
QString metricText(const QString& series);

// '*' stands for any characters but '/', '?' for one of them, all others for themselves: the
// pattern "node/*/gpu/0/utilisation" matches GPU 0 of every node.
bool matchesPattern(QStringView pattern, QStringView series);
inline bool isPattern(QStringView text) { return text.contains(u'*') || text.contains(u'?'); }
// The same series of all nodes, ranks and GPUs: "node/n1/cpu" → "node/*/cpu"; itself where it is of
// none.
QString patternOf(const QString& series);

}  // namespace lockstep::ui
