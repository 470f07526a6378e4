// UnitTicker: labels of an axis in the studio's units: no two ticks are labelled alike. LogTicker
// has the same labels on a logarithmic axis.
#pragma once

#include "ui/plots/custom_plot.h"
#include "ui/plots/series_scale.h"

namespace lockstep::ui {

class UnitTicker : public QCPAxisTicker {
 public:
  enum class Unit { kPlain, kCount, kAmount, kBytes, kRate, kPercent, kTime };
  explicit UnitTicker(Unit unit) : unit_(unit) {}

 protected:
  double getTickStep(const QCPRange& range) override;
  QString getTickLabel(double tick, const QLocale& locale, QChar formatChar,
                       int precision) override;

 private:
  Unit unit_;
  double step_ = 1;
};

class LogTicker : public QCPAxisTickerLog {
 public:
  explicit LogTicker(UnitTicker::Unit unit) : unit_(unit) {}

 protected:
  QString getTickLabel(double tick, const QLocale& locale, QChar formatChar,
                       int precision) override;

 private:
  UnitTicker::Unit unit_;
};

// Labels steps by what they are on the scale, at round numbers of that.
class ScaleTicker : public UnitTicker {
 public:
  explicit ScaleTicker(SeriesScale scale) : UnitTicker(Unit::kAmount), scale_(std::move(scale)) {}
  void generate(const QCPRange& range, const QLocale& locale, QChar formatChar, int precision,
                QVector<double>& ticks, QVector<double>* subTicks,
                QVector<QString>* tickLabels) override;

 private:
  SeriesScale scale_;
};

}  // namespace lockstep::ui
