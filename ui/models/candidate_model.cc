#include "ui/models/candidate_model.h"

#include <QFont>

#include "ui/theme/error_text.h"
#include "ui/theme/format.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {
namespace {

QString refusalText(const Error& error) {
  const ErrorText text = describeError(error);
  const QString reason = error.why.empty() ? text.what : QString("%1: %2").arg(text.what, text.why);
  return text.next.isEmpty() ? reason : reason + '\n' + text.next;
}

}  // namespace

void CandidateModel::setCandidates(std::vector<Candidate> candidates) {
  beginResetModel();
  candidates_ = std::move(candidates);
  endResetModel();
}
void CandidateModel::setBenchmarks(std::map<std::string, double> seconds) {
  benchmarks_ = std::move(seconds);
  if (rowCount() > 0) Q_EMIT dataChanged(index(0, kBenchmark), index(rowCount() - 1, kBenchmark));
}
void CandidateModel::setChosen(const std::string& strategy) {
  chosen_ = strategy;
  if (rowCount() > 0) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
}
void CandidateModel::retranslate() {
  Q_EMIT headerDataChanged(Qt::Horizontal, 0, kColumns - 1);
  if (rowCount() > 0) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
}

int CandidateModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(candidates_.size());
}
int CandidateModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kColumns;
}

QVariant CandidateModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount()) return {};
  const Candidate& one = candidates_[static_cast<std::size_t>(index.row())];
  const bool possible = !one.refusal;
  switch (role) {
    case Qt::TextAlignmentRole:
      return int((index.column() == kStrategy || !possible ? Qt::AlignLeft : Qt::AlignRight) |
                 Qt::AlignVCenter);
    case Qt::ForegroundRole:
      if (one.misfit && index.column() == kMemory) return Theme::instance().color("bad");
      return possible ? QVariant() : QVariant(Theme::instance().color("muted"));
    case Qt::FontRole: {
      QFont font;
      if (one.strategy == chosen_) font.setWeight(QFont::DemiBold);
      return font;
    }
    case Qt::ToolTipRole:
      if (one.misfit) return refusalText(*one.misfit);
      return possible ? QVariant() : QVariant(refusalText(*one.refusal));
    case Qt::DisplayRole:
      break;
    default:
      return {};
  }
  const QString dash(QChar(0x2014));
  switch (index.column()) {
    case kStrategy:
      return QString::fromStdString(one.strategy);
    case kEstimate:
      return possible ? formatSeconds(one.stepSeconds) : refusalText(*one.refusal);
    case kBenchmark: {
      if (!possible) return {};
      const auto found = benchmarks_.find(one.strategy);
      return found == benchmarks_.end() ? dash : formatSeconds(found->second);
    }
    case kBubble:
      return possible ? formatPercent(one.bubbleShare, 0) : QString();
    case kMemory: {
      if (!possible) return {};
      const QString needed = formatBytes(static_cast<double>(one.memoryBytes));
      return one.misfit ? tr("%1: too much").arg(needed) : needed;
    }
    case kWire:
      return possible ? formatBytes(static_cast<double>(one.wireBytes)) : QString();
    case kLink:
      if (!possible) return {};
      return one.linkBytes > 0 ? formatBytes(static_cast<double>(one.linkBytes)) : dash;
    case kEnergy:
      if (!possible) return {};
      return one.joules ? formatEnergy(*one.joules) : dash;
    default:
      return {};
  }
}

QVariant CandidateModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (role == Qt::TextAlignmentRole)
    return int((section == kStrategy ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
  if (role == Qt::ToolTipRole) {
    switch (section) {
      case kEstimate:
        return tr("Step time: rough estimate from built-in costs");
      case kBenchmark:
        return tr("Step time: from a benchmark of the nodes");
      case kBubble:
        return tr("Bubble: the part of a step in which ranks wait for each other, their mean");
      case kMemory:
        return tr("Peak memory per rank");
      case kWire:
        return tr("Traffic per rank per step");
      case kLink:
        return tr("Traffic per step of the busiest link between two nodes, both ways");
      case kEnergy:
        return tr("Energy per step of all hosts");
      default:
        return {};
    }
  }
  if (role != Qt::DisplayRole) return {};
  switch (section) {
    case kStrategy:
      return tr("Strategy");
    case kEstimate:
      return tr("Estimate");
    case kBenchmark:
      return tr("Measured");
    case kBubble:
      return tr("Bubble");
    case kMemory:
      return tr("Memory");
    case kWire:
      return tr("Traffic");
    case kLink:
      return tr("Busiest link");
    case kEnergy:
      return tr("Energy");
    default:
      return {};
  }
}

}  // namespace lockstep::ui
