#include "ui/models/layer_table_model.h"

#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <memory>
#include <optional>

#include "engine/cluster/strategies.h"
#include "ui/models/pin_model.h"
#include "ui/studio/background.h"
#include "ui/studio/spec_document.h"
#include "ui/theme/format.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {

LayerTableModel::LayerTableModel(SpecDocument* document, QObject* parent)
    : QAbstractTableModel(parent), document_(document) {
  connect(document, &SpecDocument::changed, this, &LayerTableModel::refresh);
  refresh();
}

std::string LayerTableModel::listPath() const {
  return document_->kind() == app::SpecKind::kModel ? "layers" : "model.layers";
}

bool LayerTableModel::modelIsFile() const {
  return document_->kind() == app::SpecKind::kRun && document_->spec().value("model").has_value();
}

bool LayerTableModel::pinned() const {
  const app::SpecText& spec = document_->spec();
  if (document_->kind() != app::SpecKind::kRun || !spec.readable() || modelIsFile()) return false;
  const auto* strategy = cluster::findStrategy(spec.value("strategy.kind").value_or(""));
  return (strategy != nullptr && strategy->pinned) || spec.count("strategy.pins") > 0;
}

Qt::ItemFlags LayerTableModel::flags(const QModelIndex& index) const {
  Qt::ItemFlags flags = QAbstractTableModel::flags(index);
  if (index.column() == kStage && pinned()) flags |= Qt::ItemIsEditable;
  return flags;
}

bool LayerTableModel::setData(const QModelIndex& index, const QVariant& value, int role) {
  std::vector<int> stages = document_->spec().layerStages();
  if (role != Qt::EditRole || index.column() != kStage ||
      index.row() >= static_cast<int>(stages.size()))
    return false;
  moveToStage(stages, index.row(), value.toInt());
  const std::string pins = app::SpecText::pins(document_->spec().layerNames(), stages);
  const Status status =
      document_->setField("strategy.pins", QString::fromStdString(pins), tr("Change stages"));
  if (!status.ok()) Q_EMIT refused(status.error());
  return status.ok();
}

void LayerTableModel::refresh() {
  ++generation_;
  const app::SpecText& spec = document_->spec();
  if (!spec.readable()) return;  // what was shown last stays
  if (!modelIsFile()) {
    // Names and kinds at once; the figures follow.
    const std::string list = listPath();
    const int count = spec.count(list);
    std::vector<app::LayerRow> rows;
    for (int i = 0; i < count; ++i) {
      const std::string path = list + "[" + std::to_string(i) + "]";
      app::LayerRow row;
      row.name = spec.value(path + ".name").value_or("");
      row.kind = spec.layerKind(path);
      const auto at = static_cast<std::size_t>(i);
      if (at < rows_.size() && rows_[at].kind == row.kind) {  // no flicker while figures are made
        const std::string name = row.name.empty() ? rows_[at].name : row.name;
        row = rows_[at];
        row.name = name;
      }
      rows.push_back(std::move(row));
    }
    const int before = rowCount(), after = static_cast<int>(rows.size());
    if (after == before) {
      rows_ = std::move(rows);
      if (after > 0) Q_EMIT dataChanged(index(0, 0), index(after - 1, kColumns - 1));
    } else {
      beginResetModel();
      rows_ = std::move(rows);
      endResetModel();
    }
  }
  describe();
}

void LayerTableModel::describe() {
  const int generation = generation_;
  std::shared_ptr<const spec::v1::ModelSpec> model = document_->spec().model();
  QString file;
  if (modelIsFile()) {
    const QString name = QString::fromStdString(document_->spec().value("model").value_or(""));
    file = QFileInfo(document_->path()).dir().filePath(name);
  }
  if (!model && file.isEmpty()) {
    described_ = false;
    Q_EMIT totalsChanged();
    return;
  }
  runInBackground(
      this,
      [model, file]() -> std::optional<std::vector<app::LayerRow>> {
        auto given = model;
        if (!given) {
          QFile source(file);
          if (!source.open(QIODevice::ReadOnly)) return std::nullopt;
          given = app::SpecText::parse(source.readAll().toStdString(), file.toStdString(),
                                       app::SpecKind::kModel)
                      .model();
        }
        if (!given) return std::nullopt;
        auto rows = app::describeModel(*given);
        if (!rows) return std::nullopt;
        return std::move(*rows);
      },
      [this, generation](std::optional<std::vector<app::LayerRow>> rows) {
        if (generation != generation_) return;
        described_ = rows.has_value();
        if (rows && static_cast<int>(rows->size()) == rowCount()) {
          rows_ = std::move(*rows);
          if (!rows_.empty()) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
        } else if (rows) {
          beginResetModel();
          rows_ = std::move(*rows);
          endResetModel();
        }
        Q_EMIT totalsChanged();
      });
}

qint64 LayerTableModel::parameters() const {
  qint64 sum = 0;
  for (const auto& row : rows_) sum += row.parameters;
  return sum;
}
double LayerTableModel::flops() const {
  double sum = 0;
  for (const auto& row : rows_) sum += row.forwardFlops;
  return sum;
}
qint64 LayerTableModel::activationBytes() const {
  qint64 sum = 0;
  for (const auto& row : rows_) sum += row.activationBytes;
  return sum;
}
void LayerTableModel::retranslate() { Q_EMIT headerDataChanged(Qt::Horizontal, 0, kColumns - 1); }

int LayerTableModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}
int LayerTableModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kColumns;
}

QVariant LayerTableModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount()) return {};
  const app::LayerRow& row = rows_[static_cast<std::size_t>(index.row())];
  if (role == Qt::TextAlignmentRole && index.column() >= kParameters) {
    return int(Qt::AlignRight | Qt::AlignVCenter);
  }
  if (role == Qt::ForegroundRole && !described_ && index.column() >= kOutput) {
    return Theme::instance().color("disabled");
  }
  if (role == Qt::DecorationRole && index.column() == kName) return Theme::instance().icon("layer");
  if (index.column() == kStage && (role == Qt::DisplayRole || role == Qt::EditRole)) {
    const std::vector<int> stages = document_->spec().layerStages();
    const auto at = static_cast<std::size_t>(index.row());
    return at < stages.size() ? QVariant(stages[at]) : QVariant();
  }
  if (role != Qt::DisplayRole) return {};
  const QString dash(QChar(0x2014));
  switch (index.column()) {
    case kName:
      return row.name.empty() ? tr("layer %1").arg(index.row() + 1)
                              : QString::fromStdString(row.name);
    case kKind:
      return QString::fromStdString(row.kind);
    case kOutput:
      return row.output.empty()
                 ? dash
                 : QString::fromStdString(row.output).replace('x', QString::fromUtf8("×"));
    case kParameters:
      return row.output.empty() ? dash : formatCount(row.parameters);
    case kFlops:
      return row.output.empty() ? dash : formatFlops(row.forwardFlops);
    case kMemory:
      return row.output.empty() ? dash : formatBytes(static_cast<double>(row.activationBytes));
    default:
      return {};
  }
}

QVariant LayerTableModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (role == Qt::TextAlignmentRole) {
    return int((section >= kParameters ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
  }
  if (role != Qt::DisplayRole) return {};
  switch (section) {
    case kName:
      return tr("Layer");
    case kKind:
      return tr("Kind");
    case kOutput:
      return tr("Output");
    case kParameters:
      return tr("Parameters");
    case kFlops:
      return tr("Forward");
    case kMemory:
      return tr("Activations");
    case kStage:
      return tr("Stage");
    default:
      return {};
  }
}

}  // namespace lockstep::ui
