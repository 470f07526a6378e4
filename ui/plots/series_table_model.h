// SeriesTableModel: the samples of a plot as a table: x, then one column per series. Rows are the
// samples of the longest series, newest first; other series show their sample at the same x.
#pragma once

#include <QAbstractTableModel>
#include <memory>
#include <vector>

#include "ui/plots/series.h"

namespace lockstep::ui {

class SeriesTableModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  using QAbstractTableModel::QAbstractTableModel;

  // Series that were there keep their columns, selected or scrolled to, if their order is the same.
  void setSeries(std::vector<std::shared_ptr<Series>> series);
  void setXTitle(const QString& title);
  void refresh();  // takes up what was appended since

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  const Series* longest() const;
  void insertSeries(const std::vector<std::shared_ptr<Series>>& series);

  std::vector<std::shared_ptr<Series>> series_;
  QString xTitle_;
  int rows_ = 0;
};

}  // namespace lockstep::ui
