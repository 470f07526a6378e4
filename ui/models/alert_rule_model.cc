#include "ui/models/alert_rule_model.h"

#include "ui/theme/message_text.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {
namespace {

bool isField(int column) {
  return column >= AlertRuleModel::kThreshold && column <= AlertRuleModel::kHold;
}
bool isAction(int column) {
  return column >= AlertRuleModel::kNotification && column <= AlertRuleModel::kWebhook;
}
std::size_t fieldOf(int column) {
  return static_cast<std::size_t>(column - AlertRuleModel::kThreshold);
}
std::size_t actionOf(int column) {
  return static_cast<std::size_t>(column - AlertRuleModel::kNotification);
}
app::AlertRule ruleOf(const QModelIndex& index) { return static_cast<app::AlertRule>(index.row()); }
QString numberText(double value) { return QString::fromStdString(fmt::format("{}", value)); }

}  // namespace

void AlertRuleModel::setSettings(const app::AlertSettings& settings) {
  settings_ = settings;
  Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
}

void AlertRuleModel::retranslate() {
  Q_EMIT headerDataChanged(Qt::Horizontal, 0, kColumns - 1);
  Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
}

int AlertRuleModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(app::kAlertRules);
}
int AlertRuleModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kColumns;
}

QVariant AlertRuleModel::checkState(const app::AlertRuleSettings& rule, int column) const {
  if (column == kRule) return int(rule.enabled ? Qt::Checked : Qt::Unchecked);
  if (isAction(column)) return int(rule.actions[actionOf(column)] ? Qt::Checked : Qt::Unchecked);
  return {};
}

QVariant AlertRuleModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount()) return {};
  const app::AlertRuleInfo& info = app::alertRuleInfo(ruleOf(index));
  const app::AlertRuleSettings& rule = settings_.of(info.rule);
  const int column = index.column();
  const bool hasField = isField(column) && !info.fields[fieldOf(column)].unit.empty();
  switch (role) {
    case Qt::DisplayRole:
      if (column == kRule) return messageText(info.title);
      if (hasField)
        return QString("%1 %2").arg(numberText(rule.values[fieldOf(column)]),
                                    messageText(info.fields[fieldOf(column)].unit));
      return isField(column) ? QVariant(QString(QChar(0x2013))) : QVariant();
    case Qt::EditRole:
      return hasField ? QVariant(numberText(rule.values[fieldOf(column)])) : QVariant();
    case Qt::CheckStateRole:
      return checkState(rule, column);
    case Qt::ToolTipRole:
      return messageText(info.help);
    case Qt::AccessibleTextRole:
      return column == kRule
                 ? messageText(info.title)
                 : QString("%1, %2: %3")
                       .arg(messageText(info.title),
                            headerData(column, Qt::Horizontal, Qt::DisplayRole).toString(),
                            index.data(Qt::DisplayRole).toString());
    case Qt::ForegroundRole:
      return rule.enabled ? QVariant() : QVariant(Theme::instance().color("muted"));
    default:
      return {};
  }
}

bool AlertRuleModel::setData(const QModelIndex& index, const QVariant& value, int role) {
  if (!index.isValid() || index.row() >= rowCount()) return false;
  const app::AlertRule which = ruleOf(index);
  app::AlertRuleSettings& rule = settings_.of(which);
  const int column = index.column();
  if (role == Qt::CheckStateRole && column == kRule) {
    rule.enabled = value.toInt() == Qt::Checked;
  } else if (role == Qt::CheckStateRole && isAction(column)) {
    rule.actions[actionOf(column)] = value.toInt() == Qt::Checked;
  } else if (role == Qt::EditRole && isField(column)) {
    const auto number = app::alertFieldValue(which, static_cast<app::AlertField>(fieldOf(column)),
                                             value.toString().trimmed().toStdString());
    if (!number.ok()) {
      Q_EMIT refused(number.error());
      return false;
    }
    rule.values[fieldOf(column)] = *number;
  } else {
    return false;
  }
  Q_EMIT dataChanged(index.siblingAtColumn(0), index.siblingAtColumn(kColumns - 1));
  Q_EMIT edited();
  return true;
}

QVariant AlertRuleModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (role == Qt::TextAlignmentRole) return int(Qt::AlignLeft | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  switch (section) {
    case kRule:
      return tr("Rule");
    case kThreshold:
      return tr("Threshold");
    case kWindow:
      return tr("Window");
    case kHold:
      return tr("Hold");
    case kNotification:
      return tr("Notify");
    case kCommand:
      return tr("Command");
    case kWebhook:
      return tr("Webhook");
    default:
      return {};
  }
}

Qt::ItemFlags AlertRuleModel::flags(const QModelIndex& index) const {
  Qt::ItemFlags flags = QAbstractTableModel::flags(index);
  if (!index.isValid()) return flags;
  const int column = index.column();
  if (column == kRule || isAction(column)) flags |= Qt::ItemIsUserCheckable;
  if (isField(column) && !app::alertRuleInfo(ruleOf(index)).fields[fieldOf(column)].unit.empty())
    flags |= Qt::ItemIsEditable;
  return flags;
}

}  // namespace lockstep::ui
