// StepTableModel: the data of the heat map as a table: one row per step, or per cell of several
// steps, one column per rank.
#pragma once

#include <QAbstractTableModel>

#include "app/runs/step_matrix.h"

namespace lockstep::ui {

QString measureName(app::StepMeasure measure);                // "Forward"; of those with a name
QString measureText(app::StepMeasure measure, double value);  // "12 ms", "1,980 MHz"

class StepTableModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  // The matrix outlives the model.
  StepTableModel(const app::StepMatrix& steps, QObject* parent = nullptr);

  void setMeasure(app::StepMeasure measure);
  void refresh();  // call after the matrix has grown
  void retranslate();
  qint64 firstStep(int row) const { return row * stride_ + 1; }

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  const app::StepMatrix& steps_;
  app::StepMeasure measure_ = app::StepMeasure::kCompute;
  int rows_ = 0, columns_ = 0;
  std::int64_t stride_ = 1;  // steps of a row
};

}  // namespace lockstep::ui
