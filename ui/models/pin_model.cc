#include "ui/models/pin_model.h"

#include <algorithm>

namespace lockstep::ui {

void moveToStage(std::vector<int>& stages, int row, int stage) {
  if (row < 0 || row >= static_cast<int>(stages.size())) return;
  const int before = stages[static_cast<std::size_t>(row)];
  for (auto at = stages.begin() + row; at != stages.end() && *at == before; ++at)
    *at = std::max(0, stage);
}

void PinModel::setLayers(std::vector<std::string> layers, std::vector<int> stages) {
  if (layers == layers_ && stages == stages_) return;
  beginResetModel();
  layers_ = std::move(layers);
  stages_ = std::move(stages);
  stages_.resize(layers_.size());
  endResetModel();
}

void PinModel::retranslate() { Q_EMIT headerDataChanged(Qt::Horizontal, 0, kColumns - 1); }

int PinModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(layers_.size());
}
int PinModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kColumns;
}

QVariant PinModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount() ||
      (role != Qt::DisplayRole && role != Qt::EditRole))
    return {};
  const auto at = static_cast<std::size_t>(index.row());
  return index.column() == kLayer ? QVariant(QString::fromStdString(layers_[at]))
                                  : QVariant(stages_[at]);
}

bool PinModel::setData(const QModelIndex& index, const QVariant& value, int role) {
  if (role != Qt::EditRole || index.column() != kStage || index.row() >= rowCount()) return false;
  moveToStage(stages_, index.row(), value.toInt());
  Q_EMIT dataChanged(this->index(0, kStage), this->index(rowCount() - 1, kStage));
  Q_EMIT edited();
  return true;
}

QVariant PinModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
  return section == kLayer ? tr("Layer") : tr("Stage");
}

Qt::ItemFlags PinModel::flags(const QModelIndex& index) const {
  Qt::ItemFlags flags = QAbstractTableModel::flags(index);
  if (index.isValid() && index.column() == kStage) flags |= Qt::ItemIsEditable;
  return flags;
}

}  // namespace lockstep::ui
