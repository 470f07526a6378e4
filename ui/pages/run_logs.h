// RunLogs: the log lines of all ranks of a run, with filters. Shows the tail, the newest lines,
// which are in memory, and follows it while scrolled to the end; or lines that were read from the
// run's store: those that a search of the whole run found, or those around a moment.
#pragma once

#include <QWidget>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "ui/studio/log_model.h"

class QComboBox;
class QHBoxLayout;
class QLabel;
class QLineEdit;
class QPushButton;
class QTableView;

namespace lockstep::ui {

class LogReader;
struct LogResult;

class RunLogs : public QWidget {
  Q_OBJECT

 public:
  RunLogs(LogModel* tail, std::string historyFolder, std::string run, QWidget* parent = nullptr);

  // What the lines can be filtered by.
  void setRanks(int world, const std::vector<std::string>& nodes);
  void find();
  // Filters by rank and scrolls to the lines at wall clock time `seconds`; NaN: does not scroll.
  void showMoment(int rank, double seconds);
  void showAllRanks();
  void retranslate();

 Q_SIGNALS:
  void failed(const lockstep::Error& error);

 private:
  struct Target {
    qint64 wallNs = 0;
    std::optional<LogRow> line = {};  // none: the last one before that moment
  };

  QHBoxLayout* makeFilters();
  QHBoxLayout* makeState();
  void connectFilters();
  LogQuery query() const;
  void search();
  void showTail();
  void showFirstError();
  void show(const Target& target);
  void showFrom(const std::optional<Target>& stored);
  void take(const LogResult& result);
  void giveUp(const Error& error);
  int rowOf(const Target& target) const;  // -1: not shown
  void select(const Target& target);
  void fillRanks();
  void refreshState();
  QString stateText() const;

  LogModel* tail_;
  LogModel* found_;    // read from the store
  LogFilter* filter_;  // over one of both
  LogReader* reader_;
  std::optional<Target> stored_;  // lines from the store are wanted near it; none: the tail
  bool isCut_ = false;            // not all that were found are shown
  bool hasNoError_ = false;       // as the search of the first one said
  int world_ = -1;
  std::vector<std::string> nodes_;
  QLineEdit* search_ = nullptr;
  QComboBox* rank_ = nullptr;
  QComboBox* level_ = nullptr;
  QPushButton* firstError_ = nullptr;
  QLabel* state_ = nullptr;
  QPushButton* newest_ = nullptr;
  QTableView* table_ = nullptr;
};

}  // namespace lockstep::ui
