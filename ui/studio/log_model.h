// LogModel: the log lines of all ranks merged by time, at most kKept, with a filter by text, rank
// and level.
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

  // Lines without a time follow the previous line; late lines are inserted in order.
  void append(const QVector<LogRow>& rows);
  void clear();
  void retranslate();

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  std::deque<LogRow> rows_;
};

class LogFilter : public QSortFilterProxyModel {
  Q_OBJECT

 public:
  using QSortFilterProxyModel::QSortFilterProxyModel;
  void setText(const QString& text);
  void setRank(int rank);  // -2: all
  void setLowestLevel(int level);

 protected:
  bool filterAcceptsRow(int row, const QModelIndex& parent) const override;

 private:
  QString text_;
  int rank_ = -2;
  int level_ = 0;
};

}  // namespace lockstep::ui
