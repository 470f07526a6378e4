#include "ui/studio/log_model.h"

#include <QDateTime>
#include <algorithm>
#include <iterator>

#include "ui/theme/theme.h"

namespace lockstep::ui {

bool LogQuery::accepts(const LogRow& line) const {
  return (rank == kAllRanks || line.rank == rank) && (node.isEmpty() || line.node == node) &&
         line.level >= level && (text.isEmpty() || line.text.contains(text, Qt::CaseInsensitive));
}

void LogModel::setMissingUntil(qint64 wallNs) { missingUntil_ = std::max(missingUntil_, wallNs); }

void LogModel::append(const QVector<LogRow>& added) {
  if (added.isEmpty()) return;
  QVector<LogRow> rows = added;
  if (const qsizetype cut = added.size() - kKept; cut > 0) {
    setMissingUntil(added[cut - 1].wallNs);
    rows = added.mid(cut);
  }
  qint64 last = rows_.empty() ? 0 : rows_.back().wallNs;
  for (LogRow& row : rows) {
    if (row.wallNs <= 0) row.wallNs = last;
    last = row.wallNs;
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const LogRow& a, const LogRow& b) { return a.wallNs < b.wallNs; });
  const int over = static_cast<int>(rows_.size()) + static_cast<int>(rows.size()) - kKept;
  if (over > 0) {
    const int drop = std::min(static_cast<int>(rows_.size()), over + kKept / 10);
    if (drop > 0) {
      setMissingUntil(line(drop - 1).wallNs);
      beginRemoveRows({}, 0, drop - 1);
      rows_.erase(rows_.begin(), rows_.begin() + drop);
      endRemoveRows();
    }
  }
  const int first = rowCount();
  beginInsertRows({}, first, first + static_cast<int>(rows.size()) - 1);
  rows_.insert(rows_.end(), rows.begin(), rows.end());
  endInsertRows();
  sortFrom(first);
}

void LogModel::sortFrom(int first) {
  const auto added = rows_.begin() + first;
  if (first == 0 || std::prev(added)->wallNs <= added->wallNs) return;
  const auto isEarlier = [](const LogRow& a, const LogRow& b) { return a.wallNs < b.wallNs; };
  Q_EMIT layoutAboutToBeChanged();
  // A row moves by the number of rows of the other part that come before it.
  const QModelIndexList before = persistentIndexList();
  QModelIndexList after;
  for (const QModelIndex& index : before) {
    const LogRow& row = line(index.row());
    const auto place =
        index.row() < first
            ? index.row() + (std::lower_bound(added, rows_.end(), row, isEarlier) - added)
            : index.row() - first +
                  (std::upper_bound(rows_.begin(), added, row, isEarlier) - rows_.begin());
    after << createIndex(static_cast<int>(place), index.column());
  }
  std::inplace_merge(rows_.begin(), added, rows_.end(), isEarlier);
  changePersistentIndexList(before, after);
  Q_EMIT layoutChanged();
}

void LogModel::clear() {
  beginResetModel();
  rows_.clear();
  missingUntil_ = 0;
  endResetModel();
}

void LogModel::retranslate() {
  Q_EMIT headerDataChanged(Qt::Horizontal, 0, kColumns - 1);
  if (!rows_.empty()) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
}

int LogModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}
int LogModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kColumns;
}

QVariant LogModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= static_cast<int>(rows_.size())) return {};
  const LogRow& row = rows_[static_cast<std::size_t>(index.row())];
  switch (role) {
    case Qt::DisplayRole:
      switch (index.column()) {
        case kTime:
          return row.wallNs > 0 ? QDateTime::fromMSecsSinceEpoch(row.wallNs / 1'000'000)
                                      .toString("HH:mm:ss.zzz")
                                : QString();
        case kWhere:
          if (row.rank < 0) return row.node;
          return tr("%1 · rank %2").arg(row.node, QString::number(row.rank));
        case kText:
          return row.text;
        default:
          return {};
      }
    case Qt::ForegroundRole:
      if (index.column() != kText) return Theme::instance().color("muted");
      if (row.level == 3) return Theme::instance().color("bad");
      if (row.level == 2) return Theme::instance().color("warning");
      return {};
    case Qt::ToolTipRole:
      return index.column() == kText ? row.text : QString();
    case kRankRole:
      return row.rank;
    case kLevelRole:
      return row.level;
    case kTimeRole:
      return row.wallNs;
    default:
      return {};
  }
}

QVariant LogModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (role == Qt::TextAlignmentRole) return int(Qt::AlignLeft | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  switch (section) {
    case kTime:
      return tr("Time");
    case kWhere:
      return tr("Where");
    case kText:
      return tr("Line");
    default:
      return {};
  }
}

void LogFilter::setLines(LogModel* lines) {
  if (lines != sourceModel()) setSourceModel(lines);
}

void LogFilter::setQuery(const LogQuery& query) {
  if (query == query_) return;
  query_ = query;
  invalidateFilter();
}

const LogRow& LogFilter::line(int row) const {
  return lines()->line(mapToSource(index(row, 0)).row());
}

bool LogFilter::filterAcceptsRow(int row, const QModelIndex&) const {
  return query_.accepts(lines()->line(row));
}

}  // namespace lockstep::ui
