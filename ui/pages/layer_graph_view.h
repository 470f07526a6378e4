// LayerGraphView: the layers of a model as a graph, from top to bottom: shapes at the edges,
// parameters and memory in the boxes, the stage of each. A second view of the rows of a
// LayerTableModel, with the selection of the first.
//
// Mouse: click selects, double click edits, dragging the background or with the middle button pans,
// the wheel scrolls, with Ctrl it zooms about the pointer. Keys: Down and Up follow edges, Left and
// Right choose another edge or box of the row, Home and End go to the ends, Return edits, Ctrl+0
// fits everything, Ctrl+1 shows original size, Ctrl with plus and minus zooms. The menu has the
// actions of the widget and saves the visible part as a picture (picture_file.h). Threads: GUI.
#pragma once

#include <QAbstractScrollArea>
#include <QVector>
#include <vector>

#include "ui/plots/layered_layout.h"

class QItemSelectionModel;

namespace lockstep::ui {

class LayerTableModel;

class LayerGraphView : public QAbstractScrollArea {
  Q_OBJECT

 public:
  // `selection` is of `model`.
  LayerGraphView(LayerTableModel* model, QItemSelectionModel* selection, QWidget* parent);

  // Boxes are numbered: the inputs of the model, its layers, its loss.
  int boxCount();
  int boxOfLayer(int row) const { return inputs_ + row; }
  int layerOf(int box) const;  // -1: an input or the loss
  const LayeredLayout& layout();
  QRectF boxRect(int box);                  // in the viewport
  QString boxText(int box) const;           // all that the box shows, and what is wrong
  int current() const { return current_; }  // -1: none
  void setCurrent(int box);

  double zoom() const { return zoom_; }
  void setZoom(double zoom);  // about the middle
  void fit();                 // shows everything

  // Marks the layers whose name or kind contains the text, ignoring case, and goes to the first one
  // from the current one on; "": none.
  void find(const QString& text);
  void goToFound(int by);  // 1 the next, -1 the previous one, round the end
  int foundCount() const { return static_cast<int>(found_.size()); }
  int foundIndex() const;  // of the current one, from 0; -1: it is none of them
  void retranslate();

 Q_SIGNALS:
  void editWanted(int layer);  // -1: the input or the loss
  void zoomChanged();
  void foundChanged();

 protected:
  bool viewportEvent(QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void showEvent(QShowEvent* event) override;
  void scrollContentsBy(int dx, int dy) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void contextMenuEvent(QContextMenuEvent* event) override;
  void focusInEvent(QFocusEvent* event) override;
  void focusOutEvent(QFocusEvent* event) override;

 private:
  struct Edge {
    int from = 0, to = 0;
    QString shape;  // of what it carries; "" where it is not known
    bool tied = false;
  };

  void structureChanged();
  void readGraph();
  void place();
  void placeBars();
  void takeSelection();
  QPointF origin() const;  // of the layout, in the viewport
  QTransform toViewport() const;
  int boxAt(const QPoint& at);
  void zoomAbout(double zoom, QPointF fixed);
  void bringIntoView(int box);
  void follow(bool down);
  void goAside(int by);
  void lookAgain();

  void paintEdges(QPainter& painter, const QRectF& seen) const;
  void paintEdge(QPainter& painter, std::size_t edge) const;
  void paintBox(QPainter& painter, int box) const;
  void paintLayer(QPainter& painter, int row, const QRectF& rect) const;
  void paintStage(QPainter& painter, int stage, const QRectF& rect) const;
  QString titleOf(int box) const;
  QString detailOf(int row) const;
  QString memoryOf(int row) const;
  QString problemOf(int row) const;

  LayerTableModel* model_;
  QItemSelectionModel* selection_;
  int inputs_ = 1;
  std::vector<Edge> edges_;
  LayeredLayout layout_;
  bool stale_ = true;   // the layout is of an earlier graph
  bool shown_ = false;  // a zoom was chosen
  double zoom_ = 1;
  int current_ = -1;
  QVector<int> choices_;  // boxes that Left and Right choose among after an edge was followed
  QString sought_;
  QVector<int> found_;
  enum class Drag { kNone, kPan } drag_ = Drag::kNone;
  QPoint last_;
};

}  // namespace lockstep::ui
