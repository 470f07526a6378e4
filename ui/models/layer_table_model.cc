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
#include "ui/theme/message_text.h"
#include "ui/theme/theme.h"
#include "ui/theme/tool_tip.h"

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
  if (!document_->spec().readable()) return;  // what was shown last stays
  plan_.reset();
  refusal_.reset();
  pinned_ = document_->spec().layerStages();
  if (!modelIsFile()) {
    readRows();
    const auto model = document_->spec().model();
    setGraph(model ? app::layerGraphOf(*model) : app::LayerGraph());
  }
  readProblems();
  rowsChanged();
  describe();
}

// Names and kinds at once; the figures follow.
void LayerTableModel::readRows() {
  const app::SpecText& spec = document_->spec();
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
  if (static_cast<int>(rows.size()) == rowCount()) {
    rows_ = std::move(rows);
  } else {
    beginResetModel();
    rows_ = std::move(rows);
    endResetModel();
  }
}

void LayerTableModel::rowsChanged() {
  if (!rows_.empty()) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
}

void LayerTableModel::setGraph(app::LayerGraph graph) {
  if (graph == graph_) return;
  graph_ = std::move(graph);
  Q_EMIT graphChanged();
}

void LayerTableModel::addProblem(const std::string& path, const Message& what) {
  const std::string list = listPath() + "[";
  if (modelIsFile() || !path.starts_with(list)) return;
  const int row = std::atoi(path.c_str() + list.size());
  if (row < rowCount()) problems_.emplace(row, messageText(what));
}

void LayerTableModel::readProblems() {
  problems_.clear();
  for (const app::SpecProblem& problem : document_->spec().problems())
    addProblem(problem.path, problem.message());
  if (refusal_) addProblem(refusal_->field, refusal_->message());
}

void LayerTableModel::setPlan(Result<app::LayerPlan> plan) {
  plan_.reset();
  refusal_.reset();
  if (plan.ok())
    plan_ = std::move(*plan);
  else
    refusal_ = plan.error();
  readProblems();
  rowsChanged();
}

// The rows of a model in a file may come after its plan.
const app::LayerPlan* LayerTableModel::plan() const {
  return plan_ && plan_->layers.size() == rows_.size() ? &*plan_ : nullptr;
}

int LayerTableModel::stageOf(int row) const {
  const auto at = static_cast<std::size_t>(row);
  if (const app::LayerPlan* plan = this->plan())
    return plan->stages > 1 && at < plan->layers.size() ? plan->layers[at].stage : -1;
  return pinned() && at < pinned_.size() ? pinned_[at] : -1;
}

namespace {

struct Described {
  std::vector<app::LayerRow> rows;
  std::optional<app::LayerGraph> graph;  // of a model in a file
};

std::optional<Described> describeFile(const QString& file) {
  QFile source(file);
  if (!source.open(QIODevice::ReadOnly)) return std::nullopt;
  const auto model = app::SpecText::parse(source.readAll().toStdString(), file.toStdString(),
                                          app::SpecKind::kModel)
                         .model();
  if (!model) return std::nullopt;
  auto rows = app::describeModel(*model);
  if (!rows) return std::nullopt;
  return Described{std::move(*rows), app::layerGraphOf(*model)};
}

}  // namespace

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
    rowsChanged();
    Q_EMIT totalsChanged();
    return;
  }
  runInBackground(
      this,
      [model, file]() -> std::optional<Described> {
        if (!model) return describeFile(file);
        auto rows = app::describeModel(*model);
        if (!rows) return std::nullopt;
        return Described{std::move(*rows), std::nullopt};
      },
      [this, generation](std::optional<Described> made) {
        if (generation != generation_) return;
        described_ = made.has_value();
        if (made && static_cast<int>(made->rows.size()) != rowCount()) {
          beginResetModel();
          rows_ = std::move(made->rows);
          endResetModel();
        } else {
          if (made) rows_ = std::move(made->rows);
          rowsChanged();
        }
        if (made && made->graph) setGraph(std::move(*made->graph));
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
void LayerTableModel::retranslate() {
  readProblems();
  rowsChanged();
  Q_EMIT headerDataChanged(Qt::Horizontal, 0, kColumns - 1);
}

int LayerTableModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}
int LayerTableModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kColumns;
}

QVariant LayerTableModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount()) return {};
  const auto problem = problems_.find(index.row());
  const bool wrong = problem != problems_.end();
  switch (role) {
    case Qt::DisplayRole:
      return cellText(index.row(), index.column());
    case Qt::EditRole:
      return index.column() == kStage ? cellText(index.row(), kStage) : QVariant();
    case Qt::TextAlignmentRole:
      if (index.column() < kParameters) return {};
      return int(Qt::AlignRight | Qt::AlignVCenter);
    case Qt::ForegroundRole:
      if (described_ || index.column() < kOutput) return {};
      return Theme::instance().color("disabled");
    case Qt::DecorationRole:
      if (index.column() != kName) return {};
      return wrong ? Theme::instance().icon("error", Tone::kBad) : Theme::instance().icon("layer");
    case kProblemRole:
    case Qt::ToolTipRole:
      return wrong ? toolTipText(problem->second) : QVariant();
    default:
      return {};
  }
}

QVariant LayerTableModel::cellText(int at, int column) const {
  const app::LayerRow& row = rows_[static_cast<std::size_t>(at)];
  const QString dash(QChar(0x2014));
  switch (column) {
    case kName:
      return row.name.empty() ? tr("layer %1").arg(at + 1) : QString::fromStdString(row.name);
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
    case kStage:
      return at < static_cast<int>(pinned_.size()) ? QVariant(pinned_[static_cast<std::size_t>(at)])
                                                   : QVariant();
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
