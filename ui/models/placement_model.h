// PlacementModel: the placement of a plan, one row per rank: node, device, samples, memory, time.
#pragma once

#include <QAbstractTableModel>
#include <vector>

#include "app/runs/preview.h"

namespace lockstep::ui {

class PlacementModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  enum Column {
    kRank,
    kNode,
    kDevice,
    kThreads,
    kSamples,
    kParameters,
    kOptimizer,
    kGradients,
    kActivations,
    kTotal,
    kColumns
  };
  using QAbstractTableModel::QAbstractTableModel;
  // Of a program of the user's own only the columns up to kThreads are there.
  void setRanks(std::vector<app::RankPreview> ranks, bool ofProgram = false);
  void retranslate();
  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  std::vector<app::RankPreview> ranks_;
  bool ofProgram_ = false;
};

}  // namespace lockstep::ui
