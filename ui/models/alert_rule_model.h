// AlertRuleModel: the alert rules, one per row: enabled, threshold, window, hold time and actions.
#pragma once

#include <QAbstractTableModel>

#include "app/alerts/alert_rules.h"

namespace lockstep::ui {

class AlertRuleModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  enum Column { kRule, kThreshold, kWindow, kHold, kNotification, kCommand, kWebhook, kColumns };
  using QAbstractTableModel::QAbstractTableModel;

  void setSettings(const app::AlertSettings& settings);
  const app::AlertSettings& settings() const { return settings_; }
  void retranslate();

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  // A number outside of its range is refused.
  bool setData(const QModelIndex& index, const QVariant& value, int role = Qt::EditRole) override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
  Qt::ItemFlags flags(const QModelIndex& index) const override;

 Q_SIGNALS:
  void edited();
  void refused(const lockstep::Error& error);

 private:
  QVariant checkState(const app::AlertRuleSettings& rule, int column) const;

  app::AlertSettings settings_;
};

}  // namespace lockstep::ui
