// SummaryModel: what a launch would run, a row for each setting.
#pragma once

#include <QAbstractTableModel>
#include <vector>

#include "app/runs/launch_summary.h"

namespace lockstep::ui {

class SummaryModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { kLabel, kValue, kColumns };
  using QAbstractTableModel::QAbstractTableModel;

  void setRows(std::vector<app::SummaryRow> rows);
  void retranslate();

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  std::vector<app::SummaryRow> rows_;
};

}  // namespace lockstep::ui
