// DashboardCard: a plot of a dashboard in its frame: it can be dragged by its handle or title and
// by the arrow keys, and resized by its corner or with Shift and the arrow keys.
#pragma once

#include <QPoint>
#include <memory>
#include <vector>

#include "ui/studio/dashboard.h"
#include "ui/studio/metrics.h"
#include "ui/widgets/widgets.h"

class QKeyEvent;
class QToolButton;

namespace lockstep::ui {

class PlotGroup;
class PlotView;
class RunDocument;
class Series;

// The groups of a run's plots, by their x axis.
struct PlotGroups {
  PlotGroup* steps = nullptr;
  PlotGroup* time = nullptr;
  PlotGroup* epochs = nullptr;
  PlotGroup* of(MetricAxis axis) const {
    return axis == MetricAxis::kStep ? steps : axis == MetricAxis::kTime ? time : epochs;
  }
};

class DashboardCard : public Card {
  Q_OBJECT
 public:
  // A plot joins the group that its series' axis asks for.
  DashboardCard(const DashboardPlot& plot, RunDocument& document, const PlotGroups& groups,
                QWidget* parent);
  // Its number in the dashboard, and its size there.
  void setPlace(int index, int width, int height);

  static constexpr int kMostSeries = 256;  // that a plot draws

  int index() const { return index_; }
  const DashboardPlot& plot() const { return plot_; }
  PlotView* view() const { return view_; }
  QString title() const;
  // Takes up a series of the run, if the plot shows it.
  void offer(const QString& series);
  void retranslate();
  void takeFocus();  // by its handle

 Q_SIGNALS:
  void editWanted();
  void removeWanted();
  void logYChosen(bool on);
  void moveWanted(int by);                   // places, by keys
  void resizeWanted(int columns, int rows);  // by so many
  void dragged(const QPoint& global);        // under way
  void dropped(const QPoint& global, bool kept);

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  void nameSeries();
  void nameSoon();  // once, however many series come meanwhile
  void placeAxes(const MetricInfo& info);
  MetricInfo axesInfo() const;
  bool pressKey(QKeyEvent* event);
  bool drag(QObject* watched, QEvent* event);
  void showMenu();

  int index_ = -1;
  DashboardPlot plot_;
  RunDocument& document_;
  PlotView* view_ = nullptr;
  const PlotGroups groups_;
  QToolButton* handle_ = nullptr;
  QToolButton* menu_ = nullptr;
  QWidget* title_ = nullptr;
  QWidget* grip_ = nullptr;
  struct Shown {
    QString series;
    MetricInfo info;
    QString whose, what;  // as dividedText()
    std::shared_ptr<Series> line;
  };
  std::vector<Shown> shown_;     // as they came
  int left_ = 0;                 // series that have no room
  bool naming_ = false;          // nameSeries() will be called
  QPoint pressed_;               // global; where a drag began
  QObject* dragging_ = nullptr;  // what the mouse was pressed on
  bool moving_ = false;          // far enough to be a drag
};

}  // namespace lockstep::ui
