#include "ui/models/message_model.h"

#include <utility>

#include "ui/theme/format.h"

namespace lockstep::ui {

void MessageModel::setMessages(std::shared_ptr<const app::MessagesScene> scene) {
  beginResetModel();
  scene_ = std::move(scene);
  endResetModel();
}

void MessageModel::retranslate() {
  Q_EMIT headerDataChanged(Qt::Horizontal, 0, kColumns - 1);
  if (rowCount() > 0) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
}

int MessageModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() || !scene_ ? 0 : static_cast<int>(scene_->messages.size());
}
int MessageModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kColumns;
}

QVariant MessageModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount()) return {};
  if (role == Qt::TextAlignmentRole)
    return static_cast<int>(Qt::AlignVCenter |
                            (index.column() == kEffect ? Qt::AlignLeft : Qt::AlignRight));
  if (role != Qt::DisplayRole) return {};
  const app::SceneMessage& message = scene_->messages[static_cast<std::size_t>(index.row())];
  switch (index.column()) {
    case kRound:
      return message.round + 1;
    case kFrom:
      return message.from;
    case kTo:
      return message.to;
    case kElements:
      return QString::fromUtf8("%1 – %2").arg(formatCount(message.begin),
                                              formatCount(message.end - 1));
    case kEffect:
      return message.reduces ? tr("added") : tr("replaces");
    default:
      return {};
  }
}

QVariant MessageModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
  const QString names[] = {tr("Round"), tr("From rank"), tr("To rank"), tr("Elements"),
                           tr("Effect")};
  return section >= 0 && section < kColumns ? QVariant(names[section]) : QVariant();
}

}  // namespace lockstep::ui
