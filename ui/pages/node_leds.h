// NodeLeds: the nodes of a cluster at a glance: a coloured cell for each, in stripes if the measure
// is of its GPUs; in a cell too small for so many, a stripe shows the greatest of several. The
// selection is that of the node table.
#pragma once

#include <QWidget>

class QComboBox;
class QItemSelectionModel;

namespace lockstep::ui {

class ColorLegend;
class NodeTableModel;

// Click, arrows, Home and End select a node. A node or GPU with a problem is crossed out; one of
// which nothing is known is hollow; a GPU that is slowed down has a white foot.
class NodeLedGrid : public QWidget {
  Q_OBJECT

 public:
  NodeLedGrid(NodeTableModel* nodes, QItemSelectionModel* selection, QWidget* parent = nullptr);

  int measure() const { return measure_; }
  void setMeasure(int column);  // of NodeTableModel
  QRect ledOf(int row) const;   // in this widget
  int perLine() const { return perLine_; }
  QSize sizeHint() const override { return {200, height()}; }

 protected:
  bool event(QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  void place();  // as large as all have room
  void choose(int row);
  int chosen() const;                 // -1: none
  int rowAt(const QPoint& at) const;  // -1: none
  QString textOf(int row) const;
  bool isWrong(int row) const;
  void markSlowed(QPainter& painter, int row) const;  // GPUs
  void drawLed(QPainter& painter, int row) const;
  void changed();

  NodeTableModel* nodes_;
  QItemSelectionModel* selection_;
  int measure_;
  int pitch_ = 1, perLine_ = 1;  // pixels; LEDs
};

class NodeLeds : public QWidget {
  Q_OBJECT

 public:
  NodeLeds(NodeTableModel* nodes, QItemSelectionModel* selection, QWidget* parent = nullptr);
  void retranslate();

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  void fillMeasures();  // those of GPUs if a node has some
  void showMeasure();
  void showScale();  // of the colours

  NodeTableModel* nodes_;
  QComboBox* measures_;
  NodeLedGrid* grid_;
  ColorLegend* legend_;
  bool hasGpus_ = false;
  int chosen_;    // measure; also while there are no GPUs to show it of
  QString most_;  // what the brightest colour stands for
};

}  // namespace lockstep::ui
