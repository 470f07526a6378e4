// RebalanceModel: the ranks of a run, what each takes for a sample, and its samples now and as
// proposed.
#pragma once

#include <QAbstractTableModel>
#include <vector>

#include "app/runs/rebalance.h"

namespace lockstep::ui {

class RebalanceModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { kRank, kNode, kSample, kSamples, kSeconds, kProposed, kProposedSeconds, kColumns };
  using QAbstractTableModel::QAbstractTableModel;

  void setRanks(std::vector<app::RankSpeed> ranks);
  void retranslate();

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  std::vector<app::RankSpeed> ranks_;
};

}  // namespace lockstep::ui
