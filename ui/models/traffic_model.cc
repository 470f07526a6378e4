#include "ui/models/traffic_model.h"

#include <algorithm>
#include <utility>

#include "ui/theme/format.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {

void TrafficModel::setTraffic(const std::vector<plan::Traffic>& traffic, int ranks) {
  beginResetModel();
  ranks_ = ranks;
  most_ = 0;
  cells_.assign(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks), {});
  for (const plan::Traffic& link : traffic) {
    if (link.from >= ranks || link.to >= ranks) continue;
    cells_[static_cast<std::size_t>(link.from) * static_cast<std::size_t>(ranks) +
           static_cast<std::size_t>(link.to)] = {link.bytes, link.atMost};
    most_ = std::max(most_, link.bytes);
  }
  endResetModel();
}

void TrafficModel::retranslate() {
  if (ranks_ == 0) return;
  for (const auto side : {Qt::Horizontal, Qt::Vertical})
    Q_EMIT headerDataChanged(side, 0, ranks_ - 1);
}

const TrafficModel::Cell& TrafficModel::at(const QModelIndex& index) const {
  return cells_[static_cast<std::size_t>(index.row()) * static_cast<std::size_t>(ranks_) +
                static_cast<std::size_t>(index.column())];
}

int TrafficModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : ranks_;
}
int TrafficModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : ranks_;
}

// The accent colour, stronger for more; text stays readable on it.
QColor TrafficModel::shade(std::int64_t bytes) const {
  constexpr double kLeast = 0.08, kMost = 0.45;
  QColor out = Theme::instance().color("accent");
  out.setAlphaF(static_cast<float>(kLeast + (kMost - kLeast) * static_cast<double>(bytes) /
                                                static_cast<double>(most_)));
  return out;
}

QVariant TrafficModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const Cell& cell = at(index);
  const bool any = cell.bytes > 0;
  switch (role) {
    case Qt::DisplayRole:
      return !any          ? QString()
             : cell.atMost ? QString::fromUtf8("≤ ") + formatBytes(static_cast<double>(cell.bytes))
                           : formatBytes(static_cast<double>(cell.bytes));
    case Qt::TextAlignmentRole:
      return int(Qt::AlignRight | Qt::AlignVCenter);
    case Qt::BackgroundRole:
      return any ? QVariant(shade(cell.bytes)) : QVariant();
    case Qt::ToolTipRole:
    case Qt::AccessibleTextRole:
      return any ? tr("rank %1 sends %2 to rank %3 per step")
                       .arg(index.row())
                       .arg(data(index, Qt::DisplayRole).toString())
                       .arg(index.column())
                 : tr("rank %1 sends nothing to rank %2").arg(index.row()).arg(index.column());
    default:
      return {};
  }
}

QVariant TrafficModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (role == Qt::TextAlignmentRole) return int(Qt::AlignRight | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  return orientation == Qt::Horizontal ? tr("to rank %1").arg(section)
                                       : tr("from rank %1").arg(section);
}

void NodeTrafficModel::setRows(std::vector<NodeTraffic> rows) {
  if (rows.size() != rows_.size()) {
    beginResetModel();
    rows_ = std::move(rows);
    endResetModel();
    return;
  }
  rows_ = std::move(rows);
  if (!rows_.empty()) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
}

void NodeTrafficModel::retranslate() { Q_EMIT headerDataChanged(Qt::Horizontal, 0, kColumns - 1); }

int NodeTrafficModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}
int NodeTrafficModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kColumns;
}

QVariant NodeTrafficModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount()) return {};
  if (role == Qt::TextAlignmentRole && index.column() != kNode)
    return int(Qt::AlignRight | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  const NodeTraffic& row = rows_[static_cast<std::size_t>(index.row())];
  const auto measured = [](const std::optional<double>& bytes) {
    return bytes ? formatBytes(*bytes) : QString(QChar(0x2014));
  };
  switch (index.column()) {
    case kNode:
      return row.node;
    case kPlannedOut:
      return formatBytes(row.plannedOut);
    case kMeasuredOut:
      return measured(row.measuredOut);
    case kPlannedIn:
      return formatBytes(row.plannedIn);
    case kMeasuredIn:
      return measured(row.measuredIn);
    default:
      return measured(row.loopback);
  }
}

QVariant NodeTrafficModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (role == Qt::TextAlignmentRole)
    return int((section == kNode ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  switch (section) {
    case kNode:
      return tr("Node");
    case kPlannedOut:
      return tr("Sent (planned)");
    case kMeasuredOut:
      return tr("Sent (measured)");
    case kPlannedIn:
      return tr("Received (planned)");
    case kMeasuredIn:
      return tr("Received (measured)");
    default:
      return tr("Loopback (measured)");
  }
}

}  // namespace lockstep::ui
