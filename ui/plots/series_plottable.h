// SeriesPlottable: draws all series of a plot into one QImage. Where samples are denser than
// pixels each column gets one vertical run from its minimum to its maximum, so that no outlier is
// lost and the cost follows the width of the plot; where they are sparse, antialiased lines. In a
// vector picture all are lines, within the axes.
#pragma once

#include "ui/plots/custom_plot.h"

#include <memory>
#include <vector>

#include "ui/plots/series.h"

namespace lockstep::ui {

class SeriesPlottable : public QCPAbstractPlottable {
  Q_OBJECT

 public:
  SeriesPlottable(QCPAxis* keyAxis, QCPAxis* valueAxis);

  std::vector<std::shared_ptr<Series>>& series() { return series_; }
  QCPRange xRange() const;
  QCPRange yRange(QCPRange keys) const;  // of what is visible within keys; shadows included

  double selectTest(const QPointF&, bool, QVariant* = nullptr) const override { return -1; }
  QCPRange getKeyRange(bool& found, QCP::SignDomain) const override;
  QCPRange getValueRange(bool& found, QCP::SignDomain, const QCPRange& keys) const override;

 protected:
  void draw(QCPPainter* painter) override;
  void drawLegendIcon(QCPPainter*, const QRectF&) const override {}

 private:
  void drawLines(QPainter& painter, const Pyramid& data, const QColor& color, double width,
                 bool dashed, bool dots, QPointF origin) const;
  void drawVector(QPainter& painter) const;
  void drawRuns(QImage& image, const Pyramid& data, const QColor& color, double width,
                QPointF origin, double ratio) const;

  std::vector<std::shared_ptr<Series>> series_;
  QImage image_;
};

}  // namespace lockstep::ui
