// SpecDiffModel: the differences between the specs of runs: one row per field, one column per run.
#pragma once

#include <QAbstractTableModel>
#include <vector>

#include "app/specs/spec_diff.h"

namespace lockstep::ui {

class SpecDiffModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  using QAbstractTableModel::QAbstractTableModel;

  // Takes the name and fields of each run. Leaves out fields that are equal in all.
  void setRuns(QStringList names, const std::vector<app::SpecFields>& fields);
  void retranslate();

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  QStringList names_;
  std::vector<app::SpecDifference> rows_;
};

}  // namespace lockstep::ui
