// UnitTicker: labels of an axis in the studio's units: no two ticks are labelled alike.
#pragma once

#include "ui/plots/custom_plot.h"

namespace lockstep::ui {

class UnitTicker : public QCPAxisTicker {
 public:
  enum class Unit { kPlain, kCount, kBytes, kRate, kPercent, kTime };
  explicit UnitTicker(Unit unit) : unit_(unit) {}

 protected:
  double getTickStep(const QCPRange& range) override;
  QString getTickLabel(double tick, const QLocale& locale, QChar formatChar,
                       int precision) override;

 private:
  QString scaled(double tick, const char* unit, const QLocale& locale) const;

  Unit unit_;
  double step_ = 1;
};

}  // namespace lockstep::ui
