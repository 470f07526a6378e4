#include "ui/models/link_matrix_model.h"

#include <QFont>
#include <cmath>
#include <utility>

#include "ui/theme/format.h"
#include "ui/theme/message_text.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {
namespace {

// Black or white, whichever has more contrast to the fill: decided by the relative luminance of
// WCAG 2.
QColor textOn(const QColor& fill) {
  constexpr float kMiddle = 0.179f;  // where both have the same
  const auto linear = [](float share) {
    return share <= 0.04045f ? share / 12.92f : std::pow((share + 0.055f) / 1.055f, 2.4f);
  };
  const float luminance = 0.2126f * linear(fill.redF()) + 0.7152f * linear(fill.greenF()) +
                          0.0722f * linear(fill.blueF());
  return luminance > kMiddle ? Qt::black : Qt::white;
}

}  // namespace

LinkMatrixModel::LinkMatrixModel(QObject* parent) : QAbstractTableModel(parent) {
  connect(&Theme::instance(), &Theme::changed, this, [this] {
    colors_ = ColorMap(ColorMap::Kind::kDiverging);
    if (size() > 0) Q_EMIT dataChanged(index(0, 0), index(size() - 1, size() - 1));
  });
}

void LinkMatrixModel::setMatrix(app::LinkMatrix matrix) {
  beginResetModel();
  matrix_ = std::move(matrix);
  endResetModel();
}

int LinkMatrixModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : size();
}
int LinkMatrixModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : size();
}

QString LinkMatrixModel::name(int node) const {
  return QString::fromStdString(matrix_.nodes[static_cast<std::size_t>(node)]);
}

QString LinkMatrixModel::valueText(double value) const {
  return matrix_.kind == app::PreflightValue::Kind::kBandwidth ? formatRate(value)
                                                               : formatSeconds(value);
}

QString LinkMatrixModel::sentence(const QModelIndex& index) const {
  if (index.row() == index.column()) return {};
  const auto& cell =
      matrix_.at(static_cast<std::size_t>(index.row()), static_cast<std::size_t>(index.column()));
  const QString from = name(index.row()), to = name(index.column());
  if (!cell) return tr("link %1 → %2 was not measured").arg(from, to);
  if (cell->grade == app::PreflightValue::Grade::kWeak) return messageText(weakText(*cell));
  return tr("link %1 → %2: %3, the median is %4")
      .arg(from, to, valueText(cell->value), valueText(matrix_.median));
}

// The scale ends at twice and half the median.
QColor LinkMatrixModel::fill(const app::PreflightValue& value) const {
  return QColor(colors_.at(static_cast<float>(matrix_.log2Slowdown(value))));
}

QVariant LinkMatrixModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const auto& cell =
      matrix_.at(static_cast<std::size_t>(index.row()), static_cast<std::size_t>(index.column()));
  const bool isWeak = cell && cell->grade == app::PreflightValue::Grade::kWeak;
  switch (role) {
    case Qt::DisplayRole: {
      if (index.row() == index.column()) return {};
      if (!cell) return QString(QChar(0x2014));
      return isWeak ? "! " + valueText(cell->value) : valueText(cell->value);
    }
    case Qt::TextAlignmentRole:
      return int(Qt::AlignRight | Qt::AlignVCenter);
    case Qt::BackgroundRole:
      return cell ? QVariant(fill(*cell)) : QVariant();
    case Qt::ForegroundRole:
      return cell ? QVariant(textOn(fill(*cell))) : QVariant();
    case Qt::FontRole: {
      if (!isWeak) return {};
      QFont bold;
      bold.setBold(true);
      return bold;
    }
    case Qt::ToolTipRole:
    case Qt::AccessibleTextRole:
      return sentence(index);
    default:
      return {};
  }
}

QVariant LinkMatrixModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (section < 0 || section >= size()) return {};
  if (role == Qt::TextAlignmentRole) return int(Qt::AlignRight | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  return orientation == Qt::Horizontal ? tr("to %1").arg(name(section))
                                       : tr("from %1").arg(name(section));
}

}  // namespace lockstep::ui
