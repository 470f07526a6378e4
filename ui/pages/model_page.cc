#include "ui/pages/model_page.h"

#include <QAction>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QMenu>
#include <QSplitter>
#include <QStackedWidget>
#include <QTabBar>
#include <QTabWidget>
#include <QTableView>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

#include "engine/base/shell_text.h"
#include "ui/models/field_model.h"
#include "ui/models/layer_table_model.h"
#include "ui/pages/data_panel.h"
#include "ui/pages/field_form.h"
#include "ui/pages/graph_panel.h"
#include "ui/pages/layer_graph_view.h"
#include "ui/theme/format.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"
#include "ui/widgets/yaml_editor.h"

namespace lockstep::ui {
namespace {

enum Section { kLayer, kModel, kTraining, kStrategy, kData, kProgram };

}  // namespace

ModelPage::ModelPage(std::unique_ptr<SpecDocument> document, QWidget* parent)
    : SpecPage("modelPage", "model:", std::move(document), parent) {
  buildHead();
  buildLayers();
  buildFields();
  buildViews();
  buildLayerActions();
  auto* left = new QSplitter(Qt::Vertical, this);
  left->setObjectName("modelLeftSplitter");
  left->addWidget(layerCard_);
  left->addWidget(fieldCard_);
  left->setChildrenCollapsible(false);
  left->setSizes({290, 340});
  auto* splitter = new QSplitter(Qt::Horizontal, this);
  splitter->setObjectName("modelSplitter");
  splitter->addWidget(left);
  splitter->addWidget(views_);
  splitter->setChildrenCollapsible(false);
  splitter->setStretchFactor(0, 10);
  splitter->setStretchFactor(1, 9);
  splitter->setSizes({500, 450});
  body()->addWidget(splitter, 1);
  const QWidgetList order{
      launch_,   add_,           remove_,          up_,     down_, table_, noLayersButton_,
      sections_, form_->table(), views_->tabBar(), editor()};
  for (qsizetype i = 1; i < order.size(); ++i) setTabOrder(order[i - 1], order[i]);
  connectParts();
  retranslate();
  showSection();
}

void ModelPage::buildHead() {
  auto* head = new QHBoxLayout;
  heading_ = makeHeading("modelHeading", this);
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
}

void ModelPage::buildLayers() {
  layers_ = new LayerTableModel(document(), this);
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
  applyTableStyle(table_);
  table_->setEditTriggers(QAbstractItemView::SelectedClicked | QAbstractItemView::DoubleClicked |
                          QAbstractItemView::EditKeyPressed);
  setColumns(table_, {118, 104, 92, 88, 86, 90, 56});
  columns_ = new ColumnFitter(
      table_, {LayerTableModel::kMemory, LayerTableModel::kFlops, LayerTableModel::kParameters},
      80);
  buildNoLayers();
  layerStack_ = new QStackedWidget(this);
  layerStack_->addWidget(table_);
  layerStack_->addWidget(noLayers_);
  layerCard_->body()->addWidget(layerStack_);
}

// Shown in place of the table for a model without layers.
void ModelPage::buildNoLayers() {
  noLayers_ = new QWidget(this);
  noLayers_->setObjectName("noLayers");
  noLayersText_ = makeLabel("noLayersText", this, "muted");
  noLayersText_->setAlignment(Qt::AlignCenter);
  noLayersText_->setWordWrap(true);
  noLayersButton_ = makeButton("noLayersButton", "add", this);
  auto* invitation = new QVBoxLayout(noLayers_);
  invitation->setContentsMargins({});
  invitation->addStretch(1);
  invitation->addWidget(noLayersText_);
  invitation->addWidget(noLayersButton_, 0, Qt::AlignCenter);
  invitation->addStretch(1);
}

void ModelPage::buildFields() {
  fieldCard_ = new Card("fieldCard", this);
  sections_ = new QTabBar(this);
  sections_->setObjectName("fieldSections");
  sections_->setExpanding(false);
  sections_->setDocumentMode(true);
  for (int i = kLayer; i <= kProgram; ++i) sections_->addTab({});
  form_ = new FieldForm("fieldTable", document(), this);
  fields_ = form_->fields();
  noLayer_ = makeLabel("noLayerSelected", this, "muted");
  noLayer_->setAlignment(Qt::AlignCenter);
  noLayer_->setWordWrap(true);
  table_->setMinimumHeight(60);
  fieldStack_ = new QStackedWidget(this);
  fieldStack_->addWidget(form_);
  fieldStack_->addWidget(noLayer_);
  fieldCard_->body()->addWidget(sections_);
  fieldCard_->body()->addWidget(fieldStack_, 1);
}

void ModelPage::buildViews() {
  views_ = new QTabWidget(this);
  views_->setObjectName("modelViews");
  views_->setDocumentMode(true);
  graph_ = new GraphPanel(document(), layers_, table_->selectionModel(), this);
  data_ = new DataPanel(document(), this);
  views_->addTab(textSide(), {});
  views_->addTab(graph_, {});
  views_->addTab(data_, {});
}

// The same keys and menu entries for the list and the graph.
void ModelPage::buildLayerActions() {
  const auto action = [this](const char* name, const QList<QKeySequence>& keys, auto call) {
    auto* out = new QAction(this);
    out->setObjectName(name);
    out->setShortcuts(keys);
    out->setShortcutContext(Qt::WidgetShortcut);
    connect(out, &QAction::triggered, this, call);
    return out;
  };
  editAction_ = action("layerEdit", {}, [this] { editLayer(currentLayer()); });
  addAction_ = action("layerAdd", {QKeySequence(Qt::Key_Insert)}, [this] { add_->showMenu(); });
  removeAction_ = action("layerRemove", {QKeySequence(Qt::Key_Delete)}, [this] { removeLayer(); });
  upAction_ = action("layerUp", {QKeySequence(Qt::CTRL | Qt::Key_Up)}, [this] { moveLayer(-1); });
  downAction_ =
      action("layerDown", {QKeySequence(Qt::CTRL | Qt::Key_Down)}, [this] { moveLayer(1); });
  for (QWidget* view : std::initializer_list<QWidget*>{table_, graph_->view()})
    view->addActions({editAction_, addAction_, removeAction_, upAction_, downAction_});
  table_->setContextMenuPolicy(Qt::ActionsContextMenu);
}

void ModelPage::showView(View view) { views_->setCurrentIndex(view); }

void ModelPage::find() {
  if (views_->currentIndex() == kGraphView) return graph_->openSearch();
  showView(kTextView);
  SpecPage::find();
}

void ModelPage::editLayer(int row) {
  if (row >= 0) selectLayer(row);
  sections_->setCurrentIndex(row >= 0 ? kLayer : kModel);
  form_->enter();
}

void ModelPage::takeCursor() {
  const app::SpecText& spec = document()->spec();
  if (!editor()->hasFocus() || !spec.readable() || layers_->modelIsFile()) return;
  const int line = editor()->textCursor().blockNumber() + 1;
  const std::string list = layers_->listPath();
  const auto lineOf = [&](int row) {
    const auto mark = spec.mark(list + "[" + std::to_string(row) + "]");
    return mark ? mark->line : 0;
  };
  const int count = spec.count(list);
  const auto whole = spec.mark(list);
  if (!whole || count == 0 || count != layers_->rowCount() || line < lineOf(0)) return;
  const auto begin = spec.text().begin() + static_cast<std::ptrdiff_t>(whole->offset);
  const int lines =
      static_cast<int>(std::count(begin, begin + static_cast<std::ptrdiff_t>(whole->length), '\n'));
  if (line > whole->line + lines) return;
  int first = 0, last = count - 1;  // the last layer that begins at or before the line
  while (first < last) {
    const int middle = (first + last + 1) / 2;
    if (lineOf(middle) <= line)
      first = middle;
    else
      last = middle - 1;
  }
  if (first != currentLayer()) table_->selectRow(first);
}

void ModelPage::connectParts() {
  connect(graph_->view(), &LayerGraphView::editWanted, this, &ModelPage::editLayer);
  connect(editor(), &QPlainTextEdit::cursorPositionChanged, this, &ModelPage::takeCursor);
  connect(launch_, &QPushButton::clicked, this, &ModelPage::launchWanted);
  connect(remove_, &QToolButton::clicked, this, &ModelPage::removeLayer);
  connect(up_, &QToolButton::clicked, this, [this] { moveLayer(-1); });
  connect(down_, &QToolButton::clicked, this, [this] { moveLayer(1); });
  connect(sections_, &QTabBar::currentChanged, this, &ModelPage::showSection);
  connect(table_->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
          &ModelPage::showLayer);
  connect(layers_, &LayerTableModel::totalsChanged, this, [this] { documentChanged(); });
  connect(fields_, &FieldModel::refused, this,
          [this](const Error& error) { message()->showError(error); });
  connect(layers_, &LayerTableModel::refused, this,
          [this](const Error& error) { message()->showError(error); });
  connect(noLayersButton_, &QPushButton::clicked, add_, &QToolButton::showMenu);
}

void ModelPage::showLayer() {
  sections_->setCurrentIndex(kLayer);
  showSection();
  refreshButtons();
  const auto mark =
      document()->spec().mark(layers_->listPath() + "[" + std::to_string(currentLayer()) + "]");
  if (mark && !editor()->hasFocus()) editor()->goTo(mark->line, mark->column);
  Q_EMIT inspectorChanged();
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
  if (row < 0 || layers_->modelIsFile()) return;
  const Status status = document()->removeItem(layers_->listPath(), row, tr("Remove layer"));
  showStatus(status);
  if (status.ok() && layers_->rowCount() > 0)
    table_->selectRow(std::min(row, layers_->rowCount() - 1));
}

void ModelPage::moveLayer(int by) {
  const int row = currentLayer(), to = row + by;
  if (row < 0 || to < 0 || to >= layers_->rowCount() || layers_->modelIsFile()) return;
  const Status status = document()->moveItem(layers_->listPath(), row, to, tr("Move layer"));
  showStatus(status);
  if (status.ok()) table_->selectRow(to);
}

bool ModelPage::showField(const std::string& path) {
  const std::string list = layers_->listPath() + "[";
  const int wanted = path.starts_with(list) ? std::atoi(path.c_str() + list.size()) : -1;
  if (wanted >= 0 && wanted < layers_->rowCount()) selectLayer(wanted);
  const int before = sections_->currentIndex();
  for (int section = wanted >= 0 ? kLayer : kModel; section < sections_->count(); ++section) {
    if (!sections_->isTabVisible(section)) continue;
    sections_->setCurrentIndex(section);
    if (form_->showField(path)) return true;
    if (wanted >= 0) break;
  }
  sections_->setCurrentIndex(before);
  return false;
}

void ModelPage::problemChosen(const app::SpecProblem& problem) {
  // Fields that are not in the text yet are filled in in the form.
  if (problem.missing && showField(problem.path)) return;
  showView(kTextView);
  SpecPage::problemChosen(problem);
}

void ModelPage::showSection() {
  const std::string model = layers_->listPath() == "layers" ? "" : "model";
  QWidget* shown = form_;
  switch (sections_->currentIndex()) {
    case kLayer: {
      const int row = currentLayer();
      if (row < 0 || layers_->modelIsFile()) {
        fields_->setSections({});
        shown = noLayer_;
        break;
      }
      const std::string path = layers_->listPath() + "[" + std::to_string(row) + "]";
      const std::string kind = document()->spec().layerKind(path);
      std::vector<FieldModel::Section> sections{{path, {}}};
      if (!kind.empty())
        sections.push_back(
            {path + "." + kind, fieldLabelOf(document()->spec().kind(), path + "." + kind)});
      fields_->setSections(std::move(sections));
      break;
    }
    case kModel:
      fields_->setSections({{model, {}}, {model.empty() ? "input" : "model.input", tr("Input")}});
      break;
    case kTraining:
      fields_->setSections({{"training", {}},
                            {"training.optimizer", tr("Optimizer")},
                            {"training.schedule", tr("Learning rate schedule")},
                            {"training.loss_scale", tr("Loss scale")},
                            {"training.checkpoint", tr("Checkpoints")},
                            {"recovery", tr("Recovery")},
                            {"sinks", tr("Sinks")}});
      break;
    case kStrategy:
      fields_->setSections({{"strategy", {}}});
      break;
    case kData: {
      const app::SpecText& spec = document()->spec();
      // of a model not complete yet
      const char* usual = spec.value("model.input.vocabulary") ? "text" : "idx";
      const std::string format =
          spec.value("data.format").value_or(spec.defaultOf("data.format").value_or(usual));
      std::vector<std::string> files{"images", "labels", "images_sha256", "labels_sha256"};
      if (format != "idx") files = {format, "from", "to", format + "_sha256"};
      std::vector<FieldModel::Section> sections{{"data", {}},
                                                {"data.train", tr("Training data"), files},
                                                {"data.evaluate", tr("Evaluation data"), files}};
      if (format == "idx") sections.push_back({"data.augment", tr("Augmentation")});
      fields_->setSections(std::move(sections));
      break;
    }
    case kProgram:
      fields_->setSections({{"workload", {}},
                            {"workload.code", tr("Code")},
                            {"workload.python", tr("Python")},
                            {"workload.metrics", tr("Metrics")},
                            {"workload.artifacts", tr("Artifacts")},
                            {"workload.restart", tr("Restart")},
                            {"recovery", tr("Recovery"), {"policy", "heartbeat_ms", "spares"}},
                            {"sinks", tr("Sinks")}});
      break;
    default:
      break;
  }
  fieldStack_->setCurrentWidget(shown);
}

bool ModelPage::isProgram() const { return document()->spec().mark("workload").has_value(); }

void ModelPage::showKind() {
  const bool program = isProgram();
  layerCard_->setVisible(!program);
  for (Figure* figure : {parameters_, flops_, activations_, batch_}) figure->setVisible(!program);
  for (const View view : {kGraphView, kDataView}) views_->setTabVisible(view, !program);
  for (int section = kLayer; section <= kProgram; ++section)
    sections_->setTabVisible(section, program == (section == kProgram));
  if (sections_->isTabVisible(sections_->currentIndex())) return;
  sections_->setCurrentIndex(program ? kProgram : kModel);
  showSection();
}

void ModelPage::refreshButtons() {
  const bool editable = document()->spec().readable() && !layers_->modelIsFile();
  const int row = currentLayer();
  add_->setEnabled(editable);
  remove_->setEnabled(editable && row >= 0);
  up_->setEnabled(editable && row > 0);
  down_->setEnabled(editable && row >= 0 && row + 1 < layers_->rowCount());
  launch_->setEnabled(document()->spec().ok());
  addAction_->setEnabled(add_->isEnabled());
  removeAction_->setEnabled(remove_->isEnabled());
  upAction_->setEnabled(up_->isEnabled());
  downAction_->setEnabled(down_->isEnabled());
  editAction_->setEnabled(row >= 0);
}

void ModelPage::documentChanged() {
  SpecPage::documentChanged();
  if (!fields_) return;
  showKind();
  if (sections_->currentIndex() == kLayer || sections_->currentIndex() == kData) showSection();
  refreshButtons();
  table_->setColumnHidden(LayerTableModel::kStage, !layers_->pinned());
  columns_->fit();
  const bool none = document()->spec().readable() && layers_->rowCount() == 0;
  layerStack_->setCurrentWidget(none ? noLayers_ : table_);
  const bool known = layers_->described();
  const QString dash(QChar(0x2014));
  parameters_->setValue(known ? formatCount(layers_->parameters()) : dash);
  flops_->setValue(known ? formatFlops(layers_->flops()) : dash);
  activations_->setValue(known ? formatBytes(static_cast<double>(layers_->activationBytes()))
                               : dash);
  batch_->setValue(
      QString::fromStdString(document()->spec().value("training.batch").value_or("—")));
  heading_->setText(QString::fromStdString(document()
                                               ->spec()
                                               .value(isProgram() ? "workload.name" : "model.name")
                                               .value_or(document()->name().toStdString())));
  Q_EMIT inspectorChanged();
}

QVector<InspectorRow> ModelPage::inspectorRows() const {
  QVector<InspectorRow> out;
  const int row = currentLayer();
  if (row >= 0 && row < layers_->rowCount()) {
    out << InspectorRow{layers_->index(row, LayerTableModel::kName).data().toString(), {}, true};
    for (int column = LayerTableModel::kKind; column < LayerTableModel::kColumns; ++column) {
      if (column == LayerTableModel::kStage && !layers_->pinned()) continue;
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
  field("workload.launcher", fieldLabelOf(app::SpecKind::kRun, "workload.launcher"));
  field("workload.code.from", tr("Code"));
  if (!isProgram()) out << InspectorRow{tr("Layers"), QString::number(layers_->rowCount())};
  out << InspectorRow{tr("File"), formatPath(document()->path())};
  return out;
}

void ModelPage::fillAddMenu() {
  addMenu_->clear();
  addMenu_->setToolTipsVisible(true);
  for (const app::LayerKind& kind : app::SpecText::layerKinds()) {
    QAction* action = addMenu_->addAction(optionText(kind.field.label));
    action->setObjectName("addLayer_" + QString::fromStdString(kind.field.name));
    action->setToolTip(optionText(kind.field.help));
    connect(action, &QAction::triggered, this,
            [this, yaml = QString::fromStdString(kind.yaml)] { addLayer(yaml); });
  }
}

void ModelPage::retranslate() {
  SpecPage::retranslate();
  setTexts(launch_, tr("Launch…"),
           tr("Choose cluster and strategy, see the prediction, and launch"));
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
  editAction_->setText(tr("Edit layer"));
  addAction_->setText(tr("Add layer…"));
  removeAction_->setText(remove_->accessibleName());
  upAction_->setText(up_->accessibleName());
  downAction_->setText(down_->accessibleName());
  views_->setTabText(kTextView, tr("Text"));
  views_->setTabText(kGraphView, tr("Graph"));
  views_->setTabText(kDataView, tr("Data"));
  const std::string file = document()->path().toStdString();
  const auto command = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "lockstep");
    words.push_back(file);
    return file.empty() ? QString() : QString::fromStdString(shellLine(words));
  };
  views_->setTabToolTip(kGraphView, command({"layers"}));
  views_->setTabToolTip(kDataView, command({"data", "show"}));
  views_->setAccessibleName(tr("Views of the spec"));
  graph_->retranslate();
  data_->retranslate();
  sections_->setTabText(kLayer, tr("Layer"));
  sections_->setTabText(kModel, tr("Model"));
  sections_->setTabText(kTraining, tr("Training"));
  sections_->setTabText(kStrategy, tr("Strategy"));
  sections_->setTabText(kData, tr("Data"));
  sections_->setTabText(kProgram, tr("Program"));
  sections_->setAccessibleName(tr("Part of the spec"));
  table_->setAccessibleName(tr("Layers"));
  form_->retranslate();
  noLayersText_->setText(tr("No layers yet"));
  setTexts(noLayersButton_, tr("Add layer"));
  noLayer_->setText(tr("Select a layer in the table above to change its settings."));
  layers_->retranslate();
  fillAddMenu();
  showSection();
  setAccessibleName(tr("Model %1").arg(heading_->text()));
  documentChanged();
}

}  // namespace lockstep::ui
