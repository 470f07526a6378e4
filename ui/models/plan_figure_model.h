// PlanFigureModel: the figures of a training step of a plan, alone or beside those of another one.
#pragma once

#include <QAbstractTableModel>
#include <optional>
#include <vector>

#include "app/runs/plan_figures.h"

namespace lockstep::ui {

class PlanFigureModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { kName, kPlan, kOther, kDifference, kColumns };
  using QAbstractTableModel::QAbstractTableModel;

  // `other` left out: the figures of `plan` alone.
  void setFigures(const std::vector<app::PlanFigure>& plan,
                  const std::optional<std::vector<app::PlanFigure>>& other = {});
  void retranslate();
  bool differs(int row) const;  // as it is shown

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  std::vector<app::FigurePair> figures_;
  bool hasOther_ = false;
};

}  // namespace lockstep::ui
