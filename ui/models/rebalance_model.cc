#include "ui/models/rebalance_model.h"

#include <utility>

#include "ui/theme/format.h"

namespace lockstep::ui {

void RebalanceModel::setRanks(std::vector<app::RankSpeed> ranks) {
  beginResetModel();
  ranks_ = std::move(ranks);
  endResetModel();
}

void RebalanceModel::retranslate() {
  Q_EMIT headerDataChanged(Qt::Horizontal, 0, kColumns - 1);
  if (!ranks_.empty()) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
}

int RebalanceModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(ranks_.size());
}
int RebalanceModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kColumns;
}

QVariant RebalanceModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount()) return {};
  if (role == Qt::TextAlignmentRole)
    return int((index.column() == kNode ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  const app::RankSpeed& rank = ranks_[static_cast<std::size_t>(index.row())];
  switch (index.column()) {
    case kRank:
      return rank.rank;
    case kNode:
      return QString::fromStdString(rank.node);
    case kSample:
      return formatSeconds(rank.sampleSeconds);
    case kSamples:
      return formatCount(rank.samples);
    case kSeconds:
      return formatSeconds(rank.seconds());
    case kProposed:
      return formatCount(rank.proposed);
    case kProposedSeconds:
      return formatSeconds(rank.proposedSeconds());
    default:
      return {};
  }
}

QVariant RebalanceModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || section < 0 || section >= kColumns) return {};
  if (role == Qt::TextAlignmentRole)
    return int((section == kNode ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  switch (section) {
    case kRank:
      return tr("Rank");
    case kNode:
      return tr("Node");
    case kSample:
      return tr("Time per sample");
    case kSamples:
      return tr("Samples now");
    case kSeconds:
      return tr("Compute time");
    case kProposed:
      return tr("Proposed samples");
    default:
      return tr("Proposed compute time");
  }
}

}  // namespace lockstep::ui
