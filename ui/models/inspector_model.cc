#include "ui/models/inspector_model.h"

#include <QFont>

#include "app/history/run_row.h"
#include "app/runs/energy.h"
#include "app/runs/run_environment.h"
#include "ui/theme/format.h"
#include "ui/theme/message_text.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {

namespace {

QVector<InspectorRow> energyPartRows(const app::RunEnergy& drawn) {
  QVector<InspectorRow> out;
  const double all = drawn.energy.joules();
  if (all <= 0) return out;
  const app::EnergyPhases& phases = drawn.phases;
  const bool known = phases.joules() > 0;
  const auto part = [&](const QString& name, double joules) {
    if (!known) return;
    out << InspectorRow{
        name, QString("%1 (%2)").arg(formatEnergy(joules), formatPercent(joules / all, 0))};
  };
  part(InspectorModel::tr("Energy: computing"), phases.compute);
  part(InspectorModel::tr("Energy: communication"), phases.transfer);
  part(InspectorModel::tr("Energy: waiting"), phases.waiting);
  part(InspectorModel::tr("Energy: other"), phases.other);
  if (const double step = drawn.stepJoules(); step > 0)
    out << InspectorRow{InspectorModel::tr("Energy per step"), formatEnergy(step)};
  if (const double epoch = drawn.epochJoules(); epoch > 0)
    out << InspectorRow{InspectorModel::tr("Energy per epoch"), formatEnergy(epoch)};
  if (drawn.predictedJoules)
    out << InspectorRow{InspectorModel::tr("Predicted energy of its steps"),
                        formatEnergy(*drawn.predictedJoules)};
  return out;
}

}  // namespace

QVector<InspectorRow> energyRows(const app::RunRow& row, const app::RunEnergy* drawn) {
  app::RunFigures figures = row.figures;
  if (drawn && figures.joules <= 0) (void)app::setEnergy(drawn->energy, figures);
  QVector<InspectorRow> out;
  if (figures.joules > 0)
    out << InspectorRow{InspectorModel::tr("Energy"), formatEnergy(figures.joules)};
  if (figures.cost > 0)
    out << InspectorRow{InspectorModel::tr("Cost"), formatMoney(figures.cost, figures.currency)};
  if (figures.carbonGrams > 0)
    out << InspectorRow{InspectorModel::tr("CO2 equivalent"), formatCarbon(figures.carbonGrams)};
  if (const double point = app::pointJoules(row, figures.joules); point > 0)
    out << InspectorRow{InspectorModel::tr("Energy per point of accuracy"), formatEnergy(point)};
  if (drawn) out << energyPartRows(*drawn);
  return out;
}

QVector<InspectorRow> environmentRows(const std::vector<app::EnvironmentField>& fields) {
  QVector<InspectorRow> out;
  if (!fields.empty()) out << InspectorRow{InspectorModel::tr("Environment"), {}, true};
  for (const app::EnvironmentField& field : fields)
    out << InspectorRow{messageText(app::environmentTitle(field.name)),
                        QString::fromStdString(field.value)};
  return out;
}

QVector<InspectorRow> remarkRows(const std::vector<Message>& remarks) {
  QVector<InspectorRow> out;
  if (remarks.empty()) return out;
  out << InspectorRow{InspectorModel::tr("Remarks at the launch"), {}, true};
  for (const Message& remark : remarks) out << InspectorRow{{}, messageText(remark)};
  return out;
}

void InspectorModel::setRows(QVector<InspectorRow> given) {
  constexpr int kLong = 60;  // characters
  QVector<InspectorRow> rows;
  for (InspectorRow& row : given) {
    if (row.heading || row.name.isEmpty() || row.value.size() <= kLong) {
      rows << std::move(row);
    } else {
      rows << InspectorRow{row.name, {}} << InspectorRow{{}, row.value};
    }
  }
  if (rows == rows_) return;
  // Live values: same names, other values.
  bool sameNames = rows.size() == rows_.size();
  for (int i = 0; sameNames && i < rows.size(); ++i) {
    sameNames = rows[i].name == rows_[i].name && rows[i].heading == rows_[i].heading;
  }
  if (sameNames) {
    rows_ = std::move(rows);
    Q_EMIT dataChanged(index(0, 0), index(static_cast<int>(rows_.size()) - 1, 1));
    return;
  }
  beginResetModel();
  rows_ = std::move(rows);
  endResetModel();
}

int InspectorModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}
int InspectorModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : 2;
}

QVariant InspectorModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rows_.size()) return {};
  const InspectorRow& row = rows_[index.row()];
  switch (role) {
    case Qt::DisplayRole:
      return index.column() == 0 && !row.name.isEmpty() ? row.name : row.value;
    case Qt::TextAlignmentRole:
      return row.name.isEmpty() ? int(Qt::AlignLeft | Qt::AlignTop)
                                : int(Qt::AlignLeft | Qt::AlignVCenter);
    case Qt::ToolTipRole:
      return index.column() == 1 || row.name.isEmpty() ? row.value : QString();
    case Qt::ForegroundRole:
      return index.column() == 0 && !row.heading && !row.name.isEmpty()
                 ? QVariant(Theme::instance().color("muted"))
                 : QVariant();
    case Qt::FontRole: {
      if (!row.heading) return {};
      QFont font;
      font.setWeight(QFont::DemiBold);
      return font;
    }
    default:
      return {};
  }
}

}  // namespace lockstep::ui
