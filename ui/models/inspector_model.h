// InspectorModel: names and values of the selected object. Headings and long values span both
// columns, a long value in a row under its name.
#pragma once

#include <QAbstractTableModel>
#include <QString>
#include <QVector>
#include <vector>

#include "engine/base/message.h"

namespace lockstep::app {
struct EnvironmentField;
struct RunEnergy;
struct RunRow;
}  // namespace lockstep::app

namespace lockstep::ui {

struct InspectorRow {
  QString name, value;
  bool heading = false;
  bool operator==(const InspectorRow&) const = default;
};

// Energy, cost and carbon of a run, and what a point of accuracy took, as far as they are known;
// with `drawn` also its parts by what ranks do, of a step and an epoch, and as predicted.
QVector<InspectorRow> energyRows(const app::RunRow& row, const app::RunEnergy* drawn);
// Remarks that were made at the launch, such as why auto chose the strategy.
QVector<InspectorRow> remarkRows(const std::vector<Message>& remarks);
// What the run's nodes were, under a heading; none: it is not known.
QVector<InspectorRow> environmentRows(const std::vector<app::EnvironmentField>& fields);

class InspectorModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  using QAbstractTableModel::QAbstractTableModel;
  void setRows(QVector<InspectorRow> rows);
  bool spans(int row) const { return rows_[row].heading || rows_[row].name.isEmpty(); }
  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;

 private:
  QVector<InspectorRow> rows_;
};

}  // namespace lockstep::ui
