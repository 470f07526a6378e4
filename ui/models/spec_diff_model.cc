#include "ui/models/spec_diff_model.h"

namespace lockstep::ui {

void SpecDiffModel::setRuns(QStringList names, const std::vector<app::SpecFields>& fields) {
  beginResetModel();
  names_ = std::move(names);
  rows_ = app::specDifferences(fields);
  endResetModel();
}

void SpecDiffModel::retranslate() {
  if (columnCount() > 0) Q_EMIT headerDataChanged(Qt::Horizontal, 0, 0);
}

int SpecDiffModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}
int SpecDiffModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(names_.size()) + 1;
}

QVariant SpecDiffModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount()) return {};
  const app::SpecDifference& row = rows_[static_cast<std::size_t>(index.row())];
  if (role != Qt::DisplayRole && role != Qt::ToolTipRole) return {};
  if (index.column() == 0) return QString::fromStdString(row.field);
  const std::string& value = row.values[static_cast<std::size_t>(index.column() - 1)];
  return value.empty() ? QString(QChar(0x2014)) : QString::fromStdString(value);
}

QVariant SpecDiffModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
  return section == 0 ? tr("Field") : names_.value(section - 1);
}

}  // namespace lockstep::ui
