#include "ui/models/preflight_model.h"

#include <algorithm>

#include "ui/theme/format.h"
#include "ui/theme/message_text.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {
namespace {

using Kind = app::PreflightValue::Kind;
using Grade = app::PreflightValue::Grade;

QString valueText(Kind kind, double value) {
  switch (kind) {
    case Kind::kMatmul:
    case Kind::kGpuMatmul:
      return formatFlops(value) + "/s";
    case Kind::kMemory:
    case Kind::kDiskWrite:
    case Kind::kGpuMemory:
    case Kind::kBandwidth:
    case Kind::kAllReduce:
      return formatRate(value);
    case Kind::kDiskFree:
      return formatBytes(value);
    case Kind::kClockSkew:
    case Kind::kRoundTrip:
      return formatSeconds(value);
    case Kind::kGpuLanes:
      return formatPercent(value, 0);
  }
  return {};
}

}  // namespace

void PreflightModel::setResult(app::PreflightResult result) {
  beginResetModel();
  result_ = std::move(result);
  std::stable_sort(result_.values.begin(), result_.values.end(), [](const auto& a, const auto& b) {
    return (a.grade == Grade::kWeak) > (b.grade == Grade::kWeak);
  });
  endResetModel();
}

void PreflightModel::retranslate() {
  Q_EMIT headerDataChanged(Qt::Horizontal, 0, kColumns - 1);
  if (rowCount() > 0) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
}

int PreflightModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(result_.values.size());
}
int PreflightModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kColumns;
}

QVariant PreflightModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount()) return {};
  const app::PreflightValue& one = result_.values[static_cast<std::size_t>(index.row())];
  const bool weak = one.grade == Grade::kWeak;
  const bool isNumber = index.column() == kValue || index.column() == kUsual;
  switch (role) {
    case kToneRole:
      return int(weak ? Tone::kBad : one.grade == Grade::kGood ? Tone::kGood : Tone::kNeutral);
    case Qt::TextAlignmentRole:
      return int((isNumber ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
    case Qt::ToolTipRole:
      return weak ? messageText(weakText(one)) : QVariant();
    case Qt::DisplayRole:
      break;
    default:
      return {};
  }
  switch (index.column()) {
    case kWhat: {
      const QString names[] = {tr("Matrix products"),
                               tr("Memory reads"),
                               tr("Disk writes"),
                               tr("Free disk"),
                               tr("Clock skew"),
                               tr("GPU matrix products"),
                               tr("GPU memory reads"),
                               tr("GPU PCIe lanes"),
                               tr("Bandwidth"),
                               tr("Round trip"),
                               tr("All-reduce bus bandwidth")};
      return names[static_cast<int>(one.kind)];
    }
    case kNode: {
      const QString node = QString::fromStdString(one.node);
      return one.kind == Kind::kAllReduce ? tr("all nodes")
             : one.gpu >= 0               ? tr("%1, GPU %2").arg(node, QString::number(one.gpu))
                                          : node;
    }
    case kPeer:
      return QString::fromStdString(one.peer);
    case kValue:
      return valueText(one.kind, one.value);
    case kUsual:
      return one.usual > 0 ? valueText(one.kind, one.usual) : QString();
    case kGrade:
      if (weak) return one.usual <= 0 || one.earlier ? tr("weak") : tr("weaker than the others");
      return one.grade == Grade::kGood ? tr("good") : tr("nothing to compare with");
    default:
      return {};
  }
}

QVariant PreflightModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  const bool isNumber = section == kValue || section == kUsual;
  if (role == Qt::TextAlignmentRole)
    return int((isNumber ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  const QString names[] = {tr("Measure"), tr("Node"),  tr("To"),
                           tr("Value"),   tr("Usual"), tr("Result")};
  return section >= 0 && section < kColumns ? QVariant(names[section]) : QVariant();
}

}  // namespace lockstep::ui
