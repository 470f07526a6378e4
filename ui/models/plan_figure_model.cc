#include "ui/models/plan_figure_model.h"

#include <QCoreApplication>
#include <QFont>
#include <cmath>
#include <map>

#include "ui/theme/format.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {
namespace {

using Unit = app::PlanFigure::Unit;

QString valueText(Unit unit, double value) {
  switch (unit) {
    case Unit::kSeconds:
      return formatSeconds(value);
    case Unit::kBytes:
      return formatBytes(value);
    case Unit::kFlops:
      return formatFlops(value);
    case Unit::kJoules:
      return formatEnergy(value);
    case Unit::kPerSecond:
      return formatCount(std::llround(value)) + "/s";
    case Unit::kCount:
      break;
  }
  return formatCount(std::llround(value));
}

// Of those without a part that names an operation and a mesh axis.
const std::map<std::string, const char*>& knownNames() {
  static const std::map<std::string, const char*> names{
      {"step", QT_TRANSLATE_NOOP("lockstep::ui::PlanFigureModel", "Step")},
      {"samples", QT_TRANSLATE_NOOP("lockstep::ui::PlanFigureModel", "Samples")},
      {"ranks", QT_TRANSLATE_NOOP("lockstep::ui::PlanFigureModel", "Ranks")},
      {"time/data", QT_TRANSLATE_NOOP("lockstep::ui::PlanFigureModel", "Time: data")},
      {"time/forward", QT_TRANSLATE_NOOP("lockstep::ui::PlanFigureModel", "Time: forward")},
      {"time/backward", QT_TRANSLATE_NOOP("lockstep::ui::PlanFigureModel", "Time: backward")},
      {"time/optimizer", QT_TRANSLATE_NOOP("lockstep::ui::PlanFigureModel", "Time: optimizer")},
      {"time/waiting", QT_TRANSLATE_NOOP("lockstep::ui::PlanFigureModel", "Time: waiting")},
      {"time/exchanging", QT_TRANSLATE_NOOP("lockstep::ui::PlanFigureModel", "Time: exchanging")},
      {"time/exchanging, hidden",
       QT_TRANSLATE_NOOP("lockstep::ui::PlanFigureModel", "Time: exchanging, hidden")},
      {"energy", QT_TRANSLATE_NOOP("lockstep::ui::PlanFigureModel", "Energy")},
      {"memory", QT_TRANSLATE_NOOP("lockstep::ui::PlanFigureModel", "Memory")},
      {"memory/parameters",
       QT_TRANSLATE_NOOP("lockstep::ui::PlanFigureModel", "Memory: parameters")},
      {"memory/optimizer", QT_TRANSLATE_NOOP("lockstep::ui::PlanFigureModel", "Memory: optimizer")},
      {"memory/gradients", QT_TRANSLATE_NOOP("lockstep::ui::PlanFigureModel", "Memory: gradients")},
      {"memory/activations",
       QT_TRANSLATE_NOOP("lockstep::ui::PlanFigureModel", "Memory: activations")},
      {"memory/workspace", QT_TRANSLATE_NOOP("lockstep::ui::PlanFigureModel", "Memory: workspace")},
      {"operations", QT_TRANSLATE_NOOP("lockstep::ui::PlanFigureModel", "Operations")},
      {"computation", QT_TRANSLATE_NOOP("lockstep::ui::PlanFigureModel", "Computation")},
      {"memory traffic", QT_TRANSLATE_NOOP("lockstep::ui::PlanFigureModel", "Memory traffic")},
      {"busiest link", QT_TRANSLATE_NOOP("lockstep::ui::PlanFigureModel", "Busiest link")},
  };
  return names;
}

QString nameText(const std::string& name) {
  if (const auto known = knownNames().find(name); known != knownNames().end())
    return QCoreApplication::translate("lockstep::ui::PlanFigureModel", known->second);
  const QString text = QString::fromStdString(name), rest = text.section('/', 1);
  if (text.startsWith("exchanges/")) return PlanFigureModel::tr("Exchanges: %1").arg(rest);
  if (text.startsWith("sent/")) return PlanFigureModel::tr("Sent: %1").arg(rest);
  return text;
}

}  // namespace

void PlanFigureModel::setFigures(const std::vector<app::PlanFigure>& plan,
                                 const std::optional<std::vector<app::PlanFigure>>& other) {
  beginResetModel();
  hasOther_ = other.has_value();
  figures_ = app::sideBySide(plan, other.value_or(std::vector<app::PlanFigure>()));
  endResetModel();
}

void PlanFigureModel::retranslate() {
  Q_EMIT headerDataChanged(Qt::Horizontal, 0, columnCount() - 1);
  if (rowCount() > 0) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, columnCount() - 1));
}

bool PlanFigureModel::differs(int row) const {
  const app::FigurePair& one = figures_[static_cast<std::size_t>(row)];
  return hasOther_ && valueText(one.unit, one.first) != valueText(one.unit, one.second);
}

int PlanFigureModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(figures_.size());
}

int PlanFigureModel::columnCount(const QModelIndex& parent) const {
  if (parent.isValid()) return 0;
  return hasOther_ ? kColumns : kOther;
}

QVariant PlanFigureModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount()) return {};
  const app::FigurePair& one = figures_[static_cast<std::size_t>(index.row())];
  switch (role) {
    case Qt::TextAlignmentRole:
      return int((index.column() == kName ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
    case Qt::ForegroundRole:
      return hasOther_ && !differs(index.row()) ? QVariant(Theme::instance().color("muted"))
                                                : QVariant();
    case Qt::FontRole: {
      QFont font;
      if (differs(index.row())) font.setWeight(QFont::DemiBold);
      return font;
    }
    case Qt::DisplayRole:
      break;
    default:
      return {};
  }
  switch (index.column()) {
    case kName:
      return nameText(one.name);
    case kPlan:
      return valueText(one.unit, one.first);
    case kOther:
      return valueText(one.unit, one.second);
    default: {
      if (!differs(index.row()) || one.second == 0) return QString();
      const double share = one.first / one.second - 1;
      return (share > 0 ? "+" : "") + formatPercent(share, 1);
    }
  }
}

QVariant PlanFigureModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (role == Qt::TextAlignmentRole)
    return int((section == kName ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  switch (section) {
    case kName:
      return tr("A training step");
    case kPlan:
      return tr("Plan");
    case kOther:
      return tr("Other");
    case kDifference:
      return tr("Difference");
    default:
      return {};
  }
}

}  // namespace lockstep::ui
