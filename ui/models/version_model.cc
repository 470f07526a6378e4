#include "ui/models/version_model.h"

#include <algorithm>

#include "ui/theme/message_text.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {
namespace {

using Kind = app::NodeVersion::Kind;
using Grade = app::NodeVersion::Grade;

Kind kindOf(int column) { return static_cast<Kind>(column - VersionModel::kAgent); }

Tone toneOf(Grade grade) {
  return grade == Grade::kDifferent ? Tone::kWarning
         : grade == Grade::kSame    ? Tone::kGood
                                    : Tone::kNeutral;
}

}  // namespace

void VersionModel::setResult(const app::PreflightResult& result) {
  beginResetModel();
  nodes_ = result.versions.empty() ? std::vector<std::string>() : result.nodes;
  versions_ = result.versions;
  endResetModel();
}

QStringList VersionModel::warnings() const {
  constexpr int kShown = 3;
  QStringList out;
  int different = 0;
  for (const app::NodeVersion& version : versions_)
    if (version.grade == Grade::kDifferent && ++different <= kShown)
      out << messageText(differentText(version));
  if (different > kShown) out << tr("More versions that differ: %1.").arg(different - kShown);
  return out;
}

bool VersionModel::hasColumn(int column) const {
  return column == kNode ||
         std::ranges::find(versions_, kindOf(column), &app::NodeVersion::kind) != versions_.end();
}

void VersionModel::retranslate() {
  Q_EMIT headerDataChanged(Qt::Horizontal, 0, kColumns - 1);
  if (rowCount() > 0) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
}

int VersionModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(nodes_.size());
}
int VersionModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kColumns;
}

const app::NodeVersion* VersionModel::at(int row, int column) const {
  const std::string& node = nodes_[static_cast<std::size_t>(row)];
  const auto found = std::ranges::find_if(versions_, [&](const app::NodeVersion& one) {
    return one.kind == kindOf(column) && one.node == node;
  });
  return found == versions_.end() ? nullptr : &*found;
}

QVariant VersionModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount()) return {};
  if (role == Qt::TextAlignmentRole) return int(Qt::AlignLeft | Qt::AlignVCenter);
  if (index.column() == kNode)
    return role == Qt::DisplayRole
               ? QString::fromStdString(nodes_[static_cast<std::size_t>(index.row())])
               : QVariant();
  const app::NodeVersion* const one = at(index.row(), index.column());
  switch (role) {
    case kToneRole:
      return int(one == nullptr ? Tone::kNeutral : toneOf(one->grade));
    case Qt::DisplayRole:
      if (one == nullptr) return QString(QChar(0x2014));
      return one->version.empty() ? tr("unknown") : QString::fromStdString(shortVersion(*one));
    case Qt::ToolTipRole:
      if (one == nullptr) return {};
      return one->grade == Grade::kDifferent ? messageText(differentText(*one))
                                             : QString::fromStdString(one->version);
    default:
      return {};
  }
}

QVariant VersionModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || section < 0 || section >= kColumns) return {};
  if (role == Qt::TextAlignmentRole) return int(Qt::AlignLeft | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  const QString names[] = {tr("Node"),       tr("Agent"), tr("Kernel"),
                           tr("GPU driver"), tr("CUDA"),  tr("NCCL")};
  return names[section];
}

}  // namespace lockstep::ui
