#include "ui/models/run_table_model.h"

#include <cmath>

#include "ui/studio/run_document.h"
#include "ui/theme/format.h"
#include "ui/theme/message_text.h"

namespace lockstep::ui {
namespace {

QStringList tagsOf(const app::RunRow& run) {
  QStringList out;
  for (const std::string& tag : run.tags) out << QString::fromStdString(tag);
  return out;
}

}  // namespace

void RunTableModel::setRuns(std::vector<app::RunRow> runs) {
  const bool sameRuns = runs.size() == runs_.size() &&
                        std::equal(runs.begin(), runs.end(), runs_.begin(),
                                   [](const auto& a, const auto& b) { return a.run == b.run; });
  if (sameRuns) {
    runs_ = std::move(runs);
    if (!runs_.empty()) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
    return;
  }
  beginResetModel();
  runs_ = std::move(runs);
  rows_.clear();
  for (int i = 0; i < rowCount(); ++i)
    rows_.insert(QString::fromStdString(runs_[static_cast<std::size_t>(i)].run), i);
  endResetModel();
}

int RunTableModel::find(const QString& run) const { return rows_.value(run, -1); }

void RunTableModel::retranslate() {
  Q_EMIT headerDataChanged(Qt::Horizontal, 0, kColumns - 1);
  if (!runs_.empty()) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
}

int RunTableModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(runs_.size());
}
int RunTableModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kColumns;
}

QVariant RunTableModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount()) return {};
  const app::RunRow& run = runs_[static_cast<std::size_t>(index.row())];
  const QString dash(QChar(0x2014));
  switch (role) {
    case Qt::DisplayRole:
      switch (index.column()) {
        case kName:
          return QString::fromStdString(run.name);
        case kState:
          return runStateText(run);
        case kCreated:
          return formatWhen(run.createdNs);
        case kStrategy:
          return QString::fromStdString(run.strategy);
        case kCluster:
          return QString::fromStdString(run.clusterName);
        case kRanks:
          return run.world > 0 ? QString::number(run.world) : dash;
        case kSteps:
          return run.figures.steps > 0 ? formatCount(run.figures.steps) : dash;
        case kLoss:
          return std::isnan(run.figures.trainLoss) ? dash : formatNumber(run.figures.trainLoss);
        case kMetric:
          if (run.figures.evalLoss == 0 || run.figures.metric.empty()) return dash;
          return run.figures.metric == "accuracy"
                     ? formatMetric(run.figures.metric, run.figures.evalMetric, 2)
                     : metricName(run.figures.metric) + ' ' +
                           formatMetric(run.figures.metric, run.figures.evalMetric, 2);
        case kThroughput:
          return run.figures.samplesPerSecond > 0
                     ? tr("%1/s").arg(formatCount(std::llround(run.figures.samplesPerSecond)))
                     : dash;
        case kStepTime:
          return run.measuredStepSeconds > 0 ? formatSeconds(run.measuredStepSeconds) : dash;
        case kEnergy:
          return run.figures.joules > 0 ? formatEnergy(run.figures.joules) : dash;
        case kTags:
          return tagsOf(run).join(' ');
        case kNotes:
          return QString::fromStdString(run.notes);
        default:
          return {};
      }
    case Qt::EditRole:
      return index.column() == kNotes ? QString::fromStdString(run.notes) : QVariant();
    case Qt::ToolTipRole:
      if (index.column() == kState && !run.error.empty()) return messageText(run.error);
      if (index.column() == kName) return QString::fromStdString(run.run);
      if (index.column() == kTags) return tagsOf(run).join(' ');
      if (index.column() == kStepTime && run.predictedStepSeconds > 0) {
        return tr("predicted %1").arg(formatSeconds(run.predictedStepSeconds));
      }
      return {};
    case Qt::TextAlignmentRole:
      if (index.column() >= kRanks && index.column() <= kEnergy)
        return int(Qt::AlignRight | Qt::AlignVCenter);
      return {};
    case kToneRole:
      return int(runPhaseTone(run.phase));
    case kTagsRole:
      return tagsOf(run);
    case kRunRole:
      return QString::fromStdString(run.run);
    default:
      return {};
  }
}

bool RunTableModel::setData(const QModelIndex& index, const QVariant& value, int role) {
  if (!index.isValid() || index.row() >= rowCount()) return false;
  app::RunRow& run = runs_[static_cast<std::size_t>(index.row())];
  const QString id = QString::fromStdString(run.run);
  if (role == Qt::EditRole && index.column() == kNotes) {
    run.notes = value.toString().toStdString();
    Q_EMIT dataChanged(index, index);
    Q_EMIT notesEdited(id, value.toString());
    return true;
  }
  return false;
}

QVariant RunTableModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (role == Qt::TextAlignmentRole) {
    return int((section >= kRanks && section <= kEnergy ? Qt::AlignRight : Qt::AlignLeft) |
               Qt::AlignVCenter);
  }
  if (role != Qt::DisplayRole) return {};
  switch (section) {
    case kName:
      return tr("Run");
    case kState:
      return tr("State");
    case kCreated:
      return tr("Created");
    case kStrategy:
      return tr("Strategy");
    case kCluster:
      return tr("Cluster");
    case kRanks:
      return tr("Ranks");
    case kSteps:
      return tr("Steps");
    case kLoss:
      return tr("Loss");
    case kMetric:
      return tr("Quality");
    case kThroughput:
      return tr("Samples");
    case kStepTime:
      return tr("Step time");
    case kEnergy:
      return tr("Energy");
    case kTags:
      return tr("Tags");
    case kNotes:
      return tr("Notes");
    default:
      return {};
  }
}

Qt::ItemFlags RunTableModel::flags(const QModelIndex& index) const {
  if (!index.isValid()) return Qt::NoItemFlags;
  Qt::ItemFlags flags = Qt::ItemIsEnabled | Qt::ItemIsSelectable;
  if (index.column() == kNotes) flags |= Qt::ItemIsEditable;
  return flags;
}

}  // namespace lockstep::ui
