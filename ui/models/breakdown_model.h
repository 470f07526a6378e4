// BreakdownModel: the table of the step-time bars: one row per rank, with measured and predicted
// time of each phase.
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
  std::vector<BreakdownBar> bars_;  // two rows each: measured, predicted
};

}  // namespace lockstep::ui
