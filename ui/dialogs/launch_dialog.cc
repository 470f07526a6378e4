#include "ui/dialogs/launch_dialog.h"

#include <QApplication>
#include <QCheckBox>
#include <QClipboard>
#include <QComboBox>
#include <QDir>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QFileInfo>
#include <QProgressBar>
#include <QRegularExpression>
#include <QScrollArea>
#include <QScrollBar>
#include <QSpinBox>
#include <QTabWidget>
#include <QTableView>
#include <algorithm>
#include <initializer_list>

#include "app/specs/spec_text.h"
#include "ui/dialogs/strategy_fields.h"
#include "ui/models/placement_model.h"
#include "ui/studio/workspace.h"
#include "ui/theme/error_text.h"
#include "ui/theme/format.h"
#include "ui/theme/message_text.h"
#include "ui/widgets/breakdown_bars.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"
#include "ui/window/background.h"

namespace lockstep::ui {
namespace {

constexpr int kDefaultNodes = 3;

// One word of a shell command.
QString shellWord(const QString& text) {
  static const QRegularExpression plain("^[A-Za-z0-9_./=:@%+,-]+$");
  if (plain.match(text).hasMatch()) return text;
  QString out = text;
  return '\'' + out.replace('\'', "'\\''") + '\'';
}

// A file as a word of a shell command, in the home folder as ~/….
QString shellPath(const QString& path) {
  const QString home = QDir::homePath() + '/';
  return path.startsWith(home) ? "~/" + shellWord(path.mid(home.size())) : shellWord(path);
}

QString writtenPrecision(const app::SpecText& spec) {
  return QString::fromStdString(spec.value("training.precision").value_or("fp32"));
}

// Of rank 0 in a training step.
std::int64_t wireBytes(const plan::Plan& plan) {
  std::int64_t bytes = 0;
  for (const plan::Play& play : plan.plays(0)) {
    for (const plan::Step& one : plan.find(play.program, 0)->steps) {
      if (one.kind == plan::StepKind::kCollective) bytes += one.bytes;
    }
  }
  return bytes;
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

struct LaunchDialog::Inputs {
  std::string specYaml, specFile, clusterYaml, clusterFile, comm, localFolder, resumeFrom, resumedRun;
  std::vector<std::string> sets, ranks;
  std::vector<app::HostFacts> hosts;
  int localNodes = 0;   // 0: the cluster's text
  bool measure = true;
};

LaunchDialog::LaunchDialog(QString specYaml, QString specFile, QVector<LaunchTarget> targets,
                           Workspace& workspace, QWidget* parent, std::optional<app::Relaunch> again)
    : Dialog("launchDialog", parent),
      specYaml_(std::move(specYaml)),
      specFile_(std::move(specFile)),
      again_(std::move(again)),
      targets_(std::move(targets)),
      workspace_(workspace) {
  QSize size(1240, 760);
  if (parent) size = size.boundedTo(parent->window()->size() - QSize(40, 60)).expandedTo({900, 540});
  resize(size);
  message_ = new MessagePanel(this);
  content()->addWidget(message_);
  auto* columns = new QHBoxLayout;
  columns->setSpacing(kSpaceXl);
  auto* form = form_ = new QFormLayout;
  form->setHorizontalSpacing(kSpaceM);
  form->setVerticalSpacing(kSpaceS);
  form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  const auto spec = app::SpecText::parse(specYaml_.toStdString(), specFile_.toStdString(), app::SpecKind::kRun);
  target_ = new QComboBox(this);
  target_->setObjectName("launchCluster");
  nodes_ = new QSpinBox(this);
  nodes_->setObjectName("launchNodes");
  nodes_->setRange(1, 64);
  nodes_->setValue(kDefaultNodes);
  batch_ = new QSpinBox(this);
  batch_->setObjectName("launchBatch");
  batch_->setRange(1, 1'000'000);
  batch_->setValue(std::max(1, std::atoi(spec.value("training.batch").value_or("64").c_str())));
  epochs_ = new QSpinBox(this);
  epochs_->setObjectName("launchEpochs");
  // Zero, said in words: the spec has a limit of steps instead.
  const bool stepsAlone = !spec.value("training.epochs") && std::atoll(spec.value("training.max_steps").value_or("0").c_str()) > 0;
  epochs_->setRange(stepsAlone ? 0 : 1, 1'000'000);
  epochs_->setValue(stepsAlone ? 0 : std::atoi(spec.value("training.epochs").value_or("1").c_str()));
  precision_ = new QComboBox(this);
  precision_->setObjectName("launchPrecision");
  for (const auto& field : app::SpecText::fields(app::SpecKind::kRun, "training")) {
    if (field.name != "precision") continue;
    for (const auto& choice : field.choices) {
      const QString text = QString::fromStdString(choice);
      if (!choice.empty()) precision_->addItem(text, text);
    }
  }
  precision_->setCurrentIndex(std::max(0, precision_->findData(writtenPrecision(spec))));
  comm_ = new QComboBox(this);
  comm_->setObjectName("launchComm");
  comm_->addItem({}, QString());
  comm_->addItem("gloo", "gloo");
  comm_->addItem("shm", "shm");
  comm_->addItem("nccl", "nccl");
  measure_ = new QCheckBox(this);
  measure_->setObjectName("launchMeasure");
  measure_->setChecked(true);
  const auto addRow = [&](QWidget* field) {
    field->setMinimumWidth(190);
    auto* label = makeLabel(field->objectName() + "Label", this);
    label->setBuddy(field);
    labels_ << label;
    form->addRow(label, field);
  };
  addRow(target_);
  addRow(nodes_);
  strategy_ = new StrategyFields(spec, form, this);
  for (QWidget* field : std::initializer_list<QWidget*>{batch_, epochs_, precision_, comm_}) addRow(field);
  form->addRow(QString(), measure_);
  // A low window scrolls the settings: none of them is squeezed.
  auto* settings = new QWidget;
  auto* left = new QVBoxLayout(settings);
  left->setContentsMargins(0, 0, kSpaceM, 0);
  left->setSpacing(kSpaceS);
  left->addLayout(form);
  ranksLabel_ = makeLabel("launchRanksLabel", this, "section");
  ranksArea_ = new QVBoxLayout;
  left->addSpacing(kSpaceS);
  left->addWidget(ranksLabel_);
  left->addLayout(ranksArea_);
  left->addStretch(1);
  auto* settingsArea = new SettingsArea(settings, this);
  settingsArea->setObjectName("launchSettings");
  columns->addWidget(settingsArea);

  auto* right = new QVBoxLayout;
  right->setSpacing(kSpaceM);
  auto* figures = new QHBoxLayout;
  figures->setSpacing(kSpaceL);
  stepTime_ = new Figure("launchStepTime", this);
  throughput_ = new Figure("launchThroughput", this);
  memory_ = new Figure("launchMemory", this);
  wire_ = new Figure("launchWire", this);
  ranks_ = new Figure("launchRanks", this);
  for (Figure* figure : {stepTime_, throughput_, memory_, wire_, ranks_}) figures->addWidget(figure, 1);
  right->addLayout(figures);
  source_ = makeLabel("launchSource", this, "muted");
  source_->setWordWrap(true);
  right->addWidget(source_);
  tabs_ = new QTabWidget(this);
  tabs_->setObjectName("launchTabs");
  tabs_->setDocumentMode(true);
  placementModel_ = new PlacementModel(this);
  placement_ = new QTableView(this);
  placement_->setObjectName("placementTable");
  placement_->setModel(placementModel_);
  dressTable(placement_);
  placement_->horizontalHeader()->setStretchLastSection(false);
  setColumns(placement_, {46, 70, 64, 62, 66, 84, 80, 80, 86, 70});
  bars_ = new BreakdownBars("launchBars", this);
  auto* scroll = new QScrollArea(this);
  scroll->setObjectName("launchBarsScroll");
  scroll->setWidget(bars_);
  scroll->setWidgetResizable(true);
  scroll->setFocusPolicy(Qt::NoFocus);
  plan_ = new QPlainTextEdit(this);
  plan_->setObjectName("planText");
  plan_->setReadOnly(true);
  plan_->setLineWrapMode(QPlainTextEdit::NoWrap);
  plan_->setFont(Theme::instance().monospace());
  plan_->setFrameShape(QFrame::NoFrame);
  remarks_ = makeLabel("launchRemarks", this, "muted");
  remarks_->setWordWrap(true);
  auto* placementPage = new QWidget(this);
  auto* placementLayout = new QVBoxLayout(placementPage);
  placementLayout->setContentsMargins(0, kSpaceS, 0, 0);
  placementLayout->addWidget(placement_, 1);
  placementLayout->addWidget(remarks_);
  auto* barsPage = new QWidget(this);
  auto* barsLayout = new QVBoxLayout(barsPage);
  barsLayout->setContentsMargins(0, kSpaceS, 0, 0);
  barsLayout->addWidget(scroll);
  tabs_->addTab(placementPage, {});
  tabs_->addTab(barsPage, {});
  tabs_->addTab(plan_, {});
  right->addWidget(tabs_, 1);
  columns->addLayout(right, 1);
  content()->addLayout(columns, 1);

  auto* commandRow = new QHBoxLayout;
  auto* commandLabel = makeLabel("launchCommandLabel", this, "muted");
  labels_ << commandLabel;
  command_ = new QLineEdit(this);
  command_->setObjectName("launchCommand");
  command_->setReadOnly(true);
  command_->setFont(Theme::instance().monospace());
  commandLabel->setBuddy(command_);
  copy_ = makeButton("copyCommandButton", "copy", this);
  commandRow->addWidget(commandLabel);
  commandRow->addWidget(command_, 1);
  commandRow->addWidget(copy_);
  content()->addLayout(commandRow);
  auto* busyRow = new QHBoxLayout;
  busy_ = new QProgressBar(this);
  busy_->setObjectName("launchProgress");
  busy_->setRange(0, 0);
  busy_->setTextVisible(false);
  busy_->setFixedWidth(140);
  busyText_ = makeLabel("launchProgressText", this, "muted");
  busyRow->addWidget(busy_);
  busyRow->addWidget(busyText_, 1);
  content()->addLayout(busyRow);

  for (const LaunchTarget& target : targets_) {
    target_->addItem(Theme::instance().icon("cluster"), target.title);
  }
  if (!again_) target_->addItem(Theme::instance().icon("home"), {});
  connect(target_, &QComboBox::currentIndexChanged, this, [this] {
    fillRanks();
    schedule();
  });
  for (QSpinBox* spin : {nodes_, batch_, epochs_}) {
    connect(spin, &QSpinBox::valueChanged, this, &LaunchDialog::schedule);
  }
  connect(strategy_, &StrategyFields::changed, this, &LaunchDialog::schedule);
  connect(precision_, &QComboBox::currentIndexChanged, this, &LaunchDialog::schedule);
  connect(comm_, &QComboBox::currentIndexChanged, this, &LaunchDialog::schedule);
  connect(measure_, &QCheckBox::toggled, this, &LaunchDialog::schedule);
  connect(copy_, &QPushButton::clicked, this, [this] { QApplication::clipboard()->setText(command()); });
  delay_.setSingleShot(true);
  delay_.setInterval(120);
  connect(&delay_, &QTimer::timeout, this, &LaunchDialog::makePreview);
  setBusy(false, {});
  target_->setFocus();
  retranslate();
  fillRanks();
  schedule();
}

LaunchDialog::~LaunchDialog() {
  dropMeasuring();
  if (launch_) {
    launch_->end();
    destroyOn(workspace_.endings(), std::move(launch_), cluster_->keeper());
  }
  if (job_) workspace_.jobs().finish(job_);
}

void LaunchDialog::dropMeasuring() {
  if (!measured_) return;
  measured_->end();
  destroyOn(workspace_.endings(), std::move(measured_), measuredOn_->keeper());
}

// The prediction goes by the nodes themselves as soon as they are there.
void LaunchDialog::nodesChanged() {
  if (!cluster_ || launch_ || measured_ || !preview_ || preview_->measured || !measure_->isChecked()) return;
  if (cluster_->session().allConnected()) schedule();
}

void LaunchDialog::chooseTarget(int index) { target_->setCurrentIndex(index); }
bool LaunchDialog::local() const { return target_->currentIndex() >= targets_.size(); }

QStringList LaunchDialog::sets() const {
  const auto spec = app::SpecText::parse(specYaml_.toStdString(), specFile_.toStdString(), app::SpecKind::kRun);
  QStringList out = strategy_->sets(spec);
  const auto add = [&](const char* path, const QString& value) {
    if (QString::fromStdString(spec.value(path).value_or("")) != value) {
      out << QString("%1=%2").arg(QLatin1String(path), value);
    }
  };
  add("training.batch", QString::number(batch_->value()));
  add("training.epochs", epochs_->value() > 0 ? QString::number(epochs_->value()) : QString());
  const QString precision = precision_->currentData().toString();
  if (precision != writtenPrecision(spec)) out << "training.precision=" + precision;
  return out;
}

QStringList LaunchDialog::ranks() const {
  QStringList out;
  for (const NodeRanks& one : nodeRanks_) {
    if (one.spin->value() != one.written) out << QString("%1=%2").arg(one.node).arg(one.spin->value());
  }
  return out;
}

void LaunchDialog::fillRanks() {
  nodeRanks_.clear();
  form_->setRowVisible(nodes_, local());
  auto* holder = new QWidget;
  holder->setObjectName("launchRanksHolder");
  auto* form = new QFormLayout(holder);
  form->setContentsMargins({});
  form->setHorizontalSpacing(kSpaceM);
  form->setVerticalSpacing(kSpaceXs);
  form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  int labelWidth = 0;
  for (QLabel* label : labels_ + strategy_->labels()) {
    if (form_->indexOf(label) >= 0 && !label->isHidden()) labelWidth = std::max(labelWidth, label->sizeHint().width());
  }
  if (!local()) {
    const LaunchTarget& target = targets_[target_->currentIndex()];
    const auto spec = app::SpecText::parse(target.yaml(), target.file.toStdString(), app::SpecKind::kCluster);
    for (int i = 0; i < spec.count("nodes"); ++i) {
      const std::string path = "nodes[" + std::to_string(i) + "]";
      const QString name = QString::fromStdString(spec.value(path + ".name").value_or(""));
      if (spec.value(path + ".roles[0]") == "evaluator") continue;   // has no ranks
      int written = 0;
      const int devices = spec.count(path + ".devices");
      for (int d = 0; d < devices; ++d) {
        const auto count = spec.value(path + ".devices[" + std::to_string(d) + "].count");
        written += count ? std::max(1, std::atoi(count->c_str())) : 1;
      }
      written = std::max(1, written);
      auto* spin = new QSpinBox(holder);
      spin->setObjectName("launchRanks_" + name);
      spin->setAccessibleName(tr("Ranks on %1").arg(name));
      spin->setRange(1, 4096);
      spin->setValue(written);
      spin->setEnabled(devices <= 1);   // of several kinds of devices: in the cluster's own page
      auto* label = makeLabel("launchRanksLabel_" + name, holder);
      label->setText(name);
      label->setBuddy(spin);
      label->setMinimumWidth(labelWidth);   // in line with the form above
      form->addRow(label, spin);
      connect(spin, &QSpinBox::valueChanged, this, &LaunchDialog::schedule);
      nodeRanks_ << NodeRanks{name, spin, written};
    }
  }
  delete ranksHolder_;
  ranksHolder_ = holder;
  ranksArea_->addWidget(holder);
  ranksLabel_->setVisible(!nodeRanks_.isEmpty());
}

QString LaunchDialog::command() const {
  QStringList words{"lockstep", "run", shellPath(specFile_)};
  if (again_) {
    words = {"lockstep", again_->checkpoints.empty() ? "rerun" : "resume", QString::fromStdString(again_->run)};
  } else if (local()) {
    words << "--local" << QString::number(nodes_->value());
  } else {
    words << "--cluster" << shellPath(targets_[target_->currentIndex()].file);
  }
  for (const QString& one : ranks()) words << "--ranks" << shellWord(one);
  for (const QString& set : sets()) words << "--set" << shellWord(set);
  if (!comm_->currentData().toString().isEmpty()) words << "--comm" << comm_->currentData().toString();
  if (!workspace_.sshConfig().isEmpty()) words << "--ssh-config" << shellPath(workspace_.sshConfig());
  return words.join(' ');
}

void LaunchDialog::schedule() {
  command_->setText(command());
  command_->setCursorPosition(0);
  preview_.reset();
  request_.reset();
  dropMeasuring();
  setBusy(false, {});
  acceptButton()->setEnabled(false);
  ++generation_;
  delay_.start();
}

void LaunchDialog::makePreview() {
  const int generation = generation_;
  Inputs in;
  in.specYaml = specYaml_.toStdString();
  in.specFile = specFile_.toStdString();
  for (const QString& set : sets()) in.sets.push_back(set.toStdString());
  in.comm = comm_->currentData().toString().toStdString();
  in.measure = measure_->isChecked();
  in.localFolder = workspace_.home().root + "/local";
  if (again_ && !again_->checkpoints.empty()) {
    in.resumeFrom = again_->checkpoints;
    in.resumedRun = again_->run;
  }
  std::shared_ptr<LiveCluster> live;
  if (local()) {
    in.localNodes = nodes_->value();
  } else {
    const LaunchTarget& target = targets_[target_->currentIndex()];
    in.clusterYaml = target.yaml();
    in.clusterFile = target.file.toStdString();
    for (const QString& one : ranks()) in.ranks.push_back(one.toStdString());
    live = target.live ? target.live() : nullptr;
  }
  if (live) {
    for (int i = 0; i < live->session().size(); ++i) {
      const auto& node = live->session().status(i);
      if (node.phase != app::NodePhase::kConnected) continue;
      // The load is the whole host's; what its agent may use is known from when it was connected.
      std::int64_t available = node.inventory.memoryAvailable;
      if (node.load.receivedNs > 0) {
        const auto unused = static_cast<std::int64_t>(node.load.memoryTotal - node.load.memoryUsed);
        available = available > 0 ? std::min(available, unused) : unused;
      }
      in.hosts.push_back({node.name, node.inventory.bootId, node.inventory.cores, available});
    }
  }
  struct Made {
    std::optional<app::LaunchRequest> request;
    Result<app::Preview> preview;
  };
  runInBackground(
      this,
      [in]() -> Made {
        auto spec = app::completeRunSpec(in.specYaml, in.specFile, in.sets);
        if (!spec) return {std::nullopt, spec.error()};
        app::ClusterSpecFile cluster;
        if (in.localNodes > 0) {
          cluster = app::localCluster(in.localNodes, in.localFolder, in.comm);
        } else {
          auto read = app::completeClusterSpec(in.clusterYaml, in.clusterFile);
          if (!read) return {std::nullopt, read.error()};
          auto changed = app::withRanks(std::move(*read), in.ranks);
          if (!changed) return {std::nullopt, changed.error()};
          cluster = std::move(*changed);
        }
        app::LaunchRequest request;
        request.spec = spec->spec;
        request.cluster = cluster.spec;
        request.specYaml = in.specYaml;
        request.clusterYaml = cluster.yaml;
        request.comm = in.comm;
        request.measure = in.measure;
        request.resumeFrom = in.resumeFrom;
        request.resumedRun = in.resumedRun;
        auto preview = app::makePreview(request, in.hosts);
        return {std::move(request), std::move(preview)};
      },
      // Not held: what is left of this call may be destroyed after the workspace.
      [this, generation, weak = std::weak_ptr(live)](Made made) {
        if (generation != generation_ || launch_) return;
        if (!made.preview) {
          showError(made.preview.error());
          return;
        }
        if (made.preview->misfit) message_->showError(*made.preview->misfit);
        else message_->clear();
        request_ = std::move(made.request);
        const std::shared_ptr<LiveCluster> live = weak.lock();
        cluster_ = live;
        if (live) connect(live.get(), &LiveCluster::nodeChanged, this, &LaunchDialog::nodesChanged, Qt::UniqueConnection);
        preview_ = std::move(*made.preview);
        show(*preview_);
        acceptButton()->setEnabled(true);
        if (!measure_->isChecked() || !live || !live->session().allConnected()) return;
        setBusy(true, tr("Measuring the nodes"));
        measuredOn_ = live;
        measured_ = std::make_unique<app::MeasuredPreview>(
            *request_, live->session(), workspace_.home(), workspace_.inbox(),
            [this, generation](Result<app::Preview> measured) {
              if (launch_ || generation != generation_) return;
              setBusy(false, {});
              if (!measured) return;   // the built-in prediction stays
              preview_ = std::move(*measured);
              show(*preview_);
            });
      });
}

void LaunchDialog::showError(const Error& error) {
  message_->showError(error);
  placementModel_->setRanks({});
  bars_->setBars({});
  plan_->clear();
  for (Figure* figure : {stepTime_, throughput_, memory_, wire_, ranks_}) {
    figure->setValue(QString(QChar(0x2014)));
  }
  source_->clear();
  remarks_->hide();
}

void LaunchDialog::show(const app::Preview& preview) {
  stepTime_->setValue(formatSeconds(preview.stepSeconds));
  throughput_->setValue(tr("%1/s").arg(formatCount(std::llround(preview.samplesPerSecond))), tr("samples"));
  std::int64_t most = 0;
  for (const auto& rank : preview.ranks) most = std::max(most, rank.totalBytes());
  memory_->setValue(formatBytes(static_cast<double>(most)), tr("at most, a rank"));
  wire_->setValue(formatBytes(static_cast<double>(wireBytes(preview.plan))), tr("a rank and step"));
  ranks_->setValue(QString::number(preview.ranks.size()), QString::fromStdString(preview.comm));
  source_->setText(preview.measured ? tr("Predicted from costs measured on these nodes.")
                                    : tr("Predicted from built-in costs; the nodes are measured once they are connected."));
  placementModel_->setRanks(preview.ranks);
  placement_->resizeColumnsToContents();
  std::vector<BreakdownBar> bars;
  for (const auto& rank : preview.ranks) {
    BreakdownBar bar;
    bar.name = tr("rank %1").arg(rank.rank);
    bar.predicted = {rank.data, rank.forward, rank.backward, rank.waiting, rank.transfer, rank.optimizer};
    bar.hasPredicted = true;
    bars.push_back(std::move(bar));
  }
  bars_->setBars(std::move(bars));
  plan_->setPlainText(QString::fromStdString(preview.planText));
  QStringList remarks;
  for (const auto& remark : preview.remarks) {
    remarks << QString::fromUtf8("• ") + messageText(remark);
  }
  remarks_->setText(remarks.join('\n'));
  remarks_->setVisible(!remarks.isEmpty());
}

QString LaunchDialog::progressText(const app::LaunchProgress& progress) const {
  const auto stage = [&] {
    switch (progress.stage) {
      case app::LaunchProgress::Stage::kConnecting: return tr("Connecting");
      case app::LaunchProgress::Stage::kMeasuring: return tr("Measuring the nodes");
      case app::LaunchProgress::Stage::kCopying: return tr("Copying data");
      case app::LaunchProgress::Stage::kPreparing: return tr("Preparing");
      case app::LaunchProgress::Stage::kStarting: return tr("Starting");
      case app::LaunchProgress::Stage::kEnding: return tr("Ending what may have begun");
    }
    return QString();
  }();
  QStringList nodes;
  for (const auto& node : progress.awaited) nodes << QString::fromStdString(node);
  if (progress.seconds == 0) return tr("%1: %2").arg(stage, nodes.join(", "));
  if (progress.bytesTotal > 0)
    return tr("%1: waiting for %2 since %3 s, %4 of %5 MB")
        .arg(stage, nodes.join(", "))
        .arg(progress.seconds)
        .arg(progress.bytesDone / 1000000)
        .arg(progress.bytesTotal / 1000000);
  return tr("%1: waiting for %2 since %3 s").arg(stage, nodes.join(", ")).arg(progress.seconds);
}

void LaunchDialog::setBusy(bool busy, const QString& text) {
  busy_->setVisible(busy);
  busyText_->setText(text);
  busyText_->setVisible(busy);
}

void LaunchDialog::accept() {
  if (!request_ || launch_) return;
  dropMeasuring();
  message_->clear();
  app::LaunchRequest request = *request_;
  request.measure = measure_->isChecked();
  std::shared_ptr<LiveCluster> cluster = cluster_;
  if (!cluster) cluster = workspace_.makeCluster(request.cluster);
  launchOn(std::move(request), std::move(cluster));
}

void LaunchDialog::launchOn(app::LaunchRequest request, std::shared_ptr<LiveCluster> cluster) {
  acceptButton()->setEnabled(false);
  QWidgetList held;   // while it lasts
  for (QWidget* field : findChildren<QWidget*>()) {
    if (field->objectName().startsWith("launch") && field->focusPolicy() != Qt::NoFocus && field->isEnabled() &&
        field != rejectButton() && field != acceptButton() && field != tabs_) {
      field->setEnabled(false);
      held << field;
    }
  }
  setBusy(true, tr("Starting"));
  job_ = workspace_.jobs().start(tr("Launching"), [this] { reject(); });
  app::LaunchObserver observer;
  observer.onProgress = [this](const app::LaunchProgress& progress) {
    const QString text = progressText(progress);
    busyText_->setText(text);
    workspace_.jobs().progress(job_, -1, text);
  };
  observer.onDone = [this, held](Result<std::string> done) {
    workspace_.jobs().finish(job_);
    job_ = 0;
    setBusy(false, {});
    if (done) {
      const QString run = QString::fromStdString(*done);
      workspace_.keepForRun(run, cluster_);
      Q_EMIT launched(run);
      Q_EMIT workspace_.historyChanged();
      QDialog::accept();
      return;
    }
    for (QWidget* field : held) field->setEnabled(true);
    message_->showError(done.error());
    // The launch object is in the middle of this call: it goes with the next turn of the loop.
    QTimer::singleShot(0, this, [this] {
      launch_.reset();
      acceptButton()->setEnabled(request_.has_value());
    });
  };
  cluster_ = std::move(cluster);   // not held by the observer, which may be destroyed on any thread
  launch_ = std::make_unique<app::Launch>(std::move(request), cluster_->session(), workspace_.home(),
                                          workspace_.inbox(), std::move(observer));
}

void LaunchDialog::reject() {
  if (launch_) {
    launch_->cancel();
    busyText_->setText(tr("Cancelling"));
    return;
  }
  QDialog::reject();
}

void LaunchDialog::retranslate() {
  if (again_) {
    const QString name = QString::fromStdString(again_->name), run = QString::fromStdString(again_->run);
    const bool resume = !again_->checkpoints.empty();
    setHeading(resume ? tr("Resume %1").arg(name) : tr("Rerun %1").arg(name),
               resume ? tr("Continues run %1 from its last checkpoint, as a new run.").arg(run)
                      : tr("Launches run %1 again from its start, as a new run.").arg(run));
  } else {
    setHeading(tr("Launch %1").arg(QFileInfo(specFile_).completeBaseName()), {});
  }
  const QStringList names{tr("Cluster"), tr("Local nodes"), tr("Global batch"), tr("Epochs"),
                          tr("Precision"), tr("Communicator"), tr("Command")};
  QWidget* const fields[] = {target_, nodes_, batch_, epochs_, precision_, comm_, command_};
  for (int i = 0; i < labels_.size(); ++i) {
    labels_[i]->setText(names[i]);
    fields[i]->setAccessibleName(names[i]);
  }
  if (!again_) target_->setItemText(target_->count() - 1, tr("This machine"));
  comm_->setItemText(0, tr("chosen from the cluster"));
  strategy_->retranslate();
  if (epochs_->minimum() == 0) epochs_->setSpecialValueText(tr("as many as its steps need"));
  measure_->setText(tr("Measure the nodes first"));
  measure_->setAccessibleName(measure_->text());
  ranksLabel_->setText(tr("Ranks on each node"));
  if (ranksHolder_ != nullptr) ranksHolder_->setAccessibleName(ranksLabel_->text());
  for (const NodeRanks& one : nodeRanks_) one.spin->setAccessibleName(tr("Ranks on %1").arg(one.node));
  stepTime_->setName(tr("Step time"));
  throughput_->setName(tr("Throughput"));
  memory_->setName(tr("Memory"));
  wire_->setName(tr("Traffic"));
  ranks_->setName(tr("Ranks"));
  tabs_->setTabText(0, tr("What will run"));
  tabs_->setTabText(1, tr("Step time"));
  tabs_->setTabText(2, tr("Plan"));
  tabs_->setAccessibleName(tr("Prediction"));
  placement_->setAccessibleName(tr("What will run"));
  bars_->setAccessibleName(tr("Predicted step time of each rank"));
  plan_->setAccessibleName(tr("Text of the plan"));
  busy_->setAccessibleName(tr("Progress"));
  setTexts(copy_, tr("Copy"), tr("Copy the command"));
  setButtons(tr("Launch"), tr("Cancel"));
  if (preview_) show(*preview_);
}

}  // namespace lockstep::ui
