#include "ui/models/traffic_model.h"

#include <algorithm>
#include <utility>

#include "ui/theme/format.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {

void TrafficModel::setTraffic(const std::vector<plan::Traffic>& traffic, int ranks) {
  beginResetModel();
  nodes_.clear();
  fill(traffic, ranks);
  endResetModel();
}

void TrafficModel::setNodeTraffic(const std::vector<plan::Traffic>& measured,
                                  const std::vector<plan::Traffic>& planned,
                                  std::vector<QString> nodes) {
  // The selection stays.
  const bool isAlike = nodes == nodes_ && size_ == static_cast<int>(nodes.size());
  if (!isAlike) beginResetModel();
  nodes_ = std::move(nodes);
  fill(measured, static_cast<int>(nodes_.size()));
  for (const plan::Traffic& link : planned)
    if (Cell* cell = cellOf(link)) cell->planned += link.bytes;
  if (!isAlike)
    endResetModel();
  else if (size_ > 0)
    Q_EMIT dataChanged(index(0, 0), index(size_ - 1, size_ - 1));
}

void TrafficModel::fill(const std::vector<plan::Traffic>& traffic, int size) {
  size_ = size;
  most_ = 0;
  cells_.assign(static_cast<std::size_t>(size) * static_cast<std::size_t>(size), {});
  for (const plan::Traffic& link : traffic) {
    Cell* cell = cellOf(link);
    if (cell == nullptr) continue;
    *cell = {link.bytes, link.atMost, 0};
    most_ = std::max(most_, link.bytes);
  }
}

TrafficModel::Cell* TrafficModel::cellOf(const plan::Traffic& link) {
  if (link.from >= size_ || link.to >= size_) return nullptr;
  return &cells_[static_cast<std::size_t>(link.from) * static_cast<std::size_t>(size_) +
                 static_cast<std::size_t>(link.to)];
}

void TrafficModel::retranslate() {
  if (size_ == 0) return;
  for (const auto side : {Qt::Horizontal, Qt::Vertical})
    Q_EMIT headerDataChanged(side, 0, size_ - 1);
  Q_EMIT dataChanged(index(0, 0), index(size_ - 1, size_ - 1));
}

const TrafficModel::Cell& TrafficModel::at(const QModelIndex& index) const {
  return cells_[static_cast<std::size_t>(index.row()) * static_cast<std::size_t>(size_) +
                static_cast<std::size_t>(index.column())];
}

int TrafficModel::rowCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : size_; }
int TrafficModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : size_;
}

QString TrafficModel::name(int index) const {
  return nodes_.empty() ? tr("rank %1").arg(index) : nodes_[static_cast<std::size_t>(index)];
}

QString TrafficModel::sentence(const QModelIndex& index) const {
  const Cell& cell = at(index);
  const QString from = name(index.row()), to = name(index.column());
  const QString sent =
      cell.bytes > 0
          ? tr("%1 sends %2 to %3 per step").arg(from, data(index, Qt::DisplayRole).toString(), to)
          : tr("%1 sends nothing to %2").arg(from, to);
  if (nodes_.empty()) return sent;
  return sent + tr("; planned: %1").arg(formatBytes(static_cast<double>(cell.planned)));
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
      return sentence(index);
    default:
      return {};
  }
}

QVariant TrafficModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (role == Qt::TextAlignmentRole) return int(Qt::AlignRight | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  return orientation == Qt::Horizontal ? tr("to %1").arg(name(section))
                                       : tr("from %1").arg(name(section));
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
