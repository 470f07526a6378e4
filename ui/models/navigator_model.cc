#include "ui/models/navigator_model.h"

#include <QFont>
#include <algorithm>

namespace lockstep::ui {
namespace {

struct Kind {
  const char* heading;
  const char* icon;
  const char* prefix;  // of the page keys of its entries
  const char* page;    // that the heading opens
};
constexpr Kind kKinds[NavigatorModel::kGroups] = {
    {QT_TRANSLATE_NOOP("lockstep::ui::NavigatorModel", "Clusters"), "cluster", "cluster:", ""},
    {QT_TRANSLATE_NOOP("lockstep::ui::NavigatorModel", "Models"), "model", "model:", ""},
    {QT_TRANSLATE_NOOP("lockstep::ui::NavigatorModel", "Runs"), "run", "run:", "history"}};

}  // namespace

void NavigatorModel::setEntries(Group group, const QVector<NavigatorEntry>& entries) {
  QVector<NavigatorEntry>& shown = entries_[group];
  if (entries == shown) return;
  const QModelIndex heading = index(group, 0);
  const int count = static_cast<int>(entries.size());
  for (int row = 0; row < count; ++row) {
    const auto known = std::find_if(shown.cbegin() + row, shown.cend(), [&](const auto& other) {
      return other.key == entries[row].key;
    });
    const int from = static_cast<int>(known - shown.cbegin());
    if (known == shown.cend()) {
      beginInsertRows(heading, row, row);
      shown.insert(row, entries[row]);
      endInsertRows();
    } else if (from > row) {
      beginMoveRows(heading, from, from, heading, row);
      shown.move(from, row);
      endMoveRows();
    }
    shown[row] = entries[row];
  }
  if (shown.size() > count) {
    beginRemoveRows(heading, count, static_cast<int>(shown.size()) - 1);
    shown.resize(count);
    endRemoveRows();
  }
  if (count > 0) Q_EMIT dataChanged(index(0, 0, heading), index(count - 1, 0, heading));
  Q_EMIT dataChanged(heading, heading);
}

QModelIndex NavigatorModel::indexOf(const QString& pageKey) const {
  for (int group = 0; group < kGroups; ++group) {
    if (pageKey == kKinds[group].page && !pageKey.isEmpty()) return index(group, 0);
    for (int i = 0; i < entries_[group].size(); ++i) {
      if (kKinds[group].prefix + entries_[group][i].key == pageKey)
        return index(i, 0, index(group, 0));
    }
  }
  return {};
}

void NavigatorModel::retranslate() { Q_EMIT dataChanged(index(0, 0), index(kGroups - 1, 0)); }

QModelIndex NavigatorModel::index(int row, int column, const QModelIndex& parent) const {
  if (column != 0 || row < 0) return {};
  if (!parent.isValid()) return row < kGroups ? createIndex(row, 0, quintptr(0)) : QModelIndex();
  if (parent.internalId() != 0 || row >= entries_[parent.row()].size()) return {};
  return createIndex(row, 0, static_cast<quintptr>(parent.row() + 1));
}

QModelIndex NavigatorModel::parent(const QModelIndex& index) const {
  if (!index.isValid() || index.internalId() == 0) return {};
  return createIndex(static_cast<int>(index.internalId()) - 1, 0, quintptr(0));
}

int NavigatorModel::rowCount(const QModelIndex& parent) const {
  if (!parent.isValid()) return kGroups;
  return parent.internalId() == 0 ? static_cast<int>(entries_[parent.row()].size()) : 0;
}
int NavigatorModel::columnCount(const QModelIndex&) const { return 1; }

QVariant NavigatorModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  if (index.internalId() == 0) {
    const int count = static_cast<int>(entries_[index.row()].size());
    switch (role) {
      case Qt::DisplayRole:
        return tr(kKinds[index.row()].heading);
      case kDetailRole:
        return count > 0 ? QString::number(count) : QString();
      case kPageRole:
        return QString(kKinds[index.row()].page);
      case Qt::FontRole: {
        QFont font;
        font.setWeight(QFont::DemiBold);
        return font;
      }
      default:
        return {};
    }
  }
  const int group = static_cast<int>(index.internalId()) - 1;
  const NavigatorEntry& entry = entries_[group][index.row()];
  switch (role) {
    case Qt::DisplayRole:
      return entry.title;
    case Qt::ToolTipRole:
      return entry.stateText.isEmpty() ? entry.key
                                       : QString("%1\n%2").arg(entry.stateText, entry.key);
    case Qt::AccessibleDescriptionRole:
      return entry.stateText;
    case kDetailRole:
      return entry.detail;
    case kPageRole:
      return kKinds[group].prefix + entry.key;
    case Qt::DecorationRole:
      return Theme::instance().icon(kKinds[group].icon,
                                    entry.hasState ? entry.tone : Tone::kNeutral);
    default:
      return {};
  }
}

}  // namespace lockstep::ui
