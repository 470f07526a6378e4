#include "ui/models/node_table_model.h"

#include <QCoreApplication>

#include "ui/theme/format.h"

namespace lockstep::ui {

QString nodePhaseText(app::NodePhase phase) {
  static const char* const names[] = {
      QT_TRANSLATE_NOOP("lockstep::ui::NodePhase", "not connected"),
      QT_TRANSLATE_NOOP("lockstep::ui::NodePhase", "connecting"),
      QT_TRANSLATE_NOOP("lockstep::ui::NodePhase", "deploying"),
      QT_TRANSLATE_NOOP("lockstep::ui::NodePhase", "starting the agent"),
      QT_TRANSLATE_NOOP("lockstep::ui::NodePhase", "connected"),
      QT_TRANSLATE_NOOP("lockstep::ui::NodePhase", "reconnecting"),
      QT_TRANSLATE_NOOP("lockstep::ui::NodePhase", "failed")};
  return QCoreApplication::translate("lockstep::ui::NodePhase", names[static_cast<int>(phase)]);
}

Tone nodePhaseTone(app::NodePhase phase) {
  switch (phase) {
    case app::NodePhase::kConnected: return Tone::kGood;
    case app::NodePhase::kFailed: return Tone::kBad;
    case app::NodePhase::kReconnecting: return Tone::kWarning;
    case app::NodePhase::kConnecting:
    case app::NodePhase::kStarting:
    case app::NodePhase::kDeploying: return Tone::kActive;
    case app::NodePhase::kIdle: break;
  }
  return Tone::kNeutral;
}

namespace {

// "5.20 of 16.0 GB"
QString share(double used, double total) {
  const QString all = formatBytes(total);
  QString part = formatBytes(used);
  if (part.section(' ', 1) == all.section(' ', 1)) part = part.section(' ', 0, 0);
  return NodeTableModel::tr("%1 of %2").arg(part, all);
}

}  // namespace

void NodeTableModel::setRows(QVector<NodeRow> rows) {
  beginResetModel();
  rows_ = std::move(rows);
  touched_.clear();
  endResetModel();
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
      case kName: return row.name;
      case kState:
        if (row.asking) return tr("waiting for your answer");
        if (row.phase == app::NodePhase::kDeploying && !row.detail.isEmpty()) return row.detail;
        return nodePhaseText(row.phase);
      case kCpu: return row.sampled ? formatPercent(row.cpu, 0) : dash;
      case kMemory:
        return row.sampled ? share(row.memoryUsed, row.memoryTotal) : dash;
      case kNetwork:
        // Ranks on one host talk past the network.
        if (row.sampled && row.loopback > row.networkIn + row.networkOut) return tr("loopback %1").arg(formatRate(row.loopback));
        return row.sampled ? QString::fromUtf8("↓ %1  ↑ %2").arg(formatRate(row.networkIn),
                                                                 formatRate(row.networkOut))
                           : dash;
      case kDisk: return row.sampled ? tr("%1 free").arg(formatBytes(row.diskFree)) : dash;
      case kRanks: return row.ranks;
      case kTarget: return row.target;
      case kAgent: return row.version.isEmpty() ? dash : row.version.left(12);
      default: return {};
    }
  }
  if (role == Qt::ForegroundRole && !row.sampled &&
      (index.column() >= kCpu && index.column() <= kDisk)) {
    return Theme::instance().color("disabled");
  }
  if (role == Qt::ToolTipRole) {
    if (index.column() == kState && !row.detail.isEmpty()) return row.detail;
    if (index.column() == kCpu && row.cores > 0) return tr("%1, %n core(s)", "", row.cores).arg(row.cpuName);
    if (index.column() == kDisk && row.sampled) {
      return tr("reads %1, writes %2").arg(formatRate(row.diskRead), formatRate(row.diskWrite));
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
  if (role == Qt::TextAlignmentRole) return int(section == kRanks ? Qt::AlignCenter : Qt::AlignLeft | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  switch (section) {
    case kName: return tr("Node");
    case kState: return tr("State");
    case kCpu: return tr("CPU");
    case kMemory: return tr("Memory");
    case kNetwork: return tr("Network");
    case kDisk: return tr("Disk");
    case kRanks: return tr("Ranks");
    case kTarget: return tr("Reached by");
    case kAgent: return tr("Agent");
    default: return {};
  }
}

}  // namespace lockstep::ui
