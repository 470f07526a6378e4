#include "ui/models/advice_model.h"

#include <algorithm>

#include "ui/theme/format.h"
#include "ui/theme/message_text.h"

namespace lockstep::ui {
namespace {

constexpr double kPricedSteps = 1000;

bool isText(int column) { return column == AdviceModel::kStrategy || column == AdviceModel::kWhy; }

// What many steps cost, and their carbon; "": not known.
QString costText(const app::AdvisedStrategy& one) {
  QStringList out;
  if (one.cost > 0) out << formatMoney(kPricedSteps * one.cost, one.currency);
  if (one.carbonGrams > 0) out << formatCarbon(kPricedSteps * one.carbonGrams);
  return out.join(", ");
}

}  // namespace

bool AdviceModel::hasCosts() const {
  return std::any_of(strategies_.begin(), strategies_.end(),
                     [](const auto& one) { return !costText(one).isEmpty(); });
}

void AdviceModel::setStrategies(std::vector<app::AdvisedStrategy> strategies) {
  beginResetModel();
  strategies_ = std::move(strategies);
  endResetModel();
}

void AdviceModel::retranslate() {
  Q_EMIT headerDataChanged(Qt::Horizontal, 0, kColumns - 1);
  if (rowCount() > 0) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
}

int AdviceModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(strategies_.size());
}

int AdviceModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kColumns;
}

QString AdviceModel::text(const app::AdvisedStrategy& one, int column) const {
  const QString dash(QChar(0x2014));
  switch (column) {
    case kStrategy:
      return messageText(app::textOf(one.choice));
    case kStep:
      return formatSeconds(one.stepSeconds);
    case kBubble:
      return formatPercent(one.bubbleShare, 0);
    case kMemory:
      return formatBytes(static_cast<double>(one.memoryBytes));
    case kWire:
      return formatBytes(static_cast<double>(one.wireBytes));
    case kLink:
      return one.linkBytes > 0 ? formatBytes(static_cast<double>(one.linkBytes)) : dash;
    case kEnergy:
      return one.joules > 0 ? formatEnergy(one.joules) : dash;
    case kCost:
      return costText(one).isEmpty() ? dash : costText(one);
    case kWhy:
      return messageText(one.why);
    default:
      return {};
  }
}

QVariant AdviceModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount()) return {};
  const app::AdvisedStrategy& one = strategies_[static_cast<std::size_t>(index.row())];
  if (role == Qt::TextAlignmentRole)
    return int((isText(index.column()) ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
  if (role == Qt::ToolTipRole && isText(index.column())) return text(one, index.column());
  return role == Qt::DisplayRole ? QVariant(text(one, index.column())) : QVariant();
}

QVariant AdviceModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (role == Qt::TextAlignmentRole)
    return int((isText(section) ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
  if (role != Qt::DisplayRole && role != Qt::ToolTipRole) return {};
  const bool isTip = role == Qt::ToolTipRole;
  switch (section) {
    case kStrategy:
      return tr("Strategy");
    case kStep:
      return isTip ? tr("Predicted step time") : tr("Step");
    case kBubble:
      return isTip ? tr("Bubble: the part of a step in which ranks wait for each other, their mean")
                   : tr("Bubble");
    case kMemory:
      return isTip ? tr("Peak memory per rank") : tr("Memory");
    case kWire:
      return isTip ? tr("Traffic per rank per step") : tr("Traffic");
    case kLink:
      return isTip ? tr("Traffic per step of the busiest link between two nodes, both ways")
                   : tr("Link");
    case kEnergy:
      return isTip ? tr("Energy per step of all hosts") : tr("Energy");
    case kCost:
      return isTip ? tr("Cost and CO2 equivalent of 1,000 steps") : tr("Cost");
    case kWhy:
      return tr("Why");
    default:
      return {};
  }
}

}  // namespace lockstep::ui
