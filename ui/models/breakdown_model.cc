#include "ui/models/breakdown_model.h"

#include <algorithm>
#include <numeric>

#include "ui/theme/format.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {

void BreakdownModel::setBars(std::vector<BreakdownBar> bars) {
  const bool hasMeasured = std::ranges::any_of(bars, &BreakdownBar::hasMeasured);
  if (bars.size() != bars_.size() || hasMeasured != hasMeasured_) {
    beginResetModel();
    bars_ = std::move(bars);
    hasMeasured_ = hasMeasured;
    endResetModel();
    return;
  }
  bars_ = std::move(bars);
  if (!bars_.empty()) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, columnCount() - 1));
}

void BreakdownModel::retranslate() {
  Q_EMIT headerDataChanged(Qt::Horizontal, 0, columnCount() - 1);
  if (!bars_.empty()) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, columnCount() - 1));
}

int BreakdownModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(bars_.size()) * rowsPerBar();
}
int BreakdownModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kPhaseCount + 3;
}

QVariant BreakdownModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount()) return {};
  const BreakdownBar& bar = bars_[static_cast<std::size_t>(index.row() / rowsPerBar())];
  const bool measured = hasMeasured_ && index.row() % 2 == 0;
  if (role == Qt::TextAlignmentRole && index.column() > 1)
    return int(Qt::AlignRight | Qt::AlignVCenter);
  if (role == Qt::ForegroundRole && hasMeasured_ && !measured)
    return Theme::instance().color("muted");
  if (role != Qt::DisplayRole) return {};
  if (index.column() == 0) return bar.name;
  if (index.column() == 1) return measured ? tr("measured") : tr("predicted");
  if (!(measured ? bar.hasMeasured : bar.hasPredicted)) return QString(QChar(0x2014));
  const auto& parts = measured ? bar.measured : bar.predicted;
  if (index.column() == kPhaseCount + 2) {
    return formatSeconds(std::accumulate(parts.begin(), parts.end(), 0.0));
  }
  return formatSeconds(parts[static_cast<std::size_t>(index.column() - 2)]);
}

QVariant BreakdownModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (role == Qt::TextAlignmentRole)
    return int((section > 1 ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  if (section == 0) return tr("Rank");
  if (section == 1) return tr("Time");
  if (section == kPhaseCount + 2) return tr("sum");
  return phaseName(section - 2);
}

}  // namespace lockstep::ui
