// The style of all tables of the studio.
#pragma once

#include <QObject>
#include <QVector>
#include <initializer_list>

class QTableView;

namespace lockstep::ui {

// Rows, no grid, quiet header; the tool tip of a cell whose text is cut begins with all of it.
void applyTableStyle(QTableView* table);
void applyMatrixStyle(QTableView* table);  // of rank × rank: names on both sides, cells coloured
// Paints the model's background of cells, which the style sheet ignores.
void paintBackgrounds(QTableView* table);
void setColumns(QTableView* table, std::initializer_list<int> widths);  // the last one stretches

// Hides columns of `spare` in order until the others fit without scrolling; hides none if that is
// not enough. Columns that share what is left (QHeaderView::Stretch) need the room of their titles.
// The last visible column stretches and needs `last` pixels; 0: its width.
class ColumnFitter : public QObject {
 public:
  ColumnFitter(QTableView* table, QVector<int> spare, int last = 0);
  void fit();

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  QTableView* table_;
  const QObject* viewport_;
  QVector<int> spare_;
  int last_;
};

}  // namespace lockstep::ui
