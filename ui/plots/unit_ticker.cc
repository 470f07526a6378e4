#include "ui/plots/unit_ticker.h"

#include <algorithm>
#include <cmath>

#include "ui/theme/format.h"

namespace lockstep::ui {
namespace {

// Digits after the point that tell neighbouring ticks apart.
int tickDigits(double step) {
  return step > 0 ? std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 6) : 0;
}

QString scaled(double tick, double step, const char* unit, const QLocale& locale) {
  static const char* const prefixes[] = {"", "k", "M", "G", "T", "P"};
  int prefix = 0;
  double size = 1;
  for (; std::abs(tick) >= size * 999.5 && prefix < 5; ++prefix) size *= 1000;
  return QString("%1 %2%3").arg(locale.toString(tick / size, 'f', tickDigits(step / size)),
                                prefixes[prefix], unit);
}

// Of a tick that lies `step` from the next; empty: the unit has no labels of its own.
QString unitLabel(UnitTicker::Unit unit, double tick, double step, const QLocale& locale) {
  using Unit = UnitTicker::Unit;
  switch (unit) {
    case Unit::kCount:
      return locale.toString(tick, 'f', 0);
    case Unit::kAmount:
      return scaled(tick, step, "", locale).trimmed();
    case Unit::kBytes:
      return scaled(tick, step, "B", locale);
    case Unit::kRate:
      return scaled(tick, step, "B/s", locale);
    case Unit::kPercent:
      return formatPercent(tick, tickDigits(step * 100));
    case Unit::kTime:
      return formatDuration(tick);
    case Unit::kPlain:
      break;
  }
  return {};
}

}  // namespace

double UnitTicker::getTickStep(const QCPRange& range) {
  step_ = QCPAxisTicker::getTickStep(range);
  if (unit_ == Unit::kCount || unit_ == Unit::kAmount || unit_ == Unit::kBytes ||
      unit_ == Unit::kRate)
    step_ = std::max(1.0, std::floor(step_));
  if (unit_ == Unit::kTime) {
    static constexpr double kSteps[] = {1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600};
    const auto found = std::lower_bound(std::begin(kSteps), std::end(kSteps), step_ * 0.99);
    step_ = found != std::end(kSteps) ? *found : std::ceil(step_ / 3600) * 3600;
  }
  return step_;
}

QString UnitTicker::getTickLabel(double tick, const QLocale& locale, QChar, int) {
  if (const QString label = unitLabel(unit_, tick, step_, locale); !label.isEmpty()) return label;
  const double size = std::abs(tick);
  if (size < step_ * 1e-9) return "0";
  if (size >= 1e-4 && size < 1e6) return locale.toString(tick, 'f', tickDigits(step_));
  return locale.toString(
      tick, 'g', std::clamp(static_cast<int>(std::ceil(std::log10(size / step_))) + 2, 2, 15));
}

void ScaleTicker::generate(const QCPRange& range, const QLocale& locale, QChar formatChar,
                           int precision, QVector<double>& ticks, QVector<double>* subTicks,
                           QVector<QString>* tickLabels) {
  const QCPRange there(scale_.at(range.lower), scale_.at(range.upper));
  UnitTicker::generate(there, locale, formatChar, precision, ticks, subTicks, tickLabels);
  for (double& tick : ticks) tick = scale_.back(tick);
  for (int i = 0; subTicks != nullptr && i < subTicks->size(); ++i)
    (*subTicks)[i] = scale_.back((*subTicks)[i]);
}

QString LogTicker::getTickLabel(double tick, const QLocale& locale, QChar formatChar,
                                int precision) {
  const QString label = unitLabel(unit_, tick, tick, locale);
  return !label.isEmpty() ? label
                          : QCPAxisTickerLog::getTickLabel(tick, locale, formatChar, precision);
}

}  // namespace lockstep::ui
