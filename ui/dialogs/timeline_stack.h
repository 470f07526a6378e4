// TimelineStack: a timeline, and the table of its spans in its place when the button is on. Both
// have one selection. Threads: GUI.
#pragma once

#include <QStackedWidget>

class QAction;
class QModelIndex;
class QTableView;
class QToolButton;

namespace lockstep::ui {

class TimelineTableModel;
class TimelineView;

class TimelineStack : public QStackedWidget {
  Q_OBJECT

 public:
  // The view has the object's name `name`, the table `name`Table, the button `name`AsTable.
  TimelineStack(const QString& name, QWidget* parent);
  TimelineView* view() const { return view_; }
  QToolButton* button() const { return asTable_; }  // for the head of what the stack is in
  void retranslate();                               // after the view has its accessible name

 private:
  void buildTable();
  void showTable(bool on);
  void takeChosen();  // from the view
  void giveChosen(const QModelIndex& now);
  void sortByCurrentColumn();

  TimelineView* view_;
  QToolButton* asTable_ = nullptr;
  QTableView* table_ = nullptr;
  TimelineTableModel* model_ = nullptr;
  QAction* sort_ = nullptr;
  bool passing_ = false;  // a selection is being passed from one to the other
};

}  // namespace lockstep::ui
