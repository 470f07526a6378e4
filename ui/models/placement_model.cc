#include "ui/models/placement_model.h"

#include <QStringList>

#include "ui/theme/format.h"

namespace lockstep::ui {

void PlacementModel::setRanks(std::vector<app::RankPreview> ranks, bool ofProgram) {
  beginResetModel();
  ofProgram_ = ofProgram;
  ranks_ = std::move(ranks);
  endResetModel();
}

void PlacementModel::retranslate() {
  Q_EMIT headerDataChanged(Qt::Horizontal, 0, columnCount() - 1);
  if (!ranks_.empty()) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, columnCount() - 1));
}

int PlacementModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(ranks_.size());
}
int PlacementModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : ofProgram_ ? kThreads + 1 : kColumns;
}
QVariant PlacementModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount()) return {};
  const app::RankPreview& rank = ranks_[static_cast<std::size_t>(index.row())];
  if (role == Qt::TextAlignmentRole && index.column() >= kThreads)
    return int(Qt::AlignRight | Qt::AlignVCenter);
  if (role == Qt::ToolTipRole) {  // what there may be no column for
    QStringList lines;
    for (int column = kDevice; column < columnCount(); ++column) {
      lines << QString("%1: %2").arg(headerData(column, Qt::Horizontal, Qt::DisplayRole).toString(),
                                     this->index(index.row(), column).data().toString());
    }
    return lines.join('\n');
  }
  if (role != Qt::DisplayRole) return {};
  const auto bytes = [](std::int64_t value) { return formatBytes(static_cast<double>(value)); };
  switch (index.column()) {
    case kRank:
      return rank.rank;
    case kNode:
      return QString::fromStdString(rank.node);
    case kDevice:
      return QString::fromStdString(rank.device);
    case kThreads:
      return rank.threads;
    case kSamples:
      return rank.isServer() ? tr("server") : formatCount(rank.samples);
    case kParameters:
      return bytes(rank.parameterBytes);
    case kOptimizer:
      return bytes(rank.optimizerBytes);
    case kGradients:
      return bytes(rank.gradientBytes);
    case kActivations:
      return bytes(rank.activationBytes + rank.workspaceBytes);
    case kTotal:
      return bytes(rank.totalBytes());
    default:
      return {};
  }
}
QVariant PlacementModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (role == Qt::TextAlignmentRole)
    return int((section >= kThreads ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  switch (section) {
    case kRank:
      return tr("Rank");
    case kNode:
      return tr("Node");
    case kDevice:
      return tr("Device");
    case kThreads:
      return tr("Threads");
    case kSamples:
      return tr("Samples");
    case kParameters:
      return tr("Parameters");
    case kOptimizer:
      return tr("Optimizer");
    case kGradients:
      return tr("Gradients");
    case kActivations:
      return tr("Activations");
    case kTotal:
      return tr("Memory");
    default:
      return {};
  }
}

}  // namespace lockstep::ui
