// SeriesPlottable: draws all series of a plot into one QImage. Where samples are denser than
// pixels each column gets one vertical run from its minimum to its maximum, so that no outlier is
// lost and the cost follows the width of the plot; where they are sparse, antialiased lines, unless
// they are very long. In a
// vector picture all are lines, within the axes. More lines than can be told apart are drawn as
// their spread, those of each quantity as one.
#pragma once

#include "ui/plots/custom_plot.h"

#include <functional>
#include <memory>
#include <vector>

#include "ui/plots/series.h"
#include "ui/plots/spread.h"

namespace lockstep::ui {

QColor spreadColor(SpreadPart part, int spread = 0);  // of that one in a plot, as it is seen
int spreadLineColor(int spread);                      // index of the theme's series

// The lines of one quantity that are drawn as their spread.
struct SpreadLines {
  QString quantity;
  std::vector<std::shared_ptr<Series>> lines;
  Spread spread;  // as last drawn
};

class SeriesPlottable : public QCPAbstractPlottable {
  Q_OBJECT

 public:
  SeriesPlottable(QCPAxis* keyAxis, QCPAxis* valueAxis);

  // Up to kMostLines visible lines are drawn one by one. Of more, each quantity with more than
  // kMostLines / quantities lines is drawn as a spread; more than kMostSpreads quantities are one
  // spread. Predictions and series of few samples are always drawn one by one.
  static constexpr std::size_t kMostLines = 64, kMostSpreads = 3;

  std::vector<std::shared_ptr<Series>>& series() { return series_; }
  // Decides what is drawn as a spread, after lines have come, gone, or been shown or hidden.
  void regroup();
  const std::vector<SpreadLines>& spreads() const { return spreads_; }  // none: each line is drawn
  bool isOfSpread(const Series& line) const;  // whether or not it is visible
  // The line of a spread whose sample is nearest to a pixel; nullptr: there is none.
  std::shared_ptr<Series> nearest(QPointF pixel) const;
  // False: making the spreads took longer than a frame may, and the next draw goes on. In pictures
  // they are always whole.
  bool isWhole() const { return isWhole_; }
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
  bool isShort(const Lines& lines) const;
  using Band = std::vector<QRectF>;  // steps side by side
  void drawImage(QCPPainter& painter);
  void drawAlone(double ratio);
  void drawLine(QPainter& painter, const Pyramid& data, const QColor& color, double width,
                bool dashed, bool dots, QPointF origin) const;
  void drawSpreads(QPainter& painter);
  void fillSpreads(double ratio);
  void forBands(const std::function<void(const Band&, const QColor&)>& draw);
  std::vector<Band> bandsOf(const Spread& spread, MinMax Spread::Stretch::*values,
                            double more) const;
  void drawVector(QPainter& painter, const Lines& lines) const;
  void drawRuns(QImage& image, const Pyramid& data, const QColor& color, double width,
                QPointF origin, double ratio) const;

  Lines series_;
  std::vector<SpreadLines> spreads_;
  bool isOne_ = false;  // spread, of all quantities
  Lines alone_;         // those of no spread
  QImage image_;
  bool isOnScreen_ = false;  // what is drawn now
  bool isWhole_ = true;
  bool edged_ = false;
};

}  // namespace lockstep::ui
