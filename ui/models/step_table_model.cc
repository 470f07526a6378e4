#include "ui/models/step_table_model.h"

#include <QCoreApplication>
#include <QLocale>
#include <cmath>

#include "ui/models/gpu_text.h"
#include "ui/theme/format.h"

namespace lockstep::ui {

QString measureName(app::StepMeasure measure) {
  static const char* const names[] = {
      QT_TRANSLATE_NOOP("lockstep::ui::StepsPanel", "Step time"),
      QT_TRANSLATE_NOOP("lockstep::ui::StepsPanel", "Data"),
      QT_TRANSLATE_NOOP("lockstep::ui::StepsPanel", "Forward"),
      QT_TRANSLATE_NOOP("lockstep::ui::StepsPanel", "Backward"),
      QT_TRANSLATE_NOOP("lockstep::ui::StepsPanel", "Waiting"),
      QT_TRANSLATE_NOOP("lockstep::ui::StepsPanel", "Transfer"),
      QT_TRANSLATE_NOOP("lockstep::ui::StepsPanel", "Optimizer"),
      QT_TRANSLATE_NOOP("lockstep::ui::StepsPanel", "Compute"),
      QT_TRANSLATE_NOOP("lockstep::ui::StepsPanel", "Communication"),
      QT_TRANSLATE_NOOP("lockstep::ui::StepsPanel", "GPU clock")};
  return QCoreApplication::translate("lockstep::ui::StepsPanel",
                                     names[static_cast<std::size_t>(measure)]);
}

QString measureText(app::StepMeasure measure, double value) {
  return measure == app::StepMeasure::kGpuClock ? clockText(value, {}) : formatSeconds(value);
}

StepTableModel::StepTableModel(const app::StepMatrix& steps, QObject* parent)
    : QAbstractTableModel(parent), steps_(steps) {}

void StepTableModel::setMeasure(app::StepMeasure measure) {
  measure_ = measure;
  if (rows_ > 0 && columns_ > 0) Q_EMIT dataChanged(index(0, 0), index(rows_ - 1, columns_ - 1));
}

void StepTableModel::refresh() {
  const int rows = static_cast<int>(steps_.cells()), columns = steps_.ranks();
  if (columns != columns_ || steps_.stride() != stride_) {
    beginResetModel();
    rows_ = rows;
    columns_ = columns;
    stride_ = steps_.stride();
    endResetModel();
    return;
  }
  const int before = rows_;
  if (rows > before) {
    beginInsertRows({}, before, rows - 1);
    rows_ = rows;
    endInsertRows();
  }
  // Any of the others may have got values of another rank.
  if (before > 0 && columns_ > 0) Q_EMIT dataChanged(index(0, 0), index(before - 1, columns_ - 1));
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
  const double value =
      static_cast<double>(steps_.value(measure_, index.column(), firstStep(index.row())));
  return std::isnan(value) ? QString(QChar(0x2014)) : measureText(measure_, value);
}

QVariant StepTableModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (role == Qt::TextAlignmentRole) return int(Qt::AlignRight | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  if (orientation == Qt::Horizontal) return tr("rank %1").arg(section);
  const auto [first, last] = steps_.stepsOf(firstStep(section));
  const QString step = QLocale().toString(static_cast<qlonglong>(first));
  return first == last ? step
                       : step + QChar(0x2013) + QLocale().toString(static_cast<qlonglong>(last));
}

}  // namespace lockstep::ui
