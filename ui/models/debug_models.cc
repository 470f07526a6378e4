#include "ui/models/debug_models.h"

#include <QDateTime>
#include <QFont>
#include <QLocale>
#include <algorithm>

#include "ui/theme/format.h"
#include "ui/theme/theme.h"
#include "ui/theme/tool_tip.h"

namespace lockstep::ui {
namespace {

constexpr quintptr kThread = 0;  // the id of a thread's index; that of a frame is its thread + 1

int alignment(bool isNumber) {
  return int((isNumber ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
}

QString whenText(std::int64_t wallNs) {
  return QLocale().toString(QDateTime::fromMSecsSinceEpoch(wallNs / 1'000'000),
                            "yyyy-MM-dd HH:mm:ss");
}

}  // namespace

QString plainText(const std::string& text) {
  QString out = QString::fromStdString(text);
  for (QChar& c : out) {
    if (c == '\n' || c == '\t')
      c = ' ';
    else if (c.category() == QChar::Other_Control || c.category() == QChar::Other_Format)
      c = QChar::ReplacementCharacter;
  }
  return out;
}

QString tableText(const QAbstractItemModel& model) {
  QString out;
  for (int row = 0; row < model.rowCount(); ++row) {
    QStringList cells;
    for (int column = 0; column < model.columnCount(); ++column)
      cells << model.index(row, column).data().toString();
    out += cells.join('\t') + '\n';
  }
  return out;
}

void StackModel::setStacks(app::RankStacks stacks) {
  beginResetModel();
  stacks_ = std::move(stacks);
  endResetModel();
}

void StackModel::retranslate() {
  Q_EMIT headerDataChanged(Qt::Horizontal, 0, kColumns - 1);
  if (rowCount() > 0) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
}

QModelIndex StackModel::index(int row, int column, const QModelIndex& parent) const {
  if (!hasIndex(row, column, parent)) return {};
  return createIndex(row, column,
                     parent.isValid() ? static_cast<quintptr>(parent.row()) + 1 : kThread);
}

QModelIndex StackModel::parent(const QModelIndex& index) const {
  if (!index.isValid() || index.internalId() == kThread) return {};
  return createIndex(static_cast<int>(index.internalId()) - 1, 0, kThread);
}

int StackModel::rowCount(const QModelIndex& parent) const {
  if (!parent.isValid()) return static_cast<int>(stacks_.threads.size());
  if (parent.internalId() != kThread || parent.column() != 0) return 0;
  return static_cast<int>(stacks_.threads[static_cast<std::size_t>(parent.row())].frames.size());
}

int StackModel::columnCount(const QModelIndex&) const { return kColumns; }

QVariant StackModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const bool isThread = index.internalId() == kThread;
  const auto& thread =
      stacks_.threads[isThread ? static_cast<std::size_t>(index.row()) : index.internalId() - 1];
  if (role == Qt::FontRole && isThread && index.column() == kFrame) {
    QFont bold;
    bold.setBold(true);
    return bold;
  }
  if (!isThread) {
    if (index.column() != kFrame || (role != Qt::DisplayRole && role != Qt::ToolTipRole)) return {};
    const QString frame = plainText(thread.frames[static_cast<std::size_t>(index.row())]);
    return role == Qt::DisplayRole ? frame : toolTipText(frame);
  }
  if (role == Qt::TextAlignmentRole) return alignment(index.column() == kStopped);
  if (role != Qt::DisplayRole) return {};
  switch (index.column()) {
    case kFrame:
      return tr("Thread %1 %2").arg(QString::number(thread.tid), plainText(thread.name));
    case kState:
      return plainText(thread.state);
    case kStopped:
      return formatSeconds(thread.stoppedSeconds);
    default:
      return {};
  }
}

QVariant StackModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (role == Qt::TextAlignmentRole) return alignment(section == kStopped);
  if (role == Qt::ToolTipRole && section == kStopped)
    return tr("How long the thread was stopped while its stack was read");
  if (role != Qt::DisplayRole) return {};
  const QString names[] = {tr("Frame"), tr("State"), tr("Stopped")};
  return section >= 0 && section < kColumns ? QVariant(names[section]) : QVariant();
}

void ProcessModel::setProcesses(app::NodeProcesses processes) {
  beginResetModel();
  list_ = std::move(processes);
  endResetModel();
}

void ProcessModel::retranslate() {
  Q_EMIT headerDataChanged(Qt::Horizontal, 0, kColumns - 1);
  if (rowCount() > 0) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
}

int ProcessModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(list_.processes.size());
}
int ProcessModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kColumns;
}

QVariant ProcessModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount()) return {};
  const app::NodeProcess& one = list_.processes[static_cast<std::size_t>(index.row())];
  const int column = index.column();
  if (role == kToneRole) return int(one.part.empty() ? Tone::kNeutral : Tone::kActive);
  if (role == kFractionRole) return std::clamp(one.cores, 0.0, 1.0);
  if (role == Qt::TextAlignmentRole)
    return alignment(column == kPid || (column >= kCpu && column <= kThreads));
  if (role == Qt::ToolTipRole && column == kCommand) return toolTipText(plainText(one.command));
  const bool sorts = role == kSortRole;
  if (role != Qt::DisplayRole && !sorts) return {};
  switch (column) {
    case kPid:
      return sorts ? QVariant(one.pid) : QVariant(QString::number(one.pid));
    case kUser:
      return plainText(one.user);
    case kCpu:
      return sorts ? QVariant(one.cores) : QVariant(formatPercent(one.cores, 0));
    case kMemory:
      return sorts ? QVariant(static_cast<qlonglong>(one.memoryBytes))
                   : QVariant(formatBytes(static_cast<double>(one.memoryBytes)));
    case kThreads:
      return sorts ? QVariant(one.threads) : QVariant(formatCount(one.threads));
    case kState:
      return plainText(one.state);
    case kPart:
      if (one.rank >= 0) return tr("rank %1").arg(one.rank);
      if (one.part == "agent") return tr("agent");
      if (one.part == "supervisor") return tr("supervisor");
      return one.part == "worker" ? tr("worker") : QString();
    case kCommand:
      return plainText(one.command);
    default:
      return {};
  }
}

QVariant ProcessModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (role == Qt::TextAlignmentRole)
    return alignment(section == kPid || (section >= kCpu && section <= kThreads));
  if (role == Qt::ToolTipRole && section == kCpu) return tr("Of one core");
  if (role != Qt::DisplayRole) return {};
  const QString names[] = {tr("PID"),     tr("User"),  tr("CPU"),      tr("Memory"),
                           tr("Threads"), tr("State"), tr("Lockstep"), tr("Command")};
  return section >= 0 && section < kColumns ? QVariant(names[section]) : QVariant();
}

void KernelLogModel::setLines(std::vector<app::KernelLine> lines) {
  beginResetModel();
  lines_ = std::move(lines);
  endResetModel();
}

void KernelLogModel::retranslate() {
  Q_EMIT headerDataChanged(Qt::Horizontal, 0, kColumns - 1);
  if (rowCount() > 0) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
}

int KernelLogModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(lines_.size());
}
int KernelLogModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kColumns;
}

QVariant KernelLogModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount()) return {};
  const app::KernelLine& line = lines_[static_cast<std::size_t>(index.row())];
  constexpr int kError = 3, kWarning = 4;
  if (role == kToneRole)
    return int(line.level <= kError     ? Tone::kBad
               : line.level == kWarning ? Tone::kWarning
                                        : Tone::kNeutral);
  if (role == Qt::ToolTipRole && index.column() == kText) return toolTipText(plainText(line.text));
  if (role != Qt::DisplayRole) return {};
  switch (index.column()) {
    case kTime:
      return whenText(line.wallNs);
    case kLevel: {
      const QString names[] = {tr("emergency"), tr("alert"),  tr("critical"), tr("error"),
                               tr("warning"),   tr("notice"), tr("info"),     tr("debug")};
      return names[std::clamp(line.level, 0, 7)];
    }
    case kText:
      return plainText(line.text);
    default:
      return {};
  }
}

QVariant KernelLogModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
  const QString names[] = {tr("Time"), tr("Level"), tr("Message")};
  return section >= 0 && section < kColumns ? QVariant(names[section]) : QVariant();
}

}  // namespace lockstep::ui
