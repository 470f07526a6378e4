// BreakdownModel: the table of the step-time bars: the time of each phase, in two rows per rank,
// measured and predicted; one row, predicted, where nothing is measured.
#pragma once

#include <QAbstractTableModel>

#include "ui/widgets/breakdown_bars.h"

namespace lockstep::ui {

class BreakdownModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  using QAbstractTableModel::QAbstractTableModel;
  void setBars(std::vector<BreakdownBar> bars);
  void retranslate();
  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  int rowsPerBar() const { return hasMeasured_ ? 2 : 1; }

  std::vector<BreakdownBar> bars_;
  bool hasMeasured_ = false;  // any of them
};

}  // namespace lockstep::ui
