// PreflightModel: the values that a pre-flight measured, weak ones first, one row per value.
#pragma once

#include <QAbstractTableModel>

#include "app/cluster/preflight.h"

namespace lockstep::ui {

class PreflightModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { kWhat, kNode, kPeer, kValue, kUsual, kGrade, kColumns };
  static constexpr int kToneRole = Qt::UserRole + 1;
  using QAbstractTableModel::QAbstractTableModel;

  void setResult(app::PreflightResult result);
  const app::PreflightResult& result() const { return result_; }
  void retranslate();

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  app::PreflightResult result_;
};

}  // namespace lockstep::ui
