// The form of the launch dialog: its fields and their texts, what they ask for, and the command
// that asks for the same.
#include <QAbstractItemView>
#include <QApplication>
#include <QCheckBox>
#include <QClipboard>
#include <QComboBox>
#include <QDir>
#include <QFileInfo>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QScrollArea>
#include <QScrollBar>
#include <QSpinBox>
#include <QThread>
#include <QToolButton>
#include <algorithm>
#include <cstdlib>
#include <initializer_list>

#include "app/core/home.h"
#include "app/specs/spec_text.h"
#include "engine/base/shell_text.h"
#include "ui/dialogs/advice_panel.h"
#include "ui/dialogs/launch_dialog.h"
#include "ui/dialogs/launch_preview.h"
#include "ui/dialogs/option_fields.h"
#include "ui/dialogs/prediction_view.h"
#include "ui/dialogs/rank_fields.h"
#include "ui/dialogs/strategy_fields.h"
#include "ui/models/field_model.h"
#include "ui/studio/run_document.h"
#include "ui/studio/run_stop.h"
#include "ui/studio/workspace.h"
#include "ui/theme/format.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr int kDefaultNodes = 3;
constexpr int kFieldWidth = 195;      // pixels
constexpr int kMostBatch = 16777216;  // as a spec may have
constexpr int kMostEpochs = 1'000'000;

// One word of a shell command.
QString shellWord(const QString& text) {
  return QString::fromStdString(shellLine({text.toStdString()}));
}

// A file as a word of a shell command, in the home folder as ~/….
QString shellPath(const QString& path) {
  const QString home = QDir::homePath() + '/';
  return path.startsWith(home) ? "~/" + shellWord(path.mid(home.size())) : shellWord(path);
}

// What a field shows of a spec's number, which may be more than it can hold.
int shownIn(const QSpinBox* field, const app::SpecText& spec, const char* path) {
  const std::string text = spec.value(path).value_or(spec.defaultOf(path).value_or("1"));
  return static_cast<int>(std::clamp<long long>(std::strtoll(text.c_str(), nullptr, 10),
                                                field->minimum(), field->maximum()));
}

// Without epochs it has a limit of steps.
bool isOfSteps(const app::SpecText& spec) {
  return !spec.value("training.epochs") &&
         std::strtoll(spec.value("training.max_steps").value_or("0").c_str(), nullptr, 10) > 0;
}

int shownEpochs(const QSpinBox* field, const app::SpecText& spec) {
  return isOfSteps(spec) ? 0 : shownIn(field, spec, "training.epochs");
}

QString writtenPrecision(const app::SpecText& spec) {
  return QString::fromStdString(spec.value("training.precision").value_or("fp32"));
}

// As wide as the settings and a scroll bar.
class SettingsArea : public QScrollArea {
 public:
  SettingsArea(QWidget* settings, QWidget* parent) : QScrollArea(parent) {
    setWidget(settings);
    setWidgetResizable(true);
    setFrameShape(QFrame::NoFrame);
    setFocusPolicy(Qt::NoFocus);
    setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Expanding);
  }
  QSize sizeHint() const override {
    return widget()->layout()->sizeHint() + QSize(verticalScrollBar()->sizeHint().width(), 0);
  }
  QSize minimumSizeHint() const override { return {sizeHint().width(), 0}; }

 protected:
  bool eventFilter(QObject* object, QEvent* event) override {
    if (object == widget() && event->type() == QEvent::LayoutRequest) {
      widget()->setMinimumHeight(widget()->layout()->sizeHint().height());
      updateGeometry();
    }
    return QScrollArea::eventFilter(object, event);
  }
};

}  // namespace

LaunchDialog::LaunchDialog(QVector<LaunchModel> models, QVector<LaunchTarget> targets,
                           Workspace& workspace, QWidget* parent,
                           std::optional<app::Relaunch> again)
    : Dialog("launchDialog", parent),
      models_(std::move(models)),
      targets_(std::move(targets)),
      again_(std::move(again)),
      workspace_(workspace) {
  QSize size(1240, 760);
  if (parent)
    size = size.boundedTo(parent->window()->size() - QSize(40, 60)).expandedTo({900, 540});
  resize(size);
  auto* columns = new QHBoxLayout;
  columns->setSpacing(kSpaceL);
  makeFields();
  makeForm();
  columns->addWidget(makeSettings());
  prediction_ = new PredictionView(this);
  columns->addWidget(prediction_, 1);
  content()->addLayout(columns, 1);
  unsaved_ = makeLabel("launchUnsaved", this);
  unsaved_->setWordWrap(true);
  content()->addWidget(unsaved_);
  content()->addLayout(makeCommandRow());
  content()->addLayout(makeProgressRow());
  message_ = new MessagePanel(this);
  message_->setArea(prediction_->tabs());
  fillModelsAndTargets();
  connectFields();
  connectPrediction();
  connect(copy_, &QPushButton::clicked, this,
          [this] { QApplication::clipboard()->setText(command()); });
  delay_.setSingleShot(true);
  delay_.setInterval(120);
  connect(&delay_, &QTimer::timeout, this, &LaunchDialog::makePreview);
  setBusy(false, {});
  model_->setFocus();
  form_->setRowVisible(comm_, false);
  takeModel();
  fillRanks();
  retranslate();
  schedule();
}

void LaunchDialog::seekFaster(RunDocument* underWay) {
  unchanged_ = settingWords();
  underWay_ = underWay;
  stopsFirst_ = underWay != nullptr;
  if (stopsFirst_) {
    const auto refresh = [this] {
      if (!isStarting()) refreshAccept();
    };
    connect(underWay, &RunDocument::rowChanged, this, refresh);
    connect(underWay, &QObject::destroyed, this, refresh);
    for (QPushButton* button : {prediction_->benchmarkButton(), prediction_->preflightButton()})
      button->hide();  // it has the nodes
  }
  retranslate();
  schedule();
  prediction_->tabs()->setCurrentWidget(prediction_->advice());
  prediction_->advice()->search();
}

void LaunchDialog::makeFields() {
  model_ = new QComboBox(this);
  model_->setObjectName("launchModel");
  modelDetail_ = makeLabel("launchModelDetail", this, "muted");
  target_ = new QComboBox(this);
  target_->setObjectName("launchCluster");
  targetDetail_ = makeLabel("launchClusterDetail", this, "muted");
  for (QLabel* detail : {modelDetail_, targetDetail_}) detail->setFont(Theme::instance().small());
  nodes_ = new QSpinBox(this);
  nodes_->setObjectName("launchNodes");
  nodes_->setRange(1, 64);
  nodes_->setValue(kDefaultNodes);
  batch_ = new QSpinBox(this);
  batch_->setObjectName("launchBatch");
  batch_->setRange(1, kMostBatch);
  epochs_ = new QSpinBox(this);
  epochs_->setObjectName("launchEpochs");
  precision_ = new QComboBox(this);
  precision_->setObjectName("launchPrecision");
  for (const auto& field : app::SpecText::fields(app::SpecKind::kRun, "training")) {
    if (field.name != "precision") continue;
    for (const auto& choice : field.choices) {
      const QString text = QString::fromStdString(choice);
      if (!choice.empty()) precision_->addItem(text, text);
    }
  }
  comm_ = new QComboBox(this);
  comm_->setObjectName("launchComm");
  comm_->addItem({}, QString());
  comm_->addItem("gloo", "gloo");
  comm_->addItem("shm", "shm");
  comm_->addItem("nccl", "nccl");
  more_ = makeToolButton("launchMore", "down", this);
  more_->setCheckable(true);
  more_->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
  requeue_ = new QCheckBox(this);
  requeue_->setObjectName("launchRequeue");
  measure_ = new QCheckBox(this);
  measure_->setObjectName("launchMeasure");
  measure_->setChecked(true);
  for (QWidget* field :
       std::initializer_list<QWidget*>{model_, target_, nodes_, batch_, epochs_, precision_, comm_})
    leaveWheel(field);
}

void LaunchDialog::addRow(QWidget* field) {
  field->setMinimumWidth(kFieldWidth);
  auto* label = makeLabel(field->objectName() + "Label", this);
  label->setBuddy(field);
  rows_ << Row{label, field};
  form_->addRow(label, field);
}

void LaunchDialog::makeForm() {
  form_ = new QFormLayout;
  form_->setHorizontalSpacing(kSpaceM);
  form_->setVerticalSpacing(kSpaceS);
  form_->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  addRow(model_);
  form_->addRow(QString(), modelDetail_);
  addRow(target_);
  form_->addRow(QString(), targetDetail_);
  addRow(nodes_);
  ranks_ = new RankFields("launchRanksArea", this);
  addRow(ranks_);
  form_->addRow(QString(), requeue_);
  strategy_ = new StrategyFields(form_, this);
  for (QWidget* field : std::initializer_list<QWidget*>{batch_, epochs_, precision_}) addRow(field);
  form_->addRow(QString(), more_);
  strategy_->addAdvanced();
  schedule_ = new OptionFields("training.schedule", form_, this);
  schedule_->addRows(true);
  addRow(comm_);
  form_->addRow(QString(), measure_);
}

// A low window scrolls the settings: none of them is squeezed.
QWidget* LaunchDialog::makeSettings() {
  auto* settings = new QWidget;
  auto* left = new QVBoxLayout(settings);
  left->setContentsMargins(0, 0, kSpaceM, 0);
  left->setSpacing(kSpaceS);
  left->addLayout(form_);
  left->addStretch(1);
  auto* area = new SettingsArea(settings, this);
  area->setObjectName("launchSettings");
  return area;
}

QLayout* LaunchDialog::makeCommandRow() {
  auto* row = new QHBoxLayout;
  commandLabel_ = makeLabel("launchCommandLabel", this, "muted");
  command_ = new QLineEdit(this);
  command_->setObjectName("launchCommand");
  command_->setReadOnly(true);
  command_->setFont(Theme::instance().monospace());
  commandLabel_->setBuddy(command_);
  copy_ = makeButton("copyCommandButton", "copy", this);
  row->addWidget(commandLabel_);
  row->addWidget(command_, 1);
  row->addWidget(copy_);
  return row;
}

// Always there, so that nothing moves when something begins.
QLayout* LaunchDialog::makeProgressRow() {
  auto* row = new QHBoxLayout;
  busy_ = new QProgressBar(this);
  busy_->setObjectName("launchProgress");
  busy_->setRange(0, 0);
  busy_->setTextVisible(false);
  busy_->setFixedWidth(140);
  QSizePolicy kept = busy_->sizePolicy();
  kept.setRetainSizeWhenHidden(true);
  busy_->setSizePolicy(kept);
  busyText_ = makeLabel("launchProgressText", this, "muted");
  busyText_->setMinimumHeight(busyText_->fontMetrics().height());
  row->addWidget(busy_);
  row->addWidget(busyText_, 1);
  return row;
}

void LaunchDialog::fillModelsAndTargets() {
  const auto same = [](const auto& list, const QString& title) {
    return std::count_if(list.begin(), list.end(),
                         [&](const auto& one) { return one.title == title; }) > 1;
  };
  // Entries of the same name are told apart by their folder.
  const auto shown = [&](const auto& list, const auto& one) {
    return same(list, one.title)
               ? tr("%1 in %2").arg(one.title, formatPath(QFileInfo(one.file).path()))
               : one.title;
  };
  for (const LaunchModel& one : models_)
    model_->addItem(Theme::instance().icon("model"), shown(models_, one));
  for (const LaunchTarget& one : targets_)
    target_->addItem(Theme::instance().icon("cluster"), shown(targets_, one));
  if (!again_) target_->addItem(Theme::instance().icon("home"), {});
  for (QComboBox* box : {model_, target_}) {
    box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
    box->setMinimumContentsLength(18);
    box->view()->setTextElideMode(Qt::ElideMiddle);
  }
}

void LaunchDialog::connectFields() {
  connect(model_, &QComboBox::currentIndexChanged, this, &LaunchDialog::takeModel);
  connect(target_, &QComboBox::currentIndexChanged, this, [this] {
    measuredShown_ = asked_ = false;
    fillRanks();
    schedule();
  });
  for (QSpinBox* spin : {nodes_, batch_, epochs_}) {
    connect(spin, &QSpinBox::valueChanged, this, &LaunchDialog::schedule);
  }
  connect(strategy_, &StrategyFields::changed, this, &LaunchDialog::schedule);
  connect(schedule_, &OptionFields::changed, this, &LaunchDialog::schedule);
  connect(precision_, &QComboBox::currentIndexChanged, this, &LaunchDialog::schedule);
  connect(comm_, &QComboBox::currentIndexChanged, this, &LaunchDialog::schedule);
  for (QCheckBox* check : {requeue_, measure_})
    connect(check, &QCheckBox::toggled, this, &LaunchDialog::schedule);
  connect(more_, &QToolButton::toggled, this, [this](bool on) {
    strategy_->showAdvanced(on);
    schedule_->showAdvanced(on);
    form_->setRowVisible(comm_, on);
  });
  connect(ranks_, &RankFields::changed, this, &LaunchDialog::schedule);
}

void LaunchDialog::connectPrediction() {
  connect(prediction_->benchmarkButton(), &QPushButton::clicked, this, [this] {
    if (!request_ || isStarting()) return;
    asked_ = true;
    benchmark(app::Costs::kBenchmark);
  });
  connect(prediction_->preflightButton(), &QPushButton::clicked, this, &LaunchDialog::preflight);
  connect(prediction_, &PredictionView::compareWanted, this, &LaunchDialog::compare);
  connect(prediction_, &PredictionView::strategyChosen, this, [this](const std::string& kind) {
    if (!isStarting()) strategy_->setKind(kind);
  });
  prediction_->advice()->setSources(
      {[this] { return inputs(); }, [this] { return estimate_; },
       [this](const QStringList& more) { return command("advise", more); }});
  connect(prediction_->advice(), &AdvicePanel::chosen, this, &LaunchDialog::choose);
}

void LaunchDialog::chooseModel(int index) { model_->setCurrentIndex(index); }
void LaunchDialog::chooseTarget(int index) { target_->setCurrentIndex(index); }
void LaunchDialog::chooseNodes(int nodes) { nodes_->setValue(nodes); }
bool LaunchDialog::local() const { return target_->currentIndex() >= targets_.size(); }
const LaunchModel& LaunchDialog::model() const {
  return models_[std::max(0, model_->currentIndex())];
}
const LaunchTarget* LaunchDialog::target() const {
  return local() ? nullptr : &targets_[std::max(0, target_->currentIndex())];
}

void LaunchDialog::takeModel() {
  specYaml_ = model().text();
  const auto spec =
      app::SpecText::parse(specYaml_, model().file.toStdString(), app::SpecKind::kRun);
  ofProgram_ = spec.mark("workload").has_value();
  batch_->setValue(shownIn(batch_, spec, "training.batch"));
  epochs_->setRange(isOfSteps(spec) ? 0 : 1, kMostEpochs);  // zero is said in words
  epochs_->setValue(shownEpochs(epochs_, spec));
  precision_->setCurrentIndex(std::max(0, precision_->findData(writtenPrecision(spec))));
  strategy_->setSpec(spec);
  schedule_->setSpec(spec);
  more_->setChecked(more_->isChecked() || strategy_->anyAdvanced() || schedule_->anyAdvanced());
  showKind();
  retranslate();
  schedule();
}

void LaunchDialog::choose(const QStringList& sets) {
  if (isStarting()) return;
  const auto spec =
      app::SpecText::parse(specYaml_, model().file.toStdString(), app::SpecKind::kRun);
  strategy_->setSpec(spec, sets);
  QString precision = writtenPrecision(spec);
  for (const QString& set : sets)
    if (set.startsWith("training.precision=")) precision = set.section('=', 1);
  precision_->setCurrentIndex(std::max(0, precision_->findData(precision)));
  more_->setChecked(more_->isChecked() || strategy_->anyAdvanced());
}

void LaunchDialog::showKind() {
  strategy_->setHidden(ofProgram_);
  schedule_->setHidden(ofProgram_);
  for (QWidget* field :
       std::initializer_list<QWidget*>{batch_, epochs_, precision_, more_, measure_})
    form_->setRowVisible(field, !ofProgram_);
  form_->setRowVisible(comm_, !ofProgram_ && more_->isChecked());
  prediction_->showKind(ofProgram_);
}

QStringList LaunchDialog::sets(const std::string& strategy) const {
  if (ofProgram_) return {};
  const auto spec =
      app::SpecText::parse(specYaml_, model().file.toStdString(), app::SpecKind::kRun);
  QStringList out = strategy_->sets(spec, strategy) + schedule_->sets(spec);
  if (const int batch = batch_->value(); batch != shownIn(batch_, spec, "training.batch"))
    out << QString("training.batch=%1").arg(batch);
  if (const int epochs = epochs_->value(); epochs != shownEpochs(epochs_, spec))
    out << "training.epochs=" + (epochs > 0 ? QString::number(epochs) : QString());
  const int written = std::max(0, precision_->findData(writtenPrecision(spec)));
  if (precision_->currentIndex() != written)
    out << "training.precision=" + precision_->currentData().toString();
  return out;
}

int LaunchDialog::rankCount() const { return local() ? nodes_->value() : ranks_->count(); }

void LaunchDialog::fillRanks() {
  std::optional<app::SpecText> cluster;
  if (const LaunchTarget* chosen = target()) {
    cluster =
        app::SpecText::parse(chosen->yaml(), chosen->file.toStdString(), app::SpecKind::kCluster);
  }
  ranks_->setCluster(cluster);
  form_->setRowVisible(nodes_, local());
  form_->setRowVisible(ranks_, !ranks_->isEmpty());
  isScheduled_ = cluster && cluster->mark("placement");
  form_->setRowVisible(requeue_, isScheduled_);
  isRequeued_ = cluster && cluster->value("placement.requeue") == "true";
  requeue_->setChecked(isRequeued_);
  showDetails();
}

std::optional<bool> LaunchDialog::requeueChange() const {
  if (requeue_->isChecked() == isRequeued_) return {};
  return requeue_->isChecked();
}

void LaunchDialog::showDetails() {
  const auto show = [](QLabel* label, const QString& text, const QString& tip) {
    label->setText(label->fontMetrics().elidedText(text, Qt::ElideMiddle, kFieldWidth));
    label->setToolTip(tip);
    label->setAccessibleName(tip);
  };
  show(modelDetail_, formatPath(model().file), model().file);
  if (const LaunchTarget* chosen = target()) {
    const QStringList names = ranks_->nodes();
    const QString nodes = names.isEmpty() ? tr("no nodes yet") : names.join(", ");
    show(targetDetail_, nodes, nodes + '\n' + chosen->file);
  } else {
    const QString text = tr("local agents, %1 cores").arg(QThread::idealThreadCount());
    show(targetDetail_, text, text);
  }
}

QString LaunchDialog::command() const {
  QStringList words{"lockstep", "run", shellPath(model().file)};
  if (again_)
    words = {"lockstep", again_->checkpoints.empty() ? "rerun" : "resume",
             QString::fromStdString(again_->run)};
  words << settingWords();
  if (const auto requeue = requeueChange()) words << (*requeue ? "--requeue" : "--no-requeue");
  if (!ofProgram_ && !measure_->isChecked()) words << "--no-benchmark";
  words << globalWords();
  if (stopsFirst_)
    words = QStringList{"lockstep", "stop", QString::fromStdString(again_->run)} + globalWords() +
            QStringList{"&&"} + words;
  return words.join(' ');
}

// The command reads files: unsaved text stands in none, and of a run of the history there is advice
// alone, on the ranks that it had.
QString LaunchDialog::command(const QString& name, const QStringList& more) const {
  if (ofProgram_ || !unsaved_->text().isEmpty()) return {};
  QStringList words{"lockstep", name, shellPath(model().file)};
  if (again_) {
    const bool onOthers =
        !ranks_->changes().isEmpty() || !comm_->currentData().toString().isEmpty();
    if (name != "advise" || onOthers) return {};
    words = {"lockstep", name, "--run", QString::fromStdString(again_->run)};
  }
  words += settingWords();
  for (const QString& word : more) words << shellWord(word);
  return (words + globalWords()).join(' ');
}

QStringList LaunchDialog::settingWords() const {
  QStringList words;
  const LaunchTarget* chosen = target();
  if (!again_ && chosen) words << "--cluster" << shellPath(chosen->file);
  if (!again_ && !chosen) words << "--local" << QString::number(nodes_->value());
  for (const QString& one : ranks_->changes()) words << "--ranks" << shellWord(one);
  for (const QString& set : sets()) words << "--set" << shellWord(set);
  if (!ofProgram_ && !comm_->currentData().toString().isEmpty())
    words << "--comm" << comm_->currentData().toString();
  return words;
}

QStringList LaunchDialog::globalWords() const {
  QStringList words;
  if (!workspace_.sshConfig().isEmpty())
    words << "--ssh-config" << shellPath(workspace_.sshConfig());
  const auto usual = app::homeFolder();
  if (!usual || *usual != workspace_.home().root) {
    words << "--home" << shellPath(QString::fromStdString(workspace_.home().root));
  }
  return words;
}

std::shared_ptr<LiveCluster> LaunchDialog::connected() const {
  const LaunchTarget* chosen = target();
  return chosen && chosen->connected ? chosen->connected() : nullptr;
}

LaunchInputs LaunchDialog::inputs() const {
  LaunchInputs in;
  if (const std::shared_ptr<LiveCluster> live = connected())
    in.hosts = app::hostsOf(live->session());
  in.specYaml = specYaml_;
  in.specFile = model().file.toStdString();
  for (const QString& set : sets()) in.sets.push_back(set.toStdString());
  if (!ofProgram_) in.comm = comm_->currentData().toString().toStdString();
  in.measure = measure_->isChecked();
  in.localFolder = workspace_.home().root + "/local";
  if (again_) {
    in.repeatedRun = again_->run;
    in.historyFolder = workspace_.home().historyFolder();
  }
  if (again_ && !again_->checkpoints.empty()) {
    in.resumeFrom = again_->checkpoints;
    in.resumedRun = again_->run;
  }
  if (const LaunchTarget* chosen = target()) {
    in.clusterYaml = chosen->yaml();
    in.clusterFile = chosen->file.toStdString();
    for (const QString& one : ranks_->changes()) in.ranks.push_back(one.toStdString());
    in.requeue = requeueChange();
  } else {
    in.localNodes = nodes_->value();
  }
  return in;
}

void LaunchDialog::retranslateHeading() {
  setButtons(tr("Launch"), tr("Cancel"));
  if (!again_) return setHeading(tr("Launch %1").arg(model().title), {});
  const QString name = QString::fromStdString(again_->name),
                run = QString::fromStdString(again_->run);
  if (unchanged_) {
    if (stopsFirst_) setButtons(tr("Stop and resume"), tr("Cancel"));
    const QString text =
        stopsFirst_ ? tr("Choose a strategy. Run %1 finishes its step, saves a checkpoint and "
                         "stops, and is resumed with it as a new run.")
        : again_->checkpoints.empty()
            ? tr("Choose a strategy. Run %1 is launched again with it from its start, as a new "
                 "run.")
            : tr("Choose a strategy. Run %1 is resumed with it from its last checkpoint, as a new "
                 "run.");
    setHeading(tr("Faster strategy for %1").arg(name), text.arg(run));
  } else if (again_->checkpoints.empty()) {
    setHeading(tr("Rerun %1").arg(name),
               tr("Launches run %1 again from its start, as a new run.").arg(run));
  } else {
    setHeading(tr("Resume %1").arg(name),
               tr("Continues run %1 from its last checkpoint, as a new run.").arg(run));
  }
}

void LaunchDialog::retranslate() {
  retranslateHeading();
  if (!isStarting()) refreshAccept();
  const auto training = [](const char* field) {
    return fieldHelpOf(app::SpecKind::kRun, std::string("training.") + field);
  };
  const std::pair<QString, QString> texts[] = {
      {tr("Model"), tr("Run spec to launch: model, data, training and strategy")},
      {tr("Cluster"), tr("Cluster to run on")},
      {tr("Local nodes"), tr("Agents on this machine, each with one rank")},
      {tr("Ranks on each node"), tr("Number of ranks on each node; overrides the cluster")},
      {tr("Global batch"), training("batch")},
      {tr("Epochs"), training("epochs")},
      {tr("Precision"), training("precision")},
      {tr("Communicator"), tr("Communicator between ranks; overrides the cluster")},
  };
  for (int i = 0; i < rows_.size(); ++i) {
    rows_[i].label->setText(texts[i].first);
    rows_[i].label->setToolTip(texts[i].second);
    rows_[i].field->setAccessibleName(texts[i].first);
    rows_[i].field->setToolTip(texts[i].second);
  }
  if (!again_) target_->setItemText(target_->count() - 1, tr("This machine"));
  comm_->setItemText(0, tr("Automatic"));
  strategy_->retranslate();
  schedule_->retranslate();
  if (epochs_->minimum() == 0)
    epochs_->setSpecialValueText(tr("Until the step limit"));
  else
    epochs_->setSpecialValueText({});
  more_->setText(tr("More options"));
  more_->setAccessibleName(more_->text());
  more_->setToolTip(
      tr("Compression, recomputation, overlap, learning rate schedule, communicator"));
  requeue_->setText(tr("Queue again after the time limit"));
  requeue_->setAccessibleName(requeue_->text());
  requeue_->setToolTip(fieldHelpOf(app::SpecKind::kCluster, "placement.requeue"));
  measure_->setText(tr("Benchmark nodes before launch"));
  measure_->setAccessibleName(measure_->text());
  measure_->setToolTip(
      tr("Benchmarks the first node for about 2 seconds, to calibrate plan and prediction"));
  ranks_->retranslate();
  prediction_->retranslate();
  commandLabel_->setText(tr("Command"));
  command_->setAccessibleName(commandLabel_->text());
  command_->setToolTip(tr("Command that launches the same run from a terminal"));
  busy_->setAccessibleName(tr("Progress"));
  setTexts(copy_, tr("Copy"), tr("Copy the command"));
  showDetails();
  if (preview_) showPrediction();
}

}  // namespace lockstep::ui
