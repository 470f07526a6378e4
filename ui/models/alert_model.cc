#include "ui/models/alert_model.h"

namespace lockstep::ui {
namespace {
constexpr std::size_t kKept = 500;
}

void AlertModel::add(Tone tone, const QString& where, const QString& text) {
  beginInsertRows({}, 0, 0);
  alerts_.push_front({QDateTime::currentDateTime(), tone, where, text});
  endInsertRows();
  if (alerts_.size() <= kKept) return;
  beginRemoveRows({}, static_cast<int>(kKept), static_cast<int>(kKept));
  alerts_.pop_back();
  endRemoveRows();
}
void AlertModel::clear() {
  beginResetModel();
  alerts_.clear();
  endResetModel();
}
void AlertModel::retranslate() { Q_EMIT headerDataChanged(Qt::Horizontal, 0, kColumns - 1); }

int AlertModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(alerts_.size());
}
int AlertModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kColumns;
}
QVariant AlertModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount()) return {};
  const Alert& alert = alerts_[static_cast<std::size_t>(index.row())];
  if (role == Qt::DisplayRole) {
    switch (index.column()) {
      case kTime: return alert.when.toString("HH:mm:ss");
      case kWhere: return alert.where;
      case kText: return alert.text;
      default: return {};
    }
  }
  if (role == kToneRole) return int(alert.tone);
  if (role == Qt::ToolTipRole) return alert.text;
  if (role == Qt::ForegroundRole && index.column() != kText) return Theme::instance().color("muted");
  return {};
}
QVariant AlertModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (role == Qt::TextAlignmentRole) return int(Qt::AlignLeft | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  switch (section) {
    case kTime: return tr("Time");
    case kWhere: return tr("Where");
    case kText: return tr("What");
    default: return {};
  }
}

}  // namespace lockstep::ui
