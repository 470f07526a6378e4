// LogModel: the log lines of all ranks merged by time, at most kKept, with a filter by text, rank,
// node and level.
#pragma once

#include <QAbstractTableModel>
#include <QSortFilterProxyModel>
#include <deque>

namespace lockstep::ui {

struct LogRow {
  qint64 wallNs = 0;
  QString node;
  int rank = -1;  // -1: the supervisor
  int level = 1;  // 0 debug, 1 info, 2 warning, 3 error
  QString text;
  bool operator==(const LogRow&) const = default;
};

struct LogQuery {
  static constexpr int kAllRanks = -2;
  static constexpr int kErrors = 3;  // a level

  QString text;  // case-insensitive; empty: any
  int rank = kAllRanks;
  QString node;   // empty: all
  int level = 0;  // the lowest

  bool accepts(const LogRow& line) const;
  bool operator==(const LogQuery&) const = default;
};

class LogModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { kTime, kWhere, kText, kColumns };
  static constexpr int kKept = 20'000;
  static constexpr int kRankRole = Qt::UserRole + 1;
  static constexpr int kLevelRole = Qt::UserRole + 2;
  static constexpr int kTimeRole = Qt::UserRole + 3;  // wall clock, ns

  using QAbstractTableModel::QAbstractTableModel;

  // Lines without a time follow the previous line. All are appended as one block; where some are
  // late, the rows then change their order once, however many gaps they fall into.
  void append(const QVector<LogRow>& rows);
  void clear();
  const LogRow& line(int row) const { return rows_[static_cast<std::size_t>(row)]; }
  // Up to this wall clock time, in ns, lines of the run may be missing here. 0: none is missing.
  qint64 missingUntil() const { return missingUntil_; }
  bool isComplete() const { return missingUntil_ == 0; }
  void setMissingUntil(qint64 wallNs);
  void retranslate();

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  // Merges the rows from `first` on, which are sorted, with those before.
  void sortFrom(int first);

  std::deque<LogRow> rows_;
  qint64 missingUntil_ = 0;
};

class LogFilter : public QSortFilterProxyModel {
  Q_OBJECT

 public:
  using QSortFilterProxyModel::QSortFilterProxyModel;
  void setLines(LogModel* lines);
  LogModel* lines() const { return static_cast<LogModel*>(sourceModel()); }
  void setQuery(const LogQuery& query);
  const LogRow& line(int row) const;

 protected:
  bool filterAcceptsRow(int row, const QModelIndex& parent) const override;

 private:
  LogQuery query_;
};

}  // namespace lockstep::ui
