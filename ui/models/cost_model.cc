#include "ui/models/cost_model.h"

#include <QFont>
#include <algorithm>
#include <cmath>
#include <utility>

#include "ui/theme/format.h"
#include "ui/theme/theme.h"
#include "ui/widgets/breakdown_bars.h"

namespace lockstep::ui {
namespace {

const QString kNothing(QChar(0x2014));
constexpr double kApart = 1.2;  // a factor that is worth a look

// The phases of app::kCostPhases, as BreakdownBars counts them.
QString costPhaseName(const app::RankCost& cost) {
  static constexpr int phases[] = {0, 1, 2, 4, 5};
  return cost.seconds > 0 ? phaseName(phases[cost.mainPhase()]) : kNothing;
}

QString figureText(const std::string& name, double value) {
  const std::string leaf = name.substr(name.rfind('/') + 1);
  if (leaf == "memory") return formatBytes(value);
  if (leaf == "disk_busy") return formatPercent(value, 0);
  if (leaf.starts_with("disk_") || leaf.starts_with("net_")) return formatRate(value);
  if (leaf == "sm_clock") return QString("%1 MHz").arg(formatNumber(value));
  if (leaf == "temperature") return QString::fromUtf8("%1 °C").arg(formatNumber(value, 3));
  if (name == "cpu") return PeerModel::tr("%1 cores").arg(formatNumber(value, 2));
  if (leaf == "cpu" || leaf == "utilisation" || leaf == "throttled") return formatPercent(value, 0);
  return formatSeconds(value);
}

QString figureName(const std::string& name) {
  static const std::pair<const char*, const char*> names[] = {
      {"step", QT_TRANSLATE_NOOP("lockstep::ui::PeerModel", "Step")},
      {"cpu", QT_TRANSLATE_NOOP("lockstep::ui::PeerModel", "CPU of its process")},
      {"memory", QT_TRANSLATE_NOOP("lockstep::ui::PeerModel", "Memory of its process")},
      {"node/cpu", QT_TRANSLATE_NOOP("lockstep::ui::PeerModel", "CPU of its node")},
      {"node/disk_read",
       QT_TRANSLATE_NOOP("lockstep::ui::PeerModel", "Read from its node's disks")},
      {"node/disk_write",
       QT_TRANSLATE_NOOP("lockstep::ui::PeerModel", "Written to its node's disks")},
      {"node/disk_busy", QT_TRANSLATE_NOOP("lockstep::ui::PeerModel", "Use of its node's disks")},
      {"node/net_in", QT_TRANSLATE_NOOP("lockstep::ui::PeerModel", "Received by its node")},
      {"node/net_out", QT_TRANSLATE_NOOP("lockstep::ui::PeerModel", "Sent by its node")},
      {"node/gpu/utilisation",
       QT_TRANSLATE_NOOP("lockstep::ui::PeerModel", "GPU utilisation of its node")},
      {"node/gpu/sm_clock", QT_TRANSLATE_NOOP("lockstep::ui::PeerModel", "GPU clock of its node")},
      {"node/gpu/temperature",
       QT_TRANSLATE_NOOP("lockstep::ui::PeerModel", "GPU temperature of its node")},
      {"node/gpu/throttled",
       QT_TRANSLATE_NOOP("lockstep::ui::PeerModel", "GPU throttling of its node")},
  };
  for (const auto& [key, text] : names)
    if (name == key) return PeerModel::tr(text);
  static constexpr const char* phases[] = {"data",    "forward",  "backward",
                                           "waiting", "transfer", "optimizer"};
  for (int i = 0; i < kPhaseCount; ++i)
    if (name == phases[i]) return phaseName(i);
  return QString::fromStdString(name);
}

QVariant alignment(bool right) {
  return int((right ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
}

}  // namespace

void CostModel::setCosts(std::vector<app::RankCost> costs, std::vector<double> replayed) {
  const bool sameRows =
      costs.size() == costs_.size() &&
      std::equal(costs.begin(), costs.end(), costs_.begin(),
                 [](const auto& a, const auto& b) { return a.rank == b.rank && a.node == b.node; });
  if (!sameRows) beginResetModel();
  costs_ = std::move(costs);
  replayed_ = std::move(replayed);
  if (!sameRows) return endResetModel();
  if (!costs_.empty()) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
}

const app::RankCost* CostModel::at(int row) const {
  return row >= 0 && row < rowCount() ? &costs_[static_cast<std::size_t>(row)] : nullptr;
}

QString CostModel::withoutText(int row) const {
  const auto at = static_cast<std::size_t>(row);
  const bool isReplayed = at < replayed_.size() && !std::isnan(replayed_[at]);
  const QString text = formatSeconds(isReplayed ? replayed_[at] : costs_[at].withoutSeconds);
  return isReplayed || replayed_.empty() ? text : QString::fromUtf8("≈ %1").arg(text);
}

int CostModel::rowOf(int rank) const {
  for (int row = 0; row < rowCount(); ++row)
    if (costs_[static_cast<std::size_t>(row)].rank == rank) return row;
  return -1;
}

void CostModel::retranslate() {
  Q_EMIT headerDataChanged(Qt::Horizontal, 0, kColumns - 1);
  if (!costs_.empty()) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
}

int CostModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(costs_.size());
}
int CostModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kColumns;
}

QVariant CostModel::data(const QModelIndex& index, int role) const {
  const app::RankCost* cost = index.isValid() ? at(index.row()) : nullptr;
  if (cost == nullptr) return {};
  if (role == Qt::TextAlignmentRole)
    return alignment(index.column() >= kSeconds && index.column() != kPhase);
  if (role != Qt::DisplayRole) return {};
  switch (index.column()) {
    case kName:
      return cost->rank < 0 ? QString::fromStdString(cost->node) : tr("rank %1").arg(cost->rank);
    case kNode:
      return cost->rank < 0 ? QString() : QString::fromStdString(cost->node);
    case kSeconds:
      return formatSeconds(cost->seconds);
    case kShare:
      return formatPercent(cost->share, 1);
    case kPhase:
      return costPhaseName(*cost);
    case kLate:
      return cost->lateSteps == 0
                 ? kNothing
                 : tr("%1 (%2 to %3)")
                       .arg(formatCount(cost->lateSteps), formatCount(cost->firstLate),
                            formatCount(cost->lastLate));
    default:
      return withoutText(index.row());
  }
}

QVariant CostModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (role == Qt::TextAlignmentRole) return alignment(section >= kSeconds && section != kPhase);
  if (role != Qt::DisplayRole && role != Qt::ToolTipRole) return {};
  const bool tip = role == Qt::ToolTipRole;
  switch (section) {
    case kName:
      return !costs_.empty() && costs_.front().rank < 0 ? tr("Node") : tr("Rank");
    case kNode:
      return !costs_.empty() && costs_.front().rank < 0 ? QString() : tr("Node");
    case kSeconds:
      return tip ? tr("How long the other ranks waited for it") : tr("Time lost");
    case kShare:
      return tip ? tr("Of the time of all these steps") : tr("Of the time");
    case kPhase:
      return tip ? tr("The phase that took it longer than the others") : tr("Mostly in");
    case kLate:
      return tip ? tr("Steps that it made longer by a quarter, with the first and the last")
                 : tr("Late in steps");
    default:
      return !tip ? tr("Step without it")
             : replayed_.empty()
                 ? tr("The mean step, were it as fast as the others")
                 : tr("The mean step, were it as fast as the others: by a replay of the measured "
                      "steps, or (≈) by the time that the others waited");
  }
}

void PeerModel::setFigures(std::vector<app::PeerFigure> figures, int rank) {
  beginResetModel();
  figures_ = std::move(figures);
  rank_ = rank;
  endResetModel();
}

void PeerModel::retranslate() {
  beginResetModel();
  endResetModel();
}

int PeerModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(figures_.size());
}
int PeerModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kColumns;
}

QVariant PeerModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount()) return {};
  const app::PeerFigure& figure = figures_[static_cast<std::size_t>(index.row())];
  const double factor = figure.peers > 0 ? figure.own / figure.peers : std::nan("");
  const bool differs = factor >= kApart || factor <= 1 / kApart;
  if (role == Qt::TextAlignmentRole) return alignment(index.column() != kFigure);
  if (role == Qt::FontRole && differs && index.column() == kFactor) {
    QFont font;
    font.setBold(true);
    return font;
  }
  if (role != Qt::DisplayRole) return {};
  switch (index.column()) {
    case kFigure:
      return figureName(figure.name);
    case kOwn:
      return figureText(figure.name, figure.own);
    case kPeers:
      return figureText(figure.name, figure.peers);
    default:
      return std::isfinite(factor) ? QString::fromUtf8("× %1").arg(factor, 0, 'f', 2) : kNothing;
  }
}

QVariant PeerModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (role == Qt::TextAlignmentRole) return alignment(section != kFigure);
  if (role != Qt::DisplayRole) return {};
  switch (section) {
    case kFigure:
      return tr("Figure");
    case kOwn:
      return tr("Rank %1").arg(rank_);
    case kPeers:
      return tr("Median of the others");
    default:
      return tr("Factor");
  }
}

}  // namespace lockstep::ui
