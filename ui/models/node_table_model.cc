#include "ui/models/node_table_model.h"

#include <QCoreApplication>
#include <algorithm>
#include <cmath>
#include <optional>

#include "ui/models/gpu_text.h"
#include "ui/theme/format.h"

namespace lockstep::ui {

QString nodePhaseText(app::NodeState phase) {
  static const char* const names[] = {
      QT_TRANSLATE_NOOP("lockstep::ui::NodePhase", "not connected"),
      QT_TRANSLATE_NOOP("lockstep::ui::NodePhase", "connecting"),
      QT_TRANSLATE_NOOP("lockstep::ui::NodePhase", "deploying"),
      QT_TRANSLATE_NOOP("lockstep::ui::NodePhase", "starting the agent"),
      QT_TRANSLATE_NOOP("lockstep::ui::NodePhase", "connected"),
      QT_TRANSLATE_NOOP("lockstep::ui::NodePhase", "reconnecting"),
      QT_TRANSLATE_NOOP("lockstep::ui::NodePhase", "failed")};
  static_assert(std::size(names) == run::v1::NodeState_ARRAYSIZE);
  return QCoreApplication::translate("lockstep::ui::NodePhase", names[static_cast<int>(phase)]);
}

Tone nodePhaseTone(app::NodeState phase) {
  switch (phase) {
    case app::NodeState::CONNECTED:
      return Tone::kGood;
    case app::NodeState::UNAVAILABLE:
      return Tone::kBad;
    case app::NodeState::RECONNECTING:
      return Tone::kWarning;
    case app::NodeState::CONNECTING:
    case app::NodeState::STARTING:
    case app::NodeState::DEPLOYING:
      return Tone::kActive;
    default:
      return Tone::kNeutral;
  }
}

namespace {

using Figure = std::optional<double> app::GpuLoad::*;

// Over the GPUs that tell it; nothing where none does.
template <typename Fold>
std::optional<double> fold(const std::vector<app::GpuLoad>& gpus, Figure figure, Fold f) {
  std::optional<double> out;
  for (const app::GpuLoad& gpu : gpus) {
    if (gpu.*figure) out = out ? f(*out, *(gpu.*figure)) : *(gpu.*figure);
  }
  return out;
}
std::optional<double> sum(const std::vector<app::GpuLoad>& gpus, Figure figure) {
  return fold(gpus, figure, [](double a, double b) { return a + b; });
}

QString gpuText(const std::vector<app::GpuLoad>& gpus, int column) {
  using app::GpuLoad;
  switch (column) {
    case NodeTableModel::kGpu: {
      // The problem of the worst GPU, and how many others have one.
      const GpuLoad* worst = nullptr;
      int wrong = 0;
      for (const GpuLoad& gpu : gpus) {
        if (gpuTone(gpu) == Tone::kGood) continue;
        ++wrong;
        if (!worst || (gpuTone(gpu) == Tone::kBad && gpuTone(*worst) != Tone::kBad)) worst = &gpu;
      }
      if (worst) {
        const QString first = gpuTroubleText(*worst, app::troublesOf(*worst).front());
        const QString text =
            gpus.size() == 1 ? first : NodeTableModel::tr("GPU %1 %2").arg(worst->index).arg(first);
        return wrong > 1 ? QString("%1 +%2").arg(text, QString::number(wrong - 1)) : text;
      }
      return QString::fromStdString(gpus.front().name);
    }
    case NodeTableModel::kGpuUse: {
      int count = 0;
      for (const GpuLoad& gpu : gpus) count += gpu.utilisation.has_value();
      const auto all = sum(gpus, &GpuLoad::utilisation);
      return all ? formatPercent(*all / count, 0) : QString();
    }
    case NodeTableModel::kGpuMemory: {
      const auto used = sum(gpus, &GpuLoad::memoryUsed), total = sum(gpus, &GpuLoad::memoryTotal);
      return used && total ? formatShare(*used, *total) : QString();
    }
    case NodeTableModel::kGpuTemperature: {
      const auto hottest =
          fold(gpus, &GpuLoad::temperature, [](double a, double b) { return std::max(a, b); });
      return hottest ? formatCelsius(*hottest) : QString();
    }
    case NodeTableModel::kGpuClock: {
      const GpuLoad* slowest = nullptr;
      for (const GpuLoad& gpu : gpus)
        if (gpu.smClock && (!slowest || *gpu.smClock < *slowest->smClock)) slowest = &gpu;
      return slowest ? clockText(slowest->smClock, slowest->smClockMax) : QString();
    }
    case NodeTableModel::kGpuPower: {
      const auto power = sum(gpus, &GpuLoad::power);
      return power ? formatWatts(*power) : QString();
    }
    default:
      return {};
  }
}

// The value of each GPU, for a bar; empty if no GPU reports it.
QVariantList gpuFractions(const std::vector<app::GpuLoad>& gpus, int column) {
  QVariantList out;
  bool any = false;
  for (const app::GpuLoad& gpu : gpus) {
    QVariant fraction;
    if (column == NodeTableModel::kGpuUse && gpu.utilisation) fraction = *gpu.utilisation;
    if (column == NodeTableModel::kGpuMemory && gpu.memoryUsed && gpu.memoryTotal.value_or(0) > 0)
      fraction = *gpu.memoryUsed / *gpu.memoryTotal;
    if (column == NodeTableModel::kGpuPower && gpu.power && gpu.powerLimit.value_or(0) > 0)
      fraction = *gpu.power / *gpu.powerLimit;
    if (column == NodeTableModel::kGpuClock && gpu.smClock && gpu.smClockMax.value_or(0) > 0)
      fraction = *gpu.smClock / *gpu.smClockMax;
    any = any || fraction.isValid();
    out << fraction;
  }
  return any ? out : QVariantList();
}

// Ranks on one host talk past the network.
bool isLocal(const NodeRow& row) { return row.loopback > row.networkIn + row.networkOut; }
double trafficOf(const NodeRow& row) {
  return isLocal(row) ? row.loopback : row.networkIn + row.networkOut;
}

QVariantList ledShares(const NodeRow& row, int column, double mostTraffic) {
  constexpr double kHottest = 100;  // °C
  if (!row.sampled) return {};
  if (column == NodeTableModel::kCpu) return {row.cpu};
  if (column == NodeTableModel::kMemory)
    return row.memoryTotal > 0 ? QVariantList{row.memoryUsed / row.memoryTotal} : QVariantList();
  if (column == NodeTableModel::kNetwork) return {trafficOf(row) / mostTraffic};
  if (column == NodeTableModel::kDisk)
    return row.diskBusy ? QVariantList{*row.diskBusy} : QVariantList();
  if (column != NodeTableModel::kGpuTemperature) return gpuFractions(row.gpus, column);
  QVariantList out;
  for (const app::GpuLoad& gpu : row.gpus)
    out << (gpu.temperature ? QVariant(*gpu.temperature / kHottest) : QVariant());
  return out;
}

QString gpuToolTip(const std::vector<app::GpuLoad>& gpus) {
  QStringList lines;
  for (const app::GpuLoad& gpu : gpus) {
    QStringList parts{QString::fromStdString(gpu.name)};
    parts << gpuFigures(gpu);
    if (const QString notes = gpuNotes(gpu); !notes.isEmpty()) parts << notes;
    lines << NodeTableModel::tr("GPU %1: %2")
                 .arg(gpu.index)
                 .arg(parts.join(QString::fromUtf8(" · ")));
  }
  return lines.join('\n');
}

// But for the text.
QVariant gpuData(const NodeRow& row, int column, int role) {
  if (!row.sampled || row.gpus.empty())
    return role == Qt::ForegroundRole ? QVariant(Theme::instance().color("disabled")) : QVariant();
  if (role == Qt::ToolTipRole) return gpuToolTip(row.gpus);
  if (role == NodeTableModel::kFractionsRole) return gpuFractions(row.gpus, column);
  QVariantList out;
  if (role == NodeTableModel::kTonesRole && column == NodeTableModel::kGpu)
    for (const app::GpuLoad& gpu : row.gpus) out << int(gpuTone(gpu));
  else if (role == NodeTableModel::kSlowedRole)
    for (const app::GpuLoad& gpu : row.gpus) out << gpu.isSlowed();
  return out.isEmpty() ? QVariant() : QVariant(out);
}

}  // namespace

void NodeTableModel::setRows(QVector<NodeRow> rows) {
  beginResetModel();
  rows_ = std::move(rows);
  touched_.clear();
  findMostTraffic();
  endResetModel();
}

// The next of 1, 2, 5, 10, …: it seldom changes. Of idle nodes, 1 MB/s.
void NodeTableModel::findMostTraffic() {
  constexpr double kLeast = 1e6;
  double most = kLeast;
  for (const NodeRow& row : rows_)
    if (row.sampled && std::isfinite(trafficOf(row))) most = std::max(most, trafficOf(row));
  const double power = std::pow(10, std::floor(std::log10(most)));
  mostTraffic_ = (most <= power ? 1 : most <= 2 * power ? 2 : most <= 5 * power ? 5 : 10) * power;
}

int NodeTableModel::find(const QString& name) const {
  for (int i = 0; i < rows_.size(); ++i) {
    if (rows_[i].name == name) return i;
  }
  return -1;
}

NodeRow* NodeTableModel::row(const QString& name) {
  const int at = find(name);
  return at < 0 ? nullptr : &rows_[at];
}

bool NodeTableModel::anyGpu() const {
  return std::any_of(rows_.cbegin(), rows_.cend(),
                     [](const NodeRow& row) { return !row.gpus.empty(); });
}

bool NodeTableModel::update(const NodeRow& row) {
  const int at = find(row.name);
  if (at < 0) return false;
  rows_[at] = row;
  touched_ << at;
  return true;
}

void NodeTableModel::touched(const QString& name) {
  const int at = find(name);
  if (at >= 0) touched_ << at;
}

void NodeTableModel::flush() {
  if (touched_.isEmpty()) return;
  const auto [first, last] = std::minmax_element(touched_.cbegin(), touched_.cend());
  const int from = *first, to = *last;
  findMostTraffic();
  touched_.clear();
  Q_EMIT dataChanged(index(from, 0), index(to, kColumns - 1));
}

void NodeTableModel::retranslate() {
  Q_EMIT headerDataChanged(Qt::Horizontal, 0, kColumns - 1);
  if (!rows_.isEmpty()) {
    Q_EMIT dataChanged(index(0, 0), index(static_cast<int>(rows_.size()) - 1, kColumns - 1));
  }
}

int NodeTableModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}
int NodeTableModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kColumns;
}

QVariant NodeTableModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rows_.size()) return {};
  const NodeRow& row = rows_[index.row()];
  const QString dash(QChar(0x2014));
  if (role == Qt::DisplayRole) {
    switch (index.column()) {
      case kName:
        return row.name;
      case kState:
        if (row.asking) return tr("waiting for your input");
        if (row.phase == app::NodeState::DEPLOYING && !row.detail.isEmpty()) return row.detail;
        return nodePhaseText(row.phase);
      case kCpu:
        return row.sampled ? formatPercent(row.cpu, 0) : dash;
      case kMemory:
        return row.sampled ? formatShare(row.memoryUsed, row.memoryTotal) : dash;
      case kGpu:
      case kGpuUse:
      case kGpuMemory:
      case kGpuTemperature:
      case kGpuPower:
      case kGpuClock: {
        const QString text =
            row.sampled && !row.gpus.empty() ? gpuText(row.gpus, index.column()) : QString();
        return text.isEmpty() ? dash : text;
      }
      case kNetwork:
        if (row.sampled && isLocal(row)) return tr("loopback %1").arg(formatRate(row.loopback));
        return row.sampled ? QString::fromUtf8("↓ %1  ↑ %2")
                                 .arg(formatRate(row.networkIn), formatRate(row.networkOut))
                           : dash;
      case kDisk:
        return row.sampled ? tr("%1 free").arg(formatBytes(row.diskFree)) : dash;
      case kRanks:
        return row.ranks;
      case kTarget:
        return row.target;
      case kAgent:
        return row.version.isEmpty() ? dash : row.version.left(12);
      default:
        return {};
    }
  }
  if (role == kLedsRole) return ledShares(row, index.column(), mostTraffic_);
  if (role == Qt::ForegroundRole && !row.sampled &&
      (index.column() >= kCpu && index.column() <= kDisk)) {
    return Theme::instance().color("disabled");
  }
  if (isGpuColumn(index.column())) return gpuData(row, index.column(), role);
  if (role == Qt::ToolTipRole) {
    if (index.column() == kState && !row.detail.isEmpty()) return row.detail;
    if (index.column() == kCpu && row.cores > 0)
      return tr("%1, %n core(s)", "", row.cores).arg(row.cpuName);
    if (index.column() == kDisk && row.sampled) {
      const QString rates =
          tr("reads %1, writes %2").arg(formatRate(row.diskRead), formatRate(row.diskWrite));
      return row.diskBusy ? tr("busy %1, %2").arg(formatPercent(*row.diskBusy, 0), rates) : rates;
    }
    if (index.column() == kAgent) return row.version;
  }
  if (role == kFractionRole && row.sampled) {
    if (index.column() == kCpu) return row.cpu;
    if (index.column() == kMemory && row.memoryTotal > 0) return row.memoryUsed / row.memoryTotal;
  }
  if (role == kToneRole && index.column() == kState) {
    return int(row.asking ? Tone::kWarning : nodePhaseTone(row.phase));
  }
  if (role == Qt::TextAlignmentRole && index.column() == kRanks) return int(Qt::AlignCenter);
  return {};
}

QVariant NodeTableModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (role == Qt::TextAlignmentRole)
    return int(section == kRanks ? Qt::AlignCenter : Qt::AlignLeft | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  switch (section) {
    case kName:
      return tr("Node");
    case kState:
      return tr("State");
    case kCpu:
      return tr("CPU");
    case kMemory:
      return tr("Memory");
    case kGpu:
      return tr("GPUs");
    case kGpuUse:
      return tr("GPU use");
    case kGpuMemory:
      return tr("GPU memory");
    case kGpuTemperature:
      return tr("Hottest");
    case kGpuPower:
      return tr("GPU power");
    case kGpuClock:
      return tr("GPU clock");
    case kNetwork:
      return tr("Network");
    case kDisk:
      return tr("Disk");
    case kRanks:
      return tr("Ranks");
    case kTarget:
      return tr("Connection");
    case kAgent:
      return tr("Agent");
    default:
      return {};
  }
}

}  // namespace lockstep::ui
