// GridView: base of heat map and timeline: rows of cells over a common x axis, painted pixel by
// pixel, with visible ranges, axes, gestures and an image cached between repaints. Gestures: click
// selects, drag zooms into a box, Shift+drag pans, the wheel zooms along x (with Ctrl along the
// rows), double click shows everything. Keys: arrows move the selection, plus and minus zoom (with
// Ctrl the rows), Home shows everything, Escape clears the selection. Threads: GUI.
#pragma once

#include <QImage>
#include <QWidget>
#include <optional>

namespace lockstep::ui {

class GridView : public QWidget {
  Q_OBJECT

 public:
  explicit GridView(const QString& objectName, QWidget* parent = nullptr);

  struct Range {
    double begin = 0, end = 1;
    double span() const { return end - begin; }
    bool operator==(const Range&) const = default;
  };
  const Range& xRange() const { return x_; }
  const Range& rowRange() const { return rows_; }
  // Sets the visible range, clamped to the data. If all data are visible, new data become visible
  // too.
  void setView(const Range& x, const Range& rows);
  void showAll();
  struct Zoom {
    Range x, rows;
  };
  std::optional<Zoom> zoomed() const;  // nullopt: all is shown
  // Shows that part once there are data for it, unless a person zooms before.
  void restoreZoom(const Zoom& zoom);
  // The part of x that is shown, also in another view; nullopt: all of it. Of a part that has no
  // data yet the rest is shown as it comes.
  std::optional<Range> xZoom() const;
  void showX(const std::optional<Range>& x);
  QRect cellsRect() const;                     // where cells are drawn
  QPoint pixelOf(double x, double row) const;  // in this widget
  void setEmptyText(const QString& text);      // shown while there are no data
  QSize sizeHint() const override { return {600, 240}; }
  QSize minimumSizeHint() const override { return {240, 110}; }

 Q_SIGNALS:
  void xChosen();  // another part of x, unless by showX() or restoreZoom()

 protected:
  // Call after the data have changed; rows 0: no data.
  void setExtent(const Range& x, int rows);
  const Range& extent() const { return xAll_; }
  int rowCount() const { return rowsAll_; }
  void namesChanged();  // names of rows
  void markDirty();     // redraws the image with the next repaint
  // Smallest visible range along x.
  virtual double leastSpan() const = 0;
  virtual QString rowName(int row) const = 0;
  virtual bool isMarked(int) const { return false; }  // highlights the row's name
  // `largest` is the end of the visible range, `step` the distance of two ticks.
  virtual QString tickText(double x, double largest, double step) const = 0;
  virtual double leastTick() const { return 0; }  // minimum distance of ticks
  // Draws the visible range onto the whole image.
  virtual void drawCells(QImage& image) const = 0;
  virtual void drawOver(QPainter&) const {}       // draws the selection
  virtual void choose(double x, double row) = 0;  // row: fractional
  virtual void chooseNothing() = 0;
  virtual void moveChosen(int dx, int dy, bool far) = 0;
  virtual double chosenX() const = 0;  // centre of zooms by keys; NaN: the middle of the view
  virtual QString tipAt(double x, double row) const = 0;
  void bringIntoView(double x, double width, int row);

  bool event(QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void contextMenuEvent(QContextMenuEvent* event) override;  // pictures, see picture_file.h

 private:
  double xAt(double pixel) const;
  double rowAt(double pixel) const;
  void zoom(double factor, double x, bool rows, double row);
  void showAwaited();
  void showPart(const Range& x, const Range& rows);
  int tickRoom() const;
  void drawAxes(QPainter& painter) const;

  Range x_, rows_, xAll_;
  int rowsAll_ = 0;
  int nameWidth_ = 0;
  bool all_ = true;  // all data are visible
  std::optional<Zoom> awaited_;
  bool dirty_ = true;
  bool dark_ = false;  // the theme of the image
  QImage image_;
  QString empty_;
  enum class Drag { kNone, kPressed, kBox, kPan } drag_ = Drag::kNone;
  QPoint pressed_, moved_;
};

}  // namespace lockstep::ui
