#include "ui/dialogs/debug_dialog.h"

#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QProcess>
#include <QProgressBar>
#include <QPushButton>
#include <QSortFilterProxyModel>
#include <QStackedWidget>
#include <QTabWidget>
#include <QTableView>
#include <QToolButton>
#include <QTreeView>
#include <QVBoxLayout>
#include <algorithm>

#include "app/cluster/node_debug.h"
#include "engine/base/shell_text.h"
#include "ui/models/debug_models.h"
#include "ui/models/preflight_model.h"
#include "ui/studio/background.h"
#include "ui/studio/workspace.h"
#include "ui/theme/error_text.h"
#include "ui/widgets/delegates.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr double kDebuggerWait = 600;  // seconds

QStringList asList(const std::vector<std::string>& words) {
  QStringList out;
  for (const std::string& word : words) out << QString::fromStdString(word);
  return out;
}

QLabel* wrapped(const char* name, QWidget* parent, const char* role = nullptr) {
  QLabel* label = makeLabel(name, parent, role);
  label->setWordWrap(true);
  label->setTextFormat(Qt::PlainText);
  label->setTextInteractionFlags(Qt::TextSelectableByMouse);
  return label;
}

}  // namespace

DebugDialog::DebugDialog(Workspace& workspace, DebugSubject subject, QWidget* parent)
    : Dialog("debugDialog", parent), workspace_(workspace), subject_(std::move(subject)) {
  setModal(false);
  buildHead();
  buildTabs();
  note_ = wrapped("debugNote", this, "muted");
  progress_ = new QProgressBar(this);
  progress_->setObjectName("debugProgress");
  progress_->setTextVisible(false);
  progress_->setRange(0, 0);
  content()->addWidget(progress_);
  content()->addWidget(note_);
  retranslate();
  connect(targetBox_, &QComboBox::currentIndexChanged, this, &DebugDialog::chooseTarget);
  connect(tabs_, &QTabWidget::currentChanged, this, &DebugDialog::showTab);
  chooseTarget();
}

DebugDialog::~DebugDialog() {
  for (Reading& reading : readings_) reading.stop.request_stop();
}

void DebugDialog::buildHead() {
  auto* row = new QHBoxLayout;
  row->setSpacing(kSpaceS);
  targetLabel_ = makeLabel("debugTargetLabel", this);
  targetBox_ = new QComboBox(this);
  targetBox_->setObjectName("debugTarget");
  targetLabel_->setBuddy(targetBox_);
  terminal_ = makeButton("debugTerminal", "command", this);
  copyShell_ = makeToolButton("debugCopyShell", "copy", this);
  row->addWidget(targetLabel_);
  row->addWidget(targetBox_, 1);
  row->addWidget(terminal_);
  row->addWidget(copyShell_);
  content()->addLayout(row);
  fillTargets();
  connect(terminal_, &QPushButton::clicked, this, &DebugDialog::openTerminal);
  connect(copyShell_, &QToolButton::clicked, this, &DebugDialog::copyShell);
}

void DebugDialog::fillTargets() {
  if (subject_.run.run.empty()) {
    const app::ClusterSession& session = subject_.cluster->session();
    for (int i = 0; i < session.size(); ++i) targets_.push_back({-1, session.status(i).name});
  } else {
    for (const app::NodeRanks& node : app::launchedRanks(subject_.nodes)) {
      for (const int rank : node.ranks) targets_.push_back({rank, node.node});
      if (node.ranks.empty()) targets_.push_back({-1, node.node});
    }
    std::stable_sort(targets_.begin(), targets_.end(), [](const Target& a, const Target& b) {
      return static_cast<unsigned>(a.rank) < static_cast<unsigned>(b.rank);  // -1 comes last
    });
  }
  int chosen = 0;
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    targetBox_->addItem({});
    const bool isIt =
        subject_.rank >= 0 ? targets_[i].rank == subject_.rank : targets_[i].node == subject_.node;
    if (isIt) chosen = static_cast<int>(i);
  }
  targetBox_->setCurrentIndex(chosen);
}

void DebugDialog::buildTabs() {
  tabs_ = new QTabWidget(this);
  tabs_->setObjectName("debugTabs");
  tabs_->addTab(buildStacks(), {});
  tabs_->addTab(buildProcesses(), {});
  tabs_->addTab(buildKernel(), {});
  tabs_->addTab(buildBench(), {});
  tabs_->addTab(buildDebugger(), {});
  copy_ = makeToolButton("debugCopy", "copy", this);
  tabs_->setCornerWidget(copy_, Qt::TopRightCorner);
  tabs_->setMinimumSize(780, 380);
  connect(copy_, &QToolButton::clicked, this, &DebugDialog::copyShown);
  content()->addWidget(tabs_, 1);
}

QWidget* DebugDialog::withEmpty(Tab tab, QWidget* data, const char* name, const char* icon) {
  View& view = views_[tab];
  view.stack = new QStackedWidget(this);
  view.data = data;
  view.empty = new EmptyState(name, icon, this);
  view.stack->addWidget(view.empty);
  view.stack->addWidget(data);
  connect(view.empty->button(), &QPushButton::clicked, this, &DebugDialog::readTab);
  return view.stack;
}

QWidget* DebugDialog::buildStacks() {
  stackModel_ = new StackModel(this);
  auto* tree = new QTreeView(this);
  tree->setObjectName("debugStacks");
  tree->setModel(stackModel_);
  tree->setUniformRowHeights(true);
  tree->setSelectionBehavior(QAbstractItemView::SelectRows);
  tree->header()->setStretchLastSection(false);
  tree->header()->setSectionResizeMode(StackModel::kFrame, QHeaderView::Stretch);
  tree->header()->resizeSection(StackModel::kState, 130);
  tree->header()->resizeSection(StackModel::kStopped, 100);
  connect(stackModel_, &QAbstractItemModel::modelReset, tree, &QTreeView::expandAll);
  return withEmpty(kStacks, tree, "debugStacksEmpty", "layer");
}

QWidget* DebugDialog::buildProcesses() {
  processModel_ = new ProcessModel(this);
  auto* sorted = new QSortFilterProxyModel(this);
  sorted->setSourceModel(processModel_);
  sorted->setSortRole(ProcessModel::kSortRole);
  auto* table = new QTableView(this);
  table->setObjectName("debugProcesses");
  table->setModel(sorted);
  applyTableStyle(table);
  table->setSortingEnabled(true);
  table->sortByColumn(ProcessModel::kCpu, Qt::DescendingOrder);
  table->setItemDelegateForColumn(ProcessModel::kCpu,
                                  new BarDelegate(ProcessModel::kFractionRole, table));
  table->setItemDelegateForColumn(ProcessModel::kPart,
                                  new ToneDelegate(ProcessModel::kToneRole, table));
  setColumns(table, {74, 88, 70, 92, 80, 56, 110, 200});
  return withEmpty(kProcesses, table, "debugProcessesEmpty", "table");
}

QWidget* DebugDialog::buildKernel() {
  kernelModel_ = new KernelLogModel(this);
  auto* table = new QTableView(this);
  table->setObjectName("debugKernel");
  table->setModel(kernelModel_);
  applyTableStyle(table);
  table->setItemDelegateForColumn(KernelLogModel::kLevel,
                                  new ToneDelegate(KernelLogModel::kToneRole, table));
  setColumns(table, {160, 110, 400});
  connect(kernelModel_, &QAbstractItemModel::modelReset, table, &QTableView::scrollToBottom);
  return withEmpty(kKernel, table, "debugKernelEmpty", "node");
}

QWidget* DebugDialog::buildBench() {
  benchModel_ = new PreflightModel(this);
  auto* table = new QTableView(this);
  table->setObjectName("debugBench");
  table->setModel(benchModel_);
  applyTableStyle(table);
  table->setItemDelegateForColumn(PreflightModel::kGrade,
                                  new ToneDelegate(PreflightModel::kToneRole, table));
  setColumns(table, {150, 150, 110, 130, 130, 180});
  table->setColumnHidden(PreflightModel::kPeer, true);
  return withEmpty(kBench, table, "debugBenchEmpty", "node");
}

QWidget* DebugDialog::buildDebugger() {
  auto* page = new QWidget(this);
  auto* column = new QVBoxLayout(page);
  column->setContentsMargins(0, kSpaceM, 0, 0);
  column->setSpacing(kSpaceM);
  about_ = wrapped("debuggerAbout", page);
  debuggerState_ = new StateBadge("debuggerState", page);
  debuggerLabel_ = makeLabel("debuggerCommandLabel", page, "muted");
  command_ = new QLineEdit(page);
  command_->setObjectName("debuggerCommand");
  command_->setReadOnly(true);
  debuggerLabel_->setBuddy(command_);
  copyCommand_ = makeToolButton("debuggerCopy", "copy", page);
  auto* row = new QHBoxLayout;
  row->addWidget(command_, 1);
  row->addWidget(copyCommand_);
  debuggerError_ = wrapped("debuggerError", page);
  column->addWidget(about_);
  column->addWidget(debuggerState_, 0, Qt::AlignLeft);
  column->addWidget(debuggerLabel_);
  column->addLayout(row);
  column->addWidget(debuggerError_);
  column->addStretch(1);
  connect(copyCommand_, &QToolButton::clicked, this,
          [this] { QApplication::clipboard()->setText(command_->text()); });
  return page;
}

DebugDialog::Target DebugDialog::target() const {
  const int at = targetBox_->currentIndex();
  return at < 0 ? Target{-1, {}} : targets_[static_cast<std::size_t>(at)];
}

DebugDialog::Tab DebugDialog::tab() const { return static_cast<Tab>(tabs_->currentIndex()); }

void DebugDialog::chooseTarget() {
  for (int tab = 0; tab < kTabs; ++tab) {
    cancel(static_cast<Tab>(tab));
    readings_[static_cast<std::size_t>(tab)].done = false;
    readings_[static_cast<std::size_t>(tab)].error.reset();
  }
  news_.reset();
  stackModel_->setStacks({});
  processModel_->setProcesses({});
  kernelModel_->setLines({});
  benchModel_->setResult({});
  const bool isRank = target().rank >= 0;
  tabs_->setTabEnabled(kStacks, isRank);
  tabs_->setTabEnabled(kDebugger, isRank);
  if (!isRank && (tab() == kStacks || tab() == kDebugger)) tabs_->setCurrentIndex(kProcesses);
  showTab();
}

void DebugDialog::showTab() {
  said_.clear();
  const Reading& shown = readings_[tab()];
  const bool hindersTraining = tab() == kBench || tab() == kDebugger;
  if (!hindersTraining && !shown.busy && !shown.done && !shown.error) return readTab();
  refresh();
}

void DebugDialog::accept() {
  if (readings_[tab()].busy) {
    cancel(tab());
    refresh();
    return;
  }
  readTab();
}

void DebugDialog::cancel(Tab tab) {
  Reading& reading = readings_[tab];
  reading.stop.request_stop();
  ++reading.ticket;
  reading.busy = false;
}

void DebugDialog::readTab() {
  said_.clear();
  switch (tab()) {
    case kStacks:
      return readStacks();
    case kProcesses:
      return readProcesses();
    case kKernel:
      return readKernel();
    case kBench:
      return readBench();
    case kDebugger:
      return startDebugger();
    case kTabs:
      break;
  }
}

template <typename T, typename Work, typename Take>
void DebugDialog::read(Tab tab, Work work, Take take) {
  cancel(tab);
  Reading& reading = readings_[tab];
  reading.stop = std::stop_source();
  reading.busy = true;
  reading.error.reset();
  refresh();
  runInBackground(
      this,
      [work, keep = subject_.cluster->sessionRef(), stop = reading.stop.get_token()] {
        return work(stop);
      },
      [this, tab, take, ticket = reading.ticket](Result<T> result) {
        Reading& reading = readings_[tab];
        if (reading.ticket != ticket) return;  // cancelled, or read again
        reading.busy = false;
        reading.done = result.ok();
        if (result.ok())
          take(std::move(*result));
        else
          reading.error = result.error();
        refresh();
      },
      workspace_.teardownPool());
}

void DebugDialog::readStacks() {
  read<app::RankStacks>(
      kStacks,
      [place = app::placeOf(subject_.run.run, target().rank, subject_.nodes,
                            subject_.cluster->session())](
          const std::stop_token& stop) -> Result<app::RankStacks> {
        if (!place.ok()) return place.error();
        return app::readStacks(*place, stop);
      },
      [this](app::RankStacks stacks) { stackModel_->setStacks(std::move(stacks)); });
}

void DebugDialog::readProcesses() {
  read<app::NodeProcesses>(
      kProcesses,
      [node = subject_.cluster->session().access(target().node),
       name = target().node](const std::stop_token& stop) -> Result<app::NodeProcesses> {
        if (node == nullptr)
          return makeError(Code::kNotFound, "the cluster has no node \"{}\"", name);
        return app::listProcesses(*node, {}, stop);
      },
      [this](app::NodeProcesses list) { processModel_->setProcesses(std::move(list)); });
}

void DebugDialog::readKernel() {
  using Lines = std::vector<app::KernelLine>;
  read<Lines>(
      kKernel,
      [node = subject_.cluster->session().access(target().node),
       name = target().node](const std::stop_token& stop) -> Result<Lines> {
        if (node == nullptr)
          return makeError(Code::kNotFound, "the cluster has no node \"{}\"", name);
        return app::readKernelLog(*node, kKernelLines, stop);
      },
      [this](Lines lines) { kernelModel_->setLines(std::move(lines)); });
}

void DebugDialog::readBench() {
  read<app::PreflightResult>(
      kBench,
      [nodes = preflightNodes(subject_.cluster->session()), name = target().node](
          const std::stop_token& stop) { return app::benchNode(nodes, name, {}, stop); },
      [this](app::PreflightResult result) { benchModel_->setResult(std::move(result)); });
}

void DebugDialog::startDebugger() {
  news_.reset();
  const int ticket = readings_[kDebugger].ticket + 1;
  app::Inbox& inbox = workspace_.inbox();
  const auto tell = [this, &inbox, ticket,
                     owner = std::weak_ptr<void>(alive_)](const app::DebuggerNews& news) {
    inbox.post(owner, [this, ticket, news] { takeNews(ticket, news); });
    return true;
  };
  read<bool>(
      kDebugger,
      [tell, place = app::placeOf(subject_.run.run, target().rank, subject_.nodes,
                                  subject_.cluster->session())](
          const std::stop_token& stop) -> Result<bool> {
        if (!place.ok()) return place.error();
        LOCKSTEP_TRY(app::debugRank(*place, kDebuggerWait, tell, stop));
        return true;
      },
      [this](bool) { news_.reset(); });
}

void DebugDialog::takeNews(int ticket, const app::DebuggerNews& news) {
  if (readings_[kDebugger].ticket != ticket || !readings_[kDebugger].busy) return;
  news_ = news;
  refresh();
}

void DebugDialog::copyShown() {
  QString text;
  if (tab() == kStacks) text = QString::fromStdString(app::stacksText(stackModel_->stacks()));
  if (tab() == kProcesses) text = tableText(*processModel_);
  if (tab() == kKernel) text = tableText(*kernelModel_);
  if (tab() == kBench) text = tableText(*benchModel_);
  QApplication::clipboard()->setText(text);
}

Result<std::vector<std::string>> DebugDialog::shell() const {
  return app::shellCommand(*subject_.cluster->session().cluster(), target().node,
                           workspace_.sshConfig().toStdString());
}

void DebugDialog::copyShell() {
  const auto words = shell();
  if (words.ok()) {
    const QString line = QString::fromStdString(shellLine(*words));
    QApplication::clipboard()->setText(line);
    said_ = tr("Copied: %1").arg(line);
  } else {
    said_ = describeError(words.error()).what;
  }
  note_->setText(said_);
}

void DebugDialog::openTerminal() {
  const auto words = shell();
  const auto command = words.ok() ? app::terminalCommand(*words) : words;
  QStringList arguments = command.ok() ? asList(*command) : QStringList();
  if (words.ok() && (!command.ok() || !QProcess::startDetached(arguments.takeFirst(), arguments))) {
    copyShell();
    said_ = tr("No terminal program could be started.") + ' ' + said_;
  } else {
    said_ = words.ok() ? QString() : describeError(words.error()).what;
  }
  note_->setText(said_.isEmpty() ? noteText() : said_);
}

}  // namespace lockstep::ui
