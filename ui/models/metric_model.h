// MetricModel: what can be plotted of a run, one row each, checkable: patterns that match several
// series ("node/*/cpu") before the series themselves.
#pragma once

#include <QAbstractListModel>
#include <QSortFilterProxyModel>
#include <QStringList>

namespace lockstep::ui {

class MetricModel : public QAbstractListModel {
  Q_OBJECT
 public:
  enum Role { kPatternRole = Qt::UserRole, kSearchRole };
  using QAbstractListModel::QAbstractListModel;

  // All series of the run. Those that are checked stay so, also where the run has none of them.
  void setSeries(const QStringList& series);
  void setChecked(const QStringList& patterns);
  // In the order in which they were checked.
  const QStringList& checked() const { return checked_; }
  void retranslate();

  int rowCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  bool setData(const QModelIndex& index, const QVariant& value, int role = Qt::EditRole) override;
  Qt::ItemFlags flags(const QModelIndex& index) const override;

 Q_SIGNALS:
  void checkedChanged();

 private:
  struct Row {
    QString pattern;
    int count = 0;  // of series that it matches
  };
  void rebuild();

  QStringList series_, checked_;
  QVector<Row> rows_;
};

// The rows whose text has all words.
class MetricFilter : public QSortFilterProxyModel {
  Q_OBJECT
 public:
  using QSortFilterProxyModel::QSortFilterProxyModel;
  void setText(const QString& text);

 protected:
  bool filterAcceptsRow(int row, const QModelIndex& parent) const override;

 private:
  QStringList words_;
};

}  // namespace lockstep::ui
