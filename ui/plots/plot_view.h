// PlotView: a titled plot of several series with legend, crosshair, log axes, a data table and an
// empty state.
// Gestures: drag zooms into a box (a flat one along x only), Shift+drag pans, the wheel zooms along
// x, a double click resets, the right button opens a menu. Threads: GUI.
#pragma once

#include <QPointer>
#include <QTimer>
#include <QWidget>
#include <memory>
#include <optional>
#include <vector>

#include "ui/plots/legend_bar.h"
#include "ui/plots/picture_file.h"
#include "ui/plots/plot_group.h"
#include "ui/plots/pyramid.h"
#include "ui/plots/series.h"
#include "ui/plots/series_scale.h"

class QCustomPlot;
class QCPItemStraightLine;
class QCPItemText;
class QCPLayer;
class QCPPainter;
class QFrame;
class QHBoxLayout;
class QLabel;
class QStackedLayout;
class QTableView;
class QToolButton;

namespace lockstep::ui {

class SeriesPlottable;
class SeriesTableModel;

class PlotView : public QWidget {
  Q_OBJECT

 public:
  // Steps; any number; seconds, shown as m:ss.
  enum class XAxis { kNumber, kReal, kTime };
  // Of y. kPercent fixes the range to [0, 1]; kBytes and kByteRate have labels with kB, MB, …
  enum class Unit { kNumber, kPercent, kBytes, kByteRate };

  // `name` is the object name; titles are set by the page in its retranslate().
  explicit PlotView(const QString& name, QWidget* parent = nullptr);
  ~PlotView() override;

  void setTexts(const QString& title, const QString& xTitle, const QString& unit,
                const QString& empty);
  void setXAxis(XAxis kind);
  // Labels steps by what they are on the scale; nullopt: by their numbers. Not on a logarithmic
  // axis, or one of time.
  void setXScale(std::optional<SeriesScale> scale, const QString& title);
  void setUnit(Unit unit);
  void setFromZero(bool on) { fromZero_ = on; }
  void addSeries(std::shared_ptr<Series> series);
  void clearSeries();
  void refreshLegend();                      // of all lines, after their names have changed
  void setSorted(bool on) { sorted_ = on; }  // series by name, and coloured in that order
  const std::vector<std::shared_ptr<Series>>& series() const;
  std::size_t sampleCount() const;

  void markDirty();       // repainted with the next frame, if visible
  void lookForData();     // likewise, if its lines have changed since it was painted
  void setLogX(bool on);  // by the group
  void setLogY(bool on);
  void showTable(bool on);
  // What is shown, with title and legend of the visible series.
  Picture picture();
  // Adds a button at the end of the head.
  void addTool(QToolButton* button);

  MinMax dataRange() const;  // of x
  // Used by the group.
  void setGroup(PlotGroup* group) { group_ = group; }
  PlotGroup* group() const { return group_; }
  void showXRange(double lower, double upper);
  const std::optional<MinMax>& yBox() const { return yBox_; }
  void setYBox(const MinMax& range);
  // Names the line there of which is told, where many lines are drawn as their spread.
  void showCrosshair(double x, bool visible, const QString& line = {});
  // Draws a line of a spread by itself until it is called again. Nothing: there is no such line.
  void toggleKept(const QString& line);
  // Draws the lines of this owner by themselves, on a spread or on the others.
  void showCursor(double x, bool visible, const QString& owner = {});
  void setSmoothing(double weight);
  void resetZoom();  // all data with the next frame, even while paused

 Q_SIGNALS:
  // A part of the data was chosen and is shown, so many pixels wide; not while it is being dragged.
  void rangeShown(double lower, double upper, int pixels);
  void logYChanged(bool on);

 protected:
  void changeEvent(QEvent* event) override;
  void showEvent(QShowEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void makeHead();
  void makeCanvas(QWidget* body);
  void makeTable(QWidget* body);
  void connectParts();
  void retranslate();
  void restyle();
  void applyColors();
  void placeTickers();  // by scale and unit
  bool isSeen() const;  // some of it is on the screen
  void askForDetail();
  void frame();
  void paintAgain();
  void fit();
  void refreshEmpty();
  void chooseBox(const QRect& pixels);
  void rangeChosen(double lower, double upper);
  void showAll();
  bool pressKey(int key);  // false: it means nothing here
  void showMenu(const QPoint& at);
  void copyPicture();
  void placeTitle();  // elided where it has no room
  void drawPicture(QCPPainter& painter, QSize size);
  int drawLegend(QPainter* painter, int width) const;  // below the title; returns its height
  void placeLegend();  // beside the title where it has room, else in a line of its own
  // Where many lines are drawn as their spread.
  std::shared_ptr<Series> spreadLine(const QString& name) const;
  void nameLines();
  // The lines that are kept, those of the cursor's owner, and the one under the pointer.
  void refreshMarks();
  std::vector<std::shared_ptr<Series>> namedLines() const;  // in the legend
  std::vector<LegendBar::Part> spreadParts() const;
  QString spreadAbout() const;
  QStringList spreadValues(double x) const;
  void pointAt(QPointF pixel);
  void keep(const QString& name);
  void clickedAt(QPointF pixel);
  void clickedLegend(const std::shared_ptr<Series>& series);
  QString valueText(double value) const;
  QString xText(double x) const;

  QCustomPlot* plot_ = nullptr;
  SeriesPlottable* lines_ = nullptr;
  SeriesPlottable* marks_ = nullptr;  // lines that are drawn by themselves, above the others
  QStringList keptNames_;  // in the order of the clicks; the same in all plots of the group
  std::vector<std::shared_ptr<Series>> kept_;  // those of them that are here, and the owner's
  std::shared_ptr<Series> hovered_;
  std::vector<std::shared_ptr<Series>> marked_;  // all of those, while they have a colour for it
  QString owner_;                                // of the cursor
  QPointF pressedAt_;
  QString clicked_;  // the line that the last click kept or let go
  QCPLayer* crosshairLayer_ = nullptr;
  QCPItemStraightLine* crosshair_ = nullptr;
  QCPItemText* crosshairText_ = nullptr;
  QCPItemStraightLine* cursor_ = nullptr;
  QFrame* focus_ = nullptr;  // seen while the canvas has the keyboard
  QLabel* title_ = nullptr;
  QLabel* empty_ = nullptr;
  LegendBar* legend_ = nullptr;
  QHBoxLayout* head_ = nullptr;
  QToolButton* tableButton_ = nullptr;
  QToolButton* logButton_ = nullptr;
  QToolButton* fitButton_ = nullptr;
  int tools_ = 0;  // added by others
  QStackedLayout* stack_ = nullptr;
  QTableView* table_ = nullptr;
  SeriesTableModel* tableModel_ = nullptr;
  QTimer rangeRests_;
  QPointer<PlotGroup> group_;
  bool isScaled() const;
  QString shownXTitle() const { return isScaled() ? scaleTitle_ : xTitle_; }

  std::optional<SeriesScale> scale_;
  QString titleText_, xTitle_, scaleTitle_, unit_;
  std::optional<MinMax> yBox_;  // chosen by hand; else what is in sight
  XAxis xAxis_ = XAxis::kNumber;
  Unit unitKind_ = Unit::kNumber;
  bool sorted_ = false, chosen_ = false, refit_ = true;  // chosen_: an x range, without a group
  std::size_t detailed_ = 0;                             // samples when rangeShown() was last due
  bool linesChanged_ = false;                            // the legend does not have all of them yet
  bool awaitsTurn_ = false;                              // of the frame clock
  // What tells whether lines, or the scale of x, have changed: sums over all of them.
  struct Content {
    std::size_t samples = 0;
    std::uint64_t replaced = 0, revisions = 0;
    bool operator==(const Content&) const = default;
  };
  Content content() const;
  Content painted_;
  bool mayHaveData_ = false;
  bool dirty_ = true, fromZero_ = false, fitting_ = false;
};

}  // namespace lockstep::ui
