// PlotGroup: plots of a page that share their x axis: zoom, pan, crosshair, smoothing and pause.
#pragma once

#include <QList>
#include <QMap>
#include <QObject>
#include <QPointer>
#include <optional>

#include "ui/plots/pyramid.h"
#include "ui/plots/series_scale.h"

namespace lockstep::ui {

class PlotView;

class PlotGroup : public QObject {
  Q_OBJECT

 public:
  explicit PlotGroup(QObject* parent) : QObject(parent) {}

  // The view leaves the group that it was in. One that comes later gets the range and axes that the
  // others have.
  void add(PlotView* view);
  void remove(PlotView* view);
  void setXRange(double lower, double upper, PlotView* from);  // by hand: following ends
  void follow();                                               // all data again, as they arrive
  // Returns the x range of all plots together, which bounds zoom and pan.
  void extent(double* lower, double* upper) const;
  bool following() const { return following_; }
  struct Zoom {
    double lower = 0, upper = 1;
    QMap<QString, MinMax> y;  // of views with a range chosen by hand, by their object names
  };
  std::optional<Zoom> zoomed() const;  // nullopt: it follows
  // Views that come later get their range of y, too.
  void restoreZoom(const Zoom& zoom);
  void setCrosshair(double x, bool visible, const QString& line = {});
  void toggleKept(const QString& line);  // see PlotView
  // Shows a permanent vertical line at the time selected in another view, and draws the lines of
  // this owner by themselves; also in views that come later.
  void setCursor(double x, const QString& owner = {});
  void clearCursor();
  bool leaveCursor();  // by hand; false: there is none
  void setSmoothing(double weight);
  double smoothing() const { return smoothing_; }  // below 0: not set
  void setPaused(bool paused);  // data that arrive are not drawn; zoom and crosshair go on
  bool paused() const { return paused_; }
  void setLogX(bool on);
  // Labels steps in all plots; a view that comes later has it too.
  void setXScale(std::optional<SeriesScale> scale, const QString& title);
  void dataChanged();  // every plot with new samples is painted again, unless paused

 Q_SIGNALS:
  void followingChanged(bool following);
  void zoomChanged();  // of x
  void pausedChanged(bool paused);
  void cursorLeft();  // whoever has set it may clear it

 private:
  void giveY(PlotView* view);

  QList<QPointer<PlotView>> views_;
  bool following_ = true;
  bool paused_ = false;
  bool logX_ = false;
  std::optional<SeriesScale> scale_;
  QString scaleTitle_;
  double lower_ = 0, upper_ = 1;    // where the zoom was chosen by hand
  QMap<QString, MinMax> awaitedY_;  // of views that are not there yet
  std::optional<double> cursor_;
  QString cursorOwner_;
  double smoothing_ = -1;
};

}  // namespace lockstep::ui
