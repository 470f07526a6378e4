// BreakdownBars: the breakdown of step time, one stacked bar per rank, measured beside predicted,
// and the same as a table.
#pragma once

#include <QWidget>
#include <array>
#include <vector>

#include "ui/theme/theme.h"

namespace lockstep::ui {

struct BreakdownBar {
  QString name;                                // "rank 0"
  std::array<double, kPhaseCount> measured{};  // seconds a step
  std::array<double, kPhaseCount> predicted{};
  bool hasMeasured = false, hasPredicted = false;
  bool flagged = false;  // the straggler
};

class BreakdownBars : public QWidget {
  Q_OBJECT

 public:
  explicit BreakdownBars(const QString& objectName, QWidget* parent = nullptr);

  void setBars(std::vector<BreakdownBar> bars);
  const std::vector<BreakdownBar>& bars() const { return bars_; }
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return {260, sizeHint().height()}; }

 protected:
  void paintEvent(QPaintEvent*) override;
  void resizeEvent(QResizeEvent*) override { updateGeometry(); }  // the legend's lines
  bool event(QEvent* event) override;

 private:
  struct Piece {
    QRectF rect;
    int bar;
    int phase;
    bool measured;
  };
  std::vector<Piece> pieces() const;
  double longest() const;

  std::vector<BreakdownBar> bars_;
};

}  // namespace lockstep::ui
