// Ranks and nodes of a run by the time that the others waited for them. CostModel: a row for each,
// the costliest first. PeerModel: figures of one rank beside the median of the others.
#pragma once

#include <QAbstractTableModel>
#include <vector>

#include "app/runs/rank_costs.h"

namespace lockstep::ui {

class CostModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { kName, kNode, kSeconds, kShare, kPhase, kLate, kWithout, kColumns };
  using QAbstractTableModel::QAbstractTableModel;

  // `replayed`: by row what a replay says of a step without it, NaN: nothing; or empty.
  void setCosts(std::vector<app::RankCost> costs, std::vector<double> replayed = {});
  bool isReplayed() const { return !replayed_.empty(); }
  const app::RankCost* at(int row) const;  // null: there is none
  int rowOf(int rank) const;               // −1: there is none
  void retranslate();

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  QString withoutText(int row) const;

  std::vector<app::RankCost> costs_;
  std::vector<double> replayed_;
};

class PeerModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { kFigure, kOwn, kPeers, kFactor, kColumns };
  using QAbstractTableModel::QAbstractTableModel;

  void setFigures(std::vector<app::PeerFigure> figures, int rank);
  void retranslate();

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  std::vector<app::PeerFigure> figures_;
  int rank_ = 0;
};

}  // namespace lockstep::ui
