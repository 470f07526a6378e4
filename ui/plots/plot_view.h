// PlotView: a titled plot of several series with legend, crosshair, log axes, a data table behind
// it and a text where there is nothing to show yet.
// Gestures: drag pans, wheel zooms along x, Shift+drag zooms into a rectangle, double click shows
// all again. Threads: GUI.
#pragma once

#include <QPointer>
#include <QWidget>
#include <memory>
#include <vector>

#include "ui/plots/plot_group.h"
#include "ui/plots/series.h"

class QCustomPlot;
class QCPItemStraightLine;
class QCPLayer;
class QHBoxLayout;
class QLabel;
class QStackedLayout;
class QTableView;
class QToolButton;

namespace lockstep::ui {

class LegendBar;
class SeriesPlottable;
class SeriesTableModel;

class PlotView : public QWidget {
  Q_OBJECT

 public:
  enum class XAxis { kNumber, kTime };  // steps; seconds, shown as m:ss

  // `name` is the object name; titles are set by the page in its retranslate().
  explicit PlotView(const QString& name, QWidget* parent = nullptr);
  ~PlotView() override;

  void setTexts(const QString& title, const QString& xTitle, const QString& unit,
                const QString& empty);
  void setXAxis(XAxis kind);
  // Fixes the y range to [0, 1] and labels it in percent.
  void setPercent(bool on);
  void setFromZero(bool on) { fromZero_ = on; }
  void setBytes(bool on);       // labels with KB, MB, …
  void setRate(bool on);        // the same a second
  void addSeries(std::shared_ptr<Series> series);
  void clearSeries();
  const std::vector<std::shared_ptr<Series>>& series() const;
  std::size_t sampleCount() const;

  void markDirty();             // repainted with the next frame, if visible and not paused
  void setLogX(bool on);
  void setLogY(bool on);
  void showTable(bool on);
  bool savePng(const QString& path);

  // For the group.
  void setGroup(PlotGroup* group) { group_ = group; }
  void showXRange(double lower, double upper);
  void showCrosshair(double x, bool visible);
  void setSmoothing(double weight);

 protected:
  void changeEvent(QEvent* event) override;
  void showEvent(QShowEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void retranslate();
  void restyle();
  void frame();
  void fit();
  void refreshEmpty();
  void placeLegend();           // beside the title where it has room, else in a line of its own
  QString valueText(double value) const;

  QCustomPlot* plot_ = nullptr;
  SeriesPlottable* lines_ = nullptr;
  QCPLayer* crosshairLayer_ = nullptr;
  QCPItemStraightLine* crosshair_ = nullptr;
  QLabel* title_ = nullptr;
  QLabel* empty_ = nullptr;
  LegendBar* legend_ = nullptr;
  QHBoxLayout* head_ = nullptr;
  QToolButton* tableButton_ = nullptr;
  QToolButton* logButton_ = nullptr;
  QToolButton* fitButton_ = nullptr;
  QStackedLayout* stack_ = nullptr;
  QTableView* table_ = nullptr;
  SeriesTableModel* tableModel_ = nullptr;
  QPointer<PlotGroup> group_;
  QString xTitle_, unit_;
  bool dirty_ = true, percent_ = false, fromZero_ = false, bytes_ = false, rate_ = false, fitting_ = false;
};

}  // namespace lockstep::ui
