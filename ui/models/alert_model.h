// AlertModel: what the studio has to say besides a page's own message: newest first, kept to 500.
#pragma once

#include <QAbstractTableModel>
#include <QDateTime>
#include <deque>

#include "ui/theme/theme.h"

namespace lockstep::ui {

class AlertModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  enum Column { kTime, kWhere, kText, kColumns };
  static constexpr int kToneRole = Qt::UserRole + 1;
  using QAbstractTableModel::QAbstractTableModel;
  void add(Tone tone, const QString& where, const QString& text);
  void clear();
  void retranslate();
  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  struct Alert {
    QDateTime when;
    Tone tone;
    QString where, text;
  };
  std::deque<Alert> alerts_;
};

}  // namespace lockstep::ui
