#include "ui/pages/model_page.h"

#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QMenu>
#include <QSplitter>
#include <QTabBar>
#include <QTableView>
#include <QToolButton>

#include "ui/models/field_model.h"
#include "ui/models/layer_table_model.h"
#include "ui/theme/format.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"
#include "ui/widgets/yaml_editor.h"

namespace lockstep::ui {
namespace {

struct Preset { const char* name; const char* yaml; };
const Preset kPresets[] = {
    {QT_TRANSLATE_NOOP("lockstep::ui::ModelPage", "Dense"), "dense: {units: 128, activation: relu}"},
    {QT_TRANSLATE_NOOP("lockstep::ui::ModelPage", "Convolution 2-D"),
     "conv2d: {filters: 32, kernel: 3, activation: relu}"},
    {QT_TRANSLATE_NOOP("lockstep::ui::ModelPage", "Max pooling 2-D"), "max_pool2d: {size: 2}"},
    {QT_TRANSLATE_NOOP("lockstep::ui::ModelPage", "Flatten"), "flatten: {}"},
    {QT_TRANSLATE_NOOP("lockstep::ui::ModelPage", "Activation"), "activation: {function: relu}"},
    {QT_TRANSLATE_NOOP("lockstep::ui::ModelPage", "Add (residual)"), "add: {}"},
    {QT_TRANSLATE_NOOP("lockstep::ui::ModelPage", "Batch norm"), "batch_norm: {activation: relu}"},
    {QT_TRANSLATE_NOOP("lockstep::ui::ModelPage", "Global average pooling"), "global_average_pool: {}"},
    {QT_TRANSLATE_NOOP("lockstep::ui::ModelPage", "Concatenation"), "concat: {}"},
    {QT_TRANSLATE_NOOP("lockstep::ui::ModelPage", "Dropout"), "dropout: {rate: 0.1}"},
};
enum Section { kLayer, kModel, kTraining, kStrategy, kData };

}  // namespace

ModelPage::ModelPage(std::unique_ptr<SpecDocument> document, QWidget* parent)
    : SpecPage("modelPage", "model:", std::move(document), parent) {
  auto* head = new QHBoxLayout;
  heading_ = makeLabel("modelHeading", this);
  heading_->setFont(Theme::instance().title());
  launch_ = makeButton("modelLaunchButton", "play", this, "primary");
  head->addWidget(heading_);
  head->addStretch(1);
  head->addWidget(launch_);
  body()->addLayout(head);

  auto* figures = new QHBoxLayout;
  figures->setSpacing(kSpaceXl * 2);
  parameters_ = new Figure("modelParameters", this);
  flops_ = new Figure("modelFlops", this);
  activations_ = new Figure("modelActivations", this);
  batch_ = new Figure("modelBatch", this);
  for (Figure* figure : {parameters_, flops_, activations_, batch_}) figures->addWidget(figure);
  figures->addStretch(1);
  body()->addLayout(figures);

  layers_ = new LayerTableModel(this->document(), this);
  layerCard_ = new Card("layerCard", this);
  add_ = makeToolButton("addLayerButton", "add", this);
  addMenu_ = new QMenu(add_);
  addMenu_->setObjectName("addLayerMenu");
  add_->setMenu(addMenu_);
  add_->setPopupMode(QToolButton::InstantPopup);
  add_->setStyleSheet("QToolButton::menu-indicator { image: none; }");
  remove_ = makeToolButton("removeLayerButton", "delete", this);
  up_ = makeToolButton("layerUpButton", "up", this);
  down_ = makeToolButton("layerDownButton", "down", this);
  for (QToolButton* button : {add_, remove_, up_, down_}) layerCard_->head()->addWidget(button);
  table_ = new QTableView(this);
  table_->setObjectName("layerTable");
  table_->setModel(layers_);
  dressTable(table_);
  setColumns(table_, {98, 98, 95, 92, 93, 84});
  layerCard_->body()->addWidget(table_);

  fieldCard_ = new Card("fieldCard", this);
  sections_ = new QTabBar(this);
  sections_->setObjectName("fieldSections");
  sections_->setExpanding(false);
  sections_->setDocumentMode(true);
  for (int i = 0; i < 5; ++i) sections_->addTab({});
  fields_ = new FieldModel(this->document(), this);
  fieldTable_ = new QTableView(this);
  fieldTable_->setObjectName("fieldTable");
  fieldTable_->setModel(fields_);
  dressTable(fieldTable_);
  fieldTable_->verticalHeader()->setDefaultSectionSize(28);
  fieldTable_->horizontalHeader()->hide();
  fieldTable_->setItemDelegateForColumn(1, new FieldDelegate(fieldTable_));
  fieldTable_->setEditTriggers(QAbstractItemView::SelectedClicked | QAbstractItemView::DoubleClicked |
                               QAbstractItemView::EditKeyPressed | QAbstractItemView::AnyKeyPressed);
  fieldTable_->setColumnWidth(0, 180);
  fieldCard_->body()->addWidget(sections_);
  fieldCard_->body()->addWidget(fieldTable_, 1);

  auto* left = new QSplitter(Qt::Vertical, this);
  left->setObjectName("modelLeftSplitter");
  left->addWidget(layerCard_);
  left->addWidget(fieldCard_);
  left->setChildrenCollapsible(false);
  left->setSizes({320, 300});
  auto* splitter = new QSplitter(Qt::Horizontal, this);
  splitter->setObjectName("modelSplitter");
  splitter->addWidget(left);
  splitter->addWidget(textSide());
  splitter->setChildrenCollapsible(false);
  splitter->setSizes({660, 270});
  body()->addWidget(splitter, 1);

  connect(launch_, &QPushButton::clicked, this, &ModelPage::launchWanted);
  connect(remove_, &QToolButton::clicked, this, &ModelPage::removeLayer);
  connect(up_, &QToolButton::clicked, this, [this] { moveLayer(-1); });
  connect(down_, &QToolButton::clicked, this, [this] { moveLayer(1); });
  connect(sections_, &QTabBar::currentChanged, this, &ModelPage::showSection);
  connect(table_->selectionModel(), &QItemSelectionModel::currentRowChanged, this, [this] {
    sections_->setCurrentIndex(kLayer);
    showSection();
    refreshButtons();
    const auto mark = this->document()->spec().mark(layers_->listPath() + "[" + std::to_string(currentLayer()) + "]");
    if (mark && !editor()->hasFocus()) editor()->goTo(mark->line, mark->column);
  });
  connect(layers_, &LayerTableModel::totalsChanged, this, [this] { documentChanged(); });
  connect(fields_, &FieldModel::refused, this, [this](const Error& error) { message()->showError(error); });
  retranslate();
  showSection();
}

int ModelPage::currentLayer() const {
  const QModelIndex at = table_->currentIndex();
  return at.isValid() ? at.row() : -1;
}

void ModelPage::selectLayer(int row) { table_->selectRow(row); }

void ModelPage::addLayer(const QString& yaml) {
  const int count = document()->spec().count(layers_->listPath());
  const int at = currentLayer() >= 0 ? currentLayer() + 1 : count;
  const Status status = document()->insertItem(layers_->listPath(), at, yaml, tr("Add layer"));
  showStatus(status);
  if (status.ok()) table_->selectRow(at);
}

void ModelPage::removeLayer() {
  const int row = currentLayer();
  if (row >= 0) showStatus(document()->removeItem(layers_->listPath(), row, tr("Remove layer")));
}

void ModelPage::moveLayer(int by) {
  const int row = currentLayer(), to = row + by;
  if (row < 0 || to < 0 || to >= layers_->rowCount()) return;
  const Status status = document()->moveItem(layers_->listPath(), row, to, tr("Move layer"));
  showStatus(status);
  if (status.ok()) table_->selectRow(to);
}

void ModelPage::showSection() {
  const std::string model = layers_->listPath() == "layers" ? "" : "model";
  switch (sections_->currentIndex()) {
    case kLayer: {
      const int row = currentLayer();
      if (row < 0 || layers_->modelIsFile()) {
        fields_->setSections({});
        break;
      }
      const std::string path = layers_->listPath() + "[" + std::to_string(row) + "]";
      const std::string kind = document()->spec().layerKind(path);
      std::vector<FieldModel::Section> sections{{path, {}}};
      if (!kind.empty()) sections.push_back({path + "." + kind, QString::fromStdString(kind)});
      fields_->setSections(std::move(sections));
      break;
    }
    case kModel:
      fields_->setSections({{model, {}}, {model.empty() ? "input" : "model.input", tr("Input")}});
      break;
    case kTraining:
      fields_->setSections({{"training", {}},
                            {"training.optimizer", tr("Optimizer")},
                            {"training.loss_scale", tr("Loss scale")},
                            {"training.checkpoint", tr("Checkpoints")}});
      break;
    case kStrategy: fields_->setSections({{"strategy", {}}}); break;
    case kData:
      fields_->setSections({{"data", {}},
                            {"data.train", tr("Training data")},
                            {"data.evaluate", tr("Evaluation data")},
                            {"data.augment", tr("Augmentation")}});
      break;
    default: break;
  }
}

void ModelPage::refreshButtons() {
  const bool editable = document()->spec().readable() && !layers_->modelIsFile();
  const int row = currentLayer();
  add_->setEnabled(editable);
  remove_->setEnabled(editable && row >= 0);
  up_->setEnabled(editable && row > 0);
  down_->setEnabled(editable && row >= 0 && row + 1 < layers_->rowCount());
  launch_->setEnabled(document()->spec().ok());
}

void ModelPage::documentChanged() {
  SpecPage::documentChanged();
  if (!fields_) return;
  if (sections_->currentIndex() == kLayer) showSection();
  refreshButtons();
  const bool known = layers_->described();
  const QString dash(QChar(0x2014));
  parameters_->setValue(known ? formatCount(layers_->parameters()) : dash);
  flops_->setValue(known ? formatFlops(layers_->flops()) : dash);
  activations_->setValue(known ? formatBytes(static_cast<double>(layers_->activationBytes())) : dash);
  batch_->setValue(QString::fromStdString(document()->spec().value("training.batch").value_or("—")));
  heading_->setText(QString::fromStdString(document()->spec().value("model.name").value_or(document()->name().toStdString())));
  Q_EMIT inspectorChanged();
}

QVector<InspectorRow> ModelPage::inspectorRows() const {
  QVector<InspectorRow> out;
  const int row = currentLayer();
  if (row >= 0 && row < layers_->rowCount()) {
    out << InspectorRow{layers_->index(row, LayerTableModel::kName).data().toString(), {}, true};
    for (int column = LayerTableModel::kKind; column < LayerTableModel::kColumns; ++column) {
      out << InspectorRow{layers_->headerData(column, Qt::Horizontal, Qt::DisplayRole).toString(),
                          layers_->index(row, column).data().toString()};
    }
  }
  out << InspectorRow{tr("Run spec"), {}, true};
  const auto field = [&](const char* path, const QString& name) {
    if (const auto value = document()->spec().value(path)) {
      out << InspectorRow{name, QString::fromStdString(*value)};
    }
  };
  field("strategy.kind", tr("Strategy"));
  field("training.batch", tr("Global batch"));
  field("training.epochs", tr("Epochs"));
  field("training.optimizer.kind", tr("Optimizer"));
  field("training.optimizer.learning_rate", tr("Learning rate"));
  field("training.precision", tr("Precision"));
  out << InspectorRow{tr("Layers"), QString::number(layers_->rowCount())};
  out << InspectorRow{tr("File"), formatPath(document()->path())};
  return out;
}

void ModelPage::fillAddMenu() {
  addMenu_->clear();
  for (const Preset& preset : kPresets) {
    QAction* action = addMenu_->addAction(tr(preset.name));
    connect(action, &QAction::triggered, this, [this, yaml = QString(preset.yaml)] { addLayer(yaml); });
  }
}

void ModelPage::retranslate() {
  SpecPage::retranslate();
  setTexts(launch_, tr("Launch…"), tr("Choose where and how it runs, see what it will cost, start it"));
  parameters_->setName(tr("Parameters"));
  flops_->setName(tr("Forward pass, one sample"));
  activations_->setName(tr("Activations, one sample"));
  batch_->setName(tr("Global batch"));
  layerCard_->setTitle(tr("Layers"));
  fieldCard_->setTitle(tr("Settings"));
  setTexts(add_, tr("Add layer"));
  setTexts(remove_, tr("Remove layer"));
  setTexts(up_, tr("Move layer up"));
  setTexts(down_, tr("Move layer down"));
  sections_->setTabText(kLayer, tr("Layer"));
  sections_->setTabText(kModel, tr("Model"));
  sections_->setTabText(kTraining, tr("Training"));
  sections_->setTabText(kStrategy, tr("Strategy"));
  sections_->setTabText(kData, tr("Data"));
  sections_->setAccessibleName(tr("Part of the spec"));
  table_->setAccessibleName(tr("Layers"));
  fieldTable_->setAccessibleName(tr("Fields"));
  layers_->retranslate();
  fillAddMenu();
  showSection();
  setAccessibleName(tr("Model %1").arg(heading_->text()));
  documentChanged();
}

}  // namespace lockstep::ui
