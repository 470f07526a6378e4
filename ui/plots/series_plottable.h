// SeriesPlottable: draws all series of a plot into one QImage. Where samples are denser than
// pixels each column gets one vertical run from its minimum to its maximum, so that no outlier is
// lost and the cost follows the width of the plot; where they are sparse, antialiased lines, unless
// they are very long. In a
// vector picture all are lines, within the axes. More lines than can be told apart are drawn as
// their spread.
#pragma once

#include "ui/plots/custom_plot.h"

#include <memory>
#include <vector>

#include "ui/plots/series.h"
#include "ui/plots/spread.h"

namespace lockstep::ui {

// Of a spread, from what is drawn last to what is drawn first.
enum class SpreadPart { kMedian, kMiddle, kAll };
inline constexpr int kSpreadParts = 3;
QColor spreadColor(SpreadPart part);  // as it is seen

class SeriesPlottable : public QCPAbstractPlottable {
  Q_OBJECT

 public:
  SeriesPlottable(QCPAxis* keyAxis, QCPAxis* valueAxis);

  // With more visible lines than that they are drawn as their spread. Predictions and series of few
  // samples are not among them: they are always drawn each by itself.
  static constexpr std::size_t kMostLines = 64;

  std::vector<std::shared_ptr<Series>>& series() { return series_; }
  std::size_t spreadLines() const;                  // 0: each line is drawn
  const Spread& spread() const { return spread_; }  // as last drawn
  // The line of a spread whose sample is nearest to a pixel; nullptr: there is none.
  std::shared_ptr<Series> nearest(QPointF pixel) const;
  void setEdged(bool on) { edged_ = on; }  // each line with an edge in the colour of the ground
  QCPRange xRange() const;
  QCPRange yRange(QCPRange keys) const;  // of what is visible within keys; shadows included

  double selectTest(const QPointF&, bool, QVariant* = nullptr) const override { return -1; }
  QCPRange getKeyRange(bool& found, QCP::SignDomain) const override;
  QCPRange getValueRange(bool& found, QCP::SignDomain, const QCPRange& keys) const override;

 protected:
  void draw(QCPPainter* painter) override;
  void drawLegendIcon(QCPPainter*, const QRectF&) const override {}

 private:
  using Lines = std::vector<std::shared_ptr<Series>>;
  Lines visible(bool ofSpread) const;
  bool isShort(const Lines& lines) const;
  void drawImage(QCPPainter& painter, const Lines& lines);
  void drawSpread(QPainter& painter);
  void drawLines(QPainter& painter, const Pyramid& data, const QColor& color, double width,
                 bool dashed, bool dots, QPointF origin) const;
  void drawVector(QPainter& painter, const Lines& lines) const;
  void drawRuns(QImage& image, const Pyramid& data, const QColor& color, double width,
                QPointF origin, double ratio) const;

  Lines series_;
  Spread spread_;
  QImage image_;
  bool edged_ = false;
};

}  // namespace lockstep::ui
