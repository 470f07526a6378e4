// AlertModel: what the studio has to say besides a page's own message: newest first, kept to 500,
// and kept from one start to the next. Texts are English and shown through messageText(), so that a
// change of language reaches old ones too.
#pragma once

#include <QAbstractTableModel>
#include <QDateTime>
#include <deque>

#include "ui/theme/theme.h"

namespace lockstep::ui {

struct Alert {
  // what it is about: told again with the same key it stays as it is; "": told once
  QString key;
  Tone tone = Tone::kNeutral;
  QString where, text;
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

  // Whether it is new. What was resolved and comes again is new, and has a time of its own.
  bool add(Alert alert);
  void resolve(const QString& key);
  void resolveOf(const QString& document);  // every alert whose key begins with it and a colon
  void clear();
  void retranslate();
  const std::deque<Alert>& alerts() const { return alerts_; }

  // What lasted when the program ended is resolved as of then; told again it lasts since it began.
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
  void resolveWhere(const Which& which);

  std::deque<Alert> alerts_;
};

}  // namespace lockstep::ui
