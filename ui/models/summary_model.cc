#include "ui/models/summary_model.h"

#include <utility>

#include "ui/theme/message_text.h"

namespace lockstep::ui {

void SummaryModel::setRows(std::vector<app::SummaryRow> rows) {
  beginResetModel();
  rows_ = std::move(rows);
  endResetModel();
}

void SummaryModel::retranslate() {
  Q_EMIT headerDataChanged(Qt::Horizontal, 0, kColumns - 1);
  if (rowCount() > 0) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
}

int SummaryModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}
int SummaryModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kColumns;
}

QVariant SummaryModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount() || role != Qt::DisplayRole) return {};
  const app::SummaryRow& row = rows_[static_cast<std::size_t>(index.row())];
  return messageText(index.column() == kLabel ? row.label : row.value);
}

QVariant SummaryModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (role == Qt::TextAlignmentRole) return int(Qt::AlignLeft | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  return section == kLabel ? tr("Setting") : tr("What would be run");
}

}  // namespace lockstep::ui
