// AlertModel: the alerts of the studio, newest first, at most 500, stored across restarts.
// Their texts are messages, so that they follow the language.
#pragma once

#include <QAbstractTableModel>
#include <QDateTime>
#include <deque>

#include "engine/base/message.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {

struct Alert {
  // identifies the subject: an alert with the same key is not added again; "": always added
  QString key;
  Tone tone = Tone::kNeutral;
  QString where;
  Message text;
  QDateTime when;            // null: now
  bool lasts = false;        // until resolve(key); else it happened
  QDateTime resolved;        // null: it lasts still, or merely happened
  bool interrupted = false;  // the program ended while it lasted: whether it went on is not known
};

class AlertModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  enum Column { kTime, kWhere, kText, kState, kColumns };
  static constexpr int kToneRole = Qt::UserRole + 1;
  using QAbstractTableModel::QAbstractTableModel;

  // Adds an alert; returns whether it is new. An alert that recurs after it was resolved is new.
  bool add(Alert alert);
  void resolve(const QString& key, const QDateTime& when = {});  // null: now
  void resolveOf(const QString& document);  // every alert whose key begins with it and a colon
  void clear();
  void retranslate();
  const std::deque<Alert>& alerts() const { return alerts_; }

  // Active alerts of the last session are resolved at its end; reported again, they keep their
  // start time.
  bool load(const QString& path);
  bool save(const QString& path) const;

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 Q_SIGNALS:
  void changed();

 private:
  void rowChanged(std::size_t row);
  template <typename Which>
  void resolveWhere(const Which& which, const QDateTime& when);

  std::deque<Alert> alerts_;
};

}  // namespace lockstep::ui
