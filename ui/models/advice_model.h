// AdviceModel: the best strategies of a search, side by side, and why each stands where it does.
#pragma once

#include <QAbstractTableModel>
#include <vector>

#include "app/advice/advice.h"

namespace lockstep::ui {

class AdviceModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { kStrategy, kStep, kBubble, kMemory, kWire, kLink, kEnergy, kCost, kWhy, kColumns };
  using QAbstractTableModel::QAbstractTableModel;

  void setStrategies(std::vector<app::AdvisedStrategy> strategies);  // the best first
  const std::vector<app::AdvisedStrategy>& strategies() const { return strategies_; }
  bool hasCosts() const;  // any of them
  void retranslate();

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  QString text(const app::AdvisedStrategy& one, int column) const;

  std::vector<app::AdvisedStrategy> strategies_;
};

}  // namespace lockstep::ui
