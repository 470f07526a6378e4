#include "ui/models/alert_model.h"

#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QSaveFile>
#include <algorithm>

#include "app/core/message_json.h"
#include "ui/theme/message_text.h"

namespace lockstep::ui {
namespace {

constexpr std::size_t kKept = 500;

QString timeText(const QDateTime& time) {
  return time.toString(time.date() == QDate::currentDate() ? "HH:mm:ss" : "MM-dd HH:mm:ss");
}

QJsonObject jsonOf(const Message& message) {
  return QJsonDocument::fromJson(QByteArray::fromStdString(app::toJson(message))).object();
}

// Earlier versions kept the English text alone.
Message messageOf(const QJsonObject& alert) {
  if (!alert["message"].isObject()) return alert["text"].toString().toStdString();
  return app::messageFromJson(QJsonDocument(alert["message"].toObject()).toJson().toStdString());
}

}  // namespace

void AlertModel::rowChanged(std::size_t row) {
  const int at = static_cast<int>(row);
  Q_EMIT dataChanged(index(at, 0), index(at, kColumns - 1));
  Q_EMIT changed();
}

bool AlertModel::add(Alert alert) {
  if (!alert.key.isEmpty()) {
    for (std::size_t row = 0; row < alerts_.size(); ++row) {
      Alert& known = alerts_[row];
      if (known.key != alert.key) continue;
      if (!known.resolved.isNull() && !known.interrupted) break;  // it came again
      if (known.resolved.isNull() && known.text == alert.text) return false;
      known.resolved = {};
      known.interrupted = false;
      known.text = alert.text;
      known.tone = alert.tone;
      rowChanged(row);
      return false;
    }
  }
  if (alert.when.isNull()) alert.when = QDateTime::currentDateTime();
  // One of an earlier time, told of late, takes its place.
  const auto at = std::find_if(alerts_.begin(), alerts_.end(),
                               [&](const Alert& other) { return other.when <= alert.when; });
  const auto row = static_cast<std::size_t>(at - alerts_.begin());
  if (row >= kKept) return false;
  beginInsertRows({}, static_cast<int>(row), static_cast<int>(row));
  alerts_.insert(at, std::move(alert));
  endInsertRows();
  if (alerts_.size() > kKept) {
    beginRemoveRows({}, static_cast<int>(kKept), static_cast<int>(kKept));
    alerts_.pop_back();
    endRemoveRows();
  }
  Q_EMIT changed();
  return true;
}

template <typename Which>
void AlertModel::resolveWhere(const Which& which, const QDateTime& when) {
  for (std::size_t row = 0; row < alerts_.size(); ++row) {
    if (!alerts_[row].lasts || !alerts_[row].resolved.isNull() || !which(alerts_[row].key))
      continue;
    alerts_[row].resolved = when.isNull() ? QDateTime::currentDateTime() : when;
    rowChanged(row);
  }
}
void AlertModel::resolve(const QString& key, const QDateTime& when) {
  resolveWhere([&](const QString& other) { return other == key; }, when);
}
void AlertModel::resolveOf(const QString& document) {
  resolveWhere([&](const QString& other) { return other.startsWith(document + ':'); }, {});
}

void AlertModel::clear() {
  beginResetModel();
  alerts_.clear();
  endResetModel();
  Q_EMIT changed();
}

bool AlertModel::load(const QString& path) {
  QFile file(path);
  if (!file.open(QIODevice::ReadOnly)) return false;
  const QJsonObject whole = QJsonDocument::fromJson(file.readAll()).object();
  const auto time = [](const QJsonValue& value) {
    return value.isDouble() ? QDateTime::fromMSecsSinceEpoch(static_cast<qint64>(value.toDouble()))
                            : QDateTime();
  };
  const QDateTime saved = time(whole["saved"]);
  beginResetModel();
  alerts_.clear();
  for (const QJsonValue& value : whole["alerts"].toArray()) {
    if (alerts_.size() == kKept) break;
    const QJsonObject one = value.toObject();
    Alert alert{one["key"].toString(),
                static_cast<Tone>(std::clamp(one["tone"].toInt(), 0, int(Tone::kOnAccent))),
                one["where"].toString(),
                messageOf(one),
                time(one["when"]),
                one["lasts"].toBool(),
                time(one["resolved"])};
    alert.interrupted = alert.lasts && alert.resolved.isNull();
    if (alert.interrupted) alert.resolved = saved;
    alerts_.push_back(std::move(alert));
  }
  endResetModel();
  return true;
}

bool AlertModel::save(const QString& path) const {
  QJsonArray list;
  const auto time = [](const QDateTime& at) {
    return at.isNull() ? QJsonValue() : QJsonValue(static_cast<double>(at.toMSecsSinceEpoch()));
  };
  for (const Alert& alert : alerts_) {
    list << QJsonObject{{"key", alert.key},
                        {"tone", int(alert.tone)},
                        {"where", alert.where},
                        {"message", jsonOf(alert.text)},
                        {"when", time(alert.when)},
                        {"lasts", alert.lasts},
                        {"resolved", time(alert.resolved)}};
  }
  QSaveFile file(path);
  if (!file.open(QIODevice::WriteOnly)) return false;
  file.write(
      QJsonDocument(QJsonObject{{"saved", time(QDateTime::currentDateTime())}, {"alerts", list}})
          .toJson());
  return file.commit();
}

void AlertModel::retranslate() {
  Q_EMIT headerDataChanged(Qt::Horizontal, 0, kColumns - 1);
  if (!alerts_.empty()) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
}

int AlertModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(alerts_.size());
}
int AlertModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kColumns;
}
QVariant AlertModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount()) return {};
  const Alert& alert = alerts_[static_cast<std::size_t>(index.row())];
  const bool over = !alert.resolved.isNull();
  switch (role) {
    case Qt::DisplayRole:
      switch (index.column()) {
        case kTime:
          return timeText(alert.when);
        case kWhere:
          return alert.where;
        case kText:
          return messageText(alert.text);
        case kState:
          return over          ? tr("resolved %1").arg(timeText(alert.resolved))
                 : alert.lasts ? tr("active")
                               : QString();
        default:
          return {};
      }
    case kToneRole:
      return int(over ? Tone::kNeutral : alert.tone);
    case Qt::ToolTipRole:
      return messageText(alert.text);
    case Qt::ForegroundRole:
      return index.column() != kText || over ? QVariant(Theme::instance().color("muted"))
                                             : QVariant();
    default:
      return {};
  }
}
QVariant AlertModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (role == Qt::TextAlignmentRole) return int(Qt::AlignLeft | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  switch (section) {
    case kTime:
      return tr("Time");
    case kWhere:
      return tr("Where");
    case kText:
      return tr("What");
    case kState:
      return tr("State");
    default:
      return {};
  }
}

}  // namespace lockstep::ui
