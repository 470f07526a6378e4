// BreakdownBars: one stacked bar per rank, and below it a paler one to compare with: step time by
// phase, measured beside predicted; or memory by kind, now beside before.
#pragma once

#include <QWidget>
#include <array>
#include <functional>
#include <vector>

#include "ui/theme/theme.h"

namespace lockstep::ui {

// What the parts of a bar are, by their index.
struct BarKinds {
  int count = 0;  // at most kPhaseCount
  std::function<QString(int kind)> name;
  std::function<QColor(int kind)> color;
  std::function<QString(double value)> value;
  std::function<QString(bool measured, const QString& value)> tip;
  static BarKinds phases();  // seconds a step
  static BarKinds memory();  // bytes: parameters, gradients, optimizer, activations, workspace
};

struct BreakdownBar {
  QString name;                                // "rank 0"
  std::array<double, kPhaseCount> measured{};  // by kind
  std::array<double, kPhaseCount> predicted{};
  bool hasMeasured = false, hasPredicted = false;
  bool flagged = false;  // the straggler
};

class BreakdownBars : public QWidget {
  Q_OBJECT

 public:
  explicit BreakdownBars(const QString& objectName, QWidget* parent = nullptr,
                         BarKinds kinds = BarKinds::phases());

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
    int kind;
    bool measured;
  };
  std::vector<Piece> pieces() const;
  std::vector<QPoint> legendPlaces(int width) const;  // of the kinds' names
  int legendRow() const;
  int legendHeight(int width) const;
  int nameWidth() const;
  int valueWidth() const;
  int barHeight() const;
  int rowHeight(const BreakdownBar& bar) const;
  double longest() const;
  void drawLegend(QPainter& painter) const;
  void drawTexts(QPainter& painter) const;

  BarKinds kinds_;
  std::vector<BreakdownBar> bars_;
};

}  // namespace lockstep::ui
