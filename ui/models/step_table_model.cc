#include "ui/models/step_table_model.h"

#include <QLocale>
#include <cmath>

#include "ui/theme/format.h"

namespace lockstep::ui {

StepTableModel::StepTableModel(const app::StepMatrix& steps, QObject* parent)
    : QAbstractTableModel(parent), steps_(steps) {}

void StepTableModel::setMeasure(app::StepMeasure measure) {
  measure_ = measure;
  if (rows_ > 0 && columns_ > 0) Q_EMIT dataChanged(index(0, 0), index(rows_ - 1, columns_ - 1));
}

void StepTableModel::refresh() {
  const int rows = static_cast<int>(steps_.steps()), columns = steps_.ranks();
  if (columns != columns_) {
    beginResetModel();
    rows_ = rows;
    columns_ = columns;
    endResetModel();
  } else if (rows > rows_) {
    beginInsertRows({}, rows_, rows - 1);
    rows_ = rows;
    endInsertRows();
  }
}

void StepTableModel::retranslate() {
  if (columns_ > 0) Q_EMIT headerDataChanged(Qt::Horizontal, 0, columns_ - 1);
}

int StepTableModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : rows_;
}
int StepTableModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : columns_;
}

QVariant StepTableModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  if (role == Qt::TextAlignmentRole) return int(Qt::AlignRight | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  const double seconds =
      static_cast<double>(steps_.seconds(measure_, index.column(), index.row() + 1));
  return std::isnan(seconds) ? QString(QChar(0x2014)) : formatSeconds(seconds);
}

QVariant StepTableModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (role == Qt::TextAlignmentRole) return int(Qt::AlignRight | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  return orientation == Qt::Horizontal ? tr("rank %1").arg(section)
                                       : QLocale().toString(section + 1);
}

}  // namespace lockstep::ui
