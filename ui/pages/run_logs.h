// RunLogs: the log lines of all ranks of a run, with filters; follows the newest line while
// scrolled to the end.
#pragma once

#include <QWidget>

class QComboBox;
class QLineEdit;
class QTableView;

namespace lockstep::ui {

class LogFilter;
class LogModel;

class RunLogs : public QWidget {
  Q_OBJECT

 public:
  RunLogs(LogModel* logs, QWidget* parent = nullptr);

  void setRanks(int world);
  void find();
  // Filters by rank and scrolls to the lines at wall clock time `seconds`; NaN: does not scroll.
  void showMoment(int rank, double seconds);
  void showAllRanks();
  void retranslate();

 private:
  LogModel* logs_;
  QLineEdit* search_ = nullptr;
  QComboBox* rank_ = nullptr;
  QComboBox* level_ = nullptr;
  QTableView* table_ = nullptr;
  LogFilter* filter_ = nullptr;
};

}  // namespace lockstep::ui
