#include "ui/window/main_window.h"

#include <QAction>
#include <QActionGroup>
#include <QCloseEvent>
#include <QCoreApplication>
#include <QDir>
#include <QDockWidget>
#include <QFileDialog>
#include <QHeaderView>
#include <QLabel>
#include <QMenuBar>
#include <QMimeData>
#include <QProgressBar>
#include <QResizeEvent>
#include <QScreen>
#include <QStatusBar>
#include <QTabBar>
#include <QTabWidget>
#include <QTableView>
#include <QToolBar>
#include <QToolButton>
#include <QTreeView>
#include <QUndoGroup>

#include "ui/dialogs/about_dialog.h"
#include "ui/dialogs/launch_dialog.h"
#include "ui/dialogs/new_model_dialog.h"
#include "ui/dialogs/ssh_questions.h"
#include "ui/models/alert_model.h"
#include "ui/models/inspector_model.h"
#include "ui/models/navigator_model.h"
#include "ui/pages/cluster_page.h"
#include "ui/pages/history_page.h"
#include "ui/pages/model_page.h"
#include "ui/pages/run_page.h"
#include "ui/pages/welcome_page.h"
#include "ui/studio/run_document.h"
#include "ui/studio/spec_document.h"
#include "ui/theme/error_text.h"
#include "ui/theme/format.h"
#include "ui/theme/message_text.h"
#include "ui/widgets/delegates.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"
#include "ui/window/background.h"
#include "ui/window/command_palette.h"
#include "ui/window/language.h"

namespace lockstep::ui {
namespace {

constexpr int kStateVersion = 1;
constexpr int kWide = 1250;   // pixels; room for docks at both sides
constexpr int kRunsInNavigator = 60;
constexpr int kNavigatorWidth = 230, kInspectorWidth = 280;
constexpr int kDocumentsLeast = 340;
constexpr int kNavigatorLeast = 160, kInspectorLeast = 165;   // nothing to read in less

app::SpecKind kindOf(const QString& path) {
  QFile file(path);
  if (file.open(QIODevice::ReadOnly)) {
    for (const QByteArray& line : file.read(1 << 16).split('\n')) {
      if (line.startsWith("nodes:")) return app::SpecKind::kCluster;
      if (line.startsWith("layers:")) return app::SpecKind::kModel;
    }
  }
  return app::SpecKind::kRun;
}

Result<app::Relaunch> relaunchFrom(const std::string& folder, const QString& run, app::RelaunchKind kind) {
  auto history = app::History::open(folder);
  if (!history) return history.error();
  return app::relaunchOf(**history, run.toStdString(), kind);
}

}  // namespace

MainWindow::MainWindow(StudioOptions options)
    : workspace_(std::make_unique<Workspace>(std::move(options))) {
  setObjectName("studioWindow");
  setWindowIcon(QIcon(":/icons/lockstep.svg"));
  setAcceptDrops(true);
  setDockOptions(QMainWindow::AnimatedDocks | QMainWindow::AllowNestedDocks | QMainWindow::AllowTabbedDocks);
  Settings& settings = workspace_->settings();
  Theme::instance().apply(settings.dark() ? Theme::Mode::kDark : Theme::Mode::kLight);
  Language::instance().set(settings.language());

  undo_ = new QUndoGroup(this);
  questions_ = new QuestionQueue(this);
  tabs_ = new QTabWidget(this);
  tabs_->setObjectName("documents");
  tabs_->setDocumentMode(true);
  tabs_->setTabsClosable(true);
  tabs_->setMovable(true);
  tabs_->setElideMode(Qt::ElideNone);   // names stay whole; more than fit are scrolled
  tabs_->setUsesScrollButtons(true);
  // A page with a message on it may ask for more than a low window has: its tables give way, not the
  // status bar.
  tabs_->setMinimumHeight(kDocumentsLeast);
  setCentralWidget(tabs_);
  makeActions();
  makeDocks();
  makeMenus();
  makeStatusBar();
  palette_ = new CommandPalette(this);
  connect(tabs_, &QTabWidget::currentChanged, this, &MainWindow::currentChanged);
  connect(tabs_, &QTabWidget::tabCloseRequested, this, [this](int index) { closeTab(index); });
  connect(workspace_.get(), &Workspace::historyChanged, this, &MainWindow::refreshRuns);
  workspace_->watchHistory();
  connect(workspace_.get(), &Workspace::question, questions_, &QuestionQueue::ask);
  connect(&Theme::instance(), &Theme::changed, this, &MainWindow::restyle);
  resize(1400, 900);
  narrow_ = false;
  restoreDefaultLayout();
  defaultState_ = saveState(kStateVersion);
  restoreGeometry(settings.store().value("window/geometry").toByteArray());
  if (!restoreState(settings.store().value("window/state").toByteArray(), kStateVersion)) restoreDefaultLayout();
  narrow_ = width() < kWide;
  alertModel_->load(alertFile());
  alertSave_.setSingleShot(true);
  alertSave_.setInterval(1000);
  connect(alertModel_, &AlertModel::changed, &alertSave_, QOverload<>::of(&QTimer::start));
  connect(&alertSave_, &QTimer::timeout, this, [this] { (void)alertModel_->save(alertFile()); });
  retranslate();
  openWelcome();
  refreshNavigator();
}

MainWindow::~MainWindow() {
  disconnect(tabs_, nullptr, this, nullptr);
  delete launch_.data();
  while (tabs_->count() > 0) delete tabs_->widget(0);
}

void MainWindow::makeDocks() {
  const auto dock = [this](const char* name, QWidget* widget, Qt::DockWidgetArea area) {
    auto* out = new QDockWidget(this);
    out->setObjectName(name);
    out->setWidget(widget);
    addDockWidget(area, out);
    return out;
  };
  navigatorModel_ = new NavigatorModel(this);
  navigator_ = new QTreeView(this);
  navigator_->setObjectName("navigator");
  navigator_->setModel(navigatorModel_);
  navigator_->setHeaderHidden(true);
  navigator_->setItemDelegate(new DetailDelegate(NavigatorModel::kDetailRole, navigator_));
  navigator_->setUniformRowHeights(true);
  navigator_->setIndentation(14);
  navigator_->expandAll();
  navigator_->setMinimumWidth(kNavigatorLeast);
  navigatorDock_ = dock("navigatorDock", navigator_, Qt::LeftDockWidgetArea);
  const auto openIndex = [this](const QModelIndex& index) {
    const QString key = index.data(NavigatorModel::kKeyRole).toString();
    if (key.isEmpty()) {
      if (index.data(NavigatorModel::kGroupRole).toInt() == NavigatorModel::kRuns) openHistory();
      return;
    }
    if (index.data(NavigatorModel::kGroupRole).toInt() == NavigatorModel::kRuns) {
      openRun(key);
    } else {
      openFile(key);
    }
  };
  connect(navigator_, &QTreeView::activated, this, openIndex);
  connect(navigator_, &QTreeView::clicked, this, openIndex);
  connect(navigatorModel_, &QAbstractItemModel::rowsInserted, this, [this](const QModelIndex& parent) {
    navigator_->expand(parent);
  });

  inspectorModel_ = new InspectorModel(this);
  inspector_ = new QTableView(this);
  inspector_->setObjectName("inspector");
  inspector_->setModel(inspectorModel_);
  dressTable(inspector_);
  inspector_->horizontalHeader()->hide();
  inspector_->setWordWrap(true);   // what went wrong is told whole
  inspector_->verticalHeader()->setMinimumSectionSize(26);
  inspector_->verticalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
  connect(inspector_->horizontalHeader(), &QHeaderView::sectionResized, inspector_, &QTableView::resizeRowsToContents);
  inspector_->setTextElideMode(Qt::ElideMiddle);
  inspector_->setSelectionMode(QAbstractItemView::SingleSelection);
  inspector_->setMinimumWidth(kInspectorLeast);
  inspector_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  inspector_->viewport()->installEventFilter(this);
  inspectorDock_ = dock("inspectorDock", inspector_, Qt::RightDockWidgetArea);
  connect(inspectorModel_, &QAbstractItemModel::modelReset, this, [this] {
    inspector_->clearSpans();
    for (int row = 0; row < inspectorModel_->rowCount(); ++row) {
      if (inspectorModel_->spans(row)) inspector_->setSpan(row, 0, 1, 2);
    }
    fitInspector();
  });

  alertModel_ = new AlertModel(this);
  alerts_ = new QTableView(this);
  alerts_->setObjectName("alerts");
  alerts_->setModel(alertModel_);
  dressTable(alerts_);
  alerts_->verticalHeader()->setDefaultSectionSize(24);
  alerts_->setItemDelegateForColumn(AlertModel::kTime, new ToneDelegate(AlertModel::kToneRole, alerts_));
  alerts_->setMinimumHeight(60);
  alerts_->horizontalHeader()->setStretchLastSection(false);
  alerts_->horizontalHeader()->setSectionResizeMode(AlertModel::kText, QHeaderView::Stretch);
  setColumns(alerts_, {128, 190, 300, 150});
  messageDock_ = dock("messageDock", alerts_, Qt::BottomDockWidgetArea);
  setCorner(Qt::BottomLeftCorner, Qt::LeftDockWidgetArea);
  setCorner(Qt::BottomRightCorner, Qt::RightDockWidgetArea);
}

void MainWindow::makeStatusBar() {
  statusText_ = makeLabel("statusText", this, "muted");
  statusText_->setContentsMargins(kSpaceS, 0, 0, 0);
  jobText_ = makeLabel("jobText", this, "muted");
  jobBar_ = new QProgressBar(this);
  jobBar_->setObjectName("jobProgress");
  jobBar_->setTextVisible(false);
  jobBar_->setFixedWidth(120);
  jobCancel_ = makeToolButton("jobCancel", "close", this);
  statusBar()->setSizeGripEnabled(false);
  statusBar()->addWidget(statusText_, 1);
  statusBar()->addPermanentWidget(jobText_);
  statusBar()->addPermanentWidget(jobBar_);
  statusBar()->addPermanentWidget(jobCancel_);
  JobTracker& jobs = workspace_->jobs();
  connect(&jobs, &QAbstractItemModel::rowsInserted, this, &MainWindow::refreshJobs);
  connect(&jobs, &QAbstractItemModel::rowsRemoved, this, &MainWindow::refreshJobs);
  connect(&jobs, &QAbstractItemModel::dataChanged, this, &MainWindow::refreshJobs);
  connect(jobCancel_, &QToolButton::clicked, this, [this] { workspace_->jobs().cancel(0); });
  refreshJobs();
}

void MainWindow::refreshJobs() {
  const JobTracker& jobs = workspace_->jobs();
  const int count = jobs.rowCount();
  for (QWidget* widget : {static_cast<QWidget*>(jobText_), static_cast<QWidget*>(jobBar_)}) widget->setVisible(count > 0);
  jobCancel_->setVisible(count > 0 && jobs.cancellable(0));
  if (count == 0) return;
  const QString text = jobs.data(jobs.index(0), Qt::DisplayRole).toString();
  jobText_->setText(count > 1 ? tr("%1 (and %2 more)").arg(text).arg(count - 1) : text);
  const double fraction = jobs.data(jobs.index(0), JobTracker::kProgressRole).toDouble();
  jobBar_->setRange(0, fraction < 0 ? 0 : 1000);
  if (fraction >= 0) jobBar_->setValue(static_cast<int>(fraction * 1000));
}

Page* MainWindow::currentPage() const { return qobject_cast<Page*>(tabs_->currentWidget()); }

QList<Page*> MainWindow::pages() const {
  QList<Page*> out;
  for (int i = 0; i < tabs_->count(); ++i) {
    if (auto* page = qobject_cast<Page*>(tabs_->widget(i))) out << page;
  }
  return out;
}

void MainWindow::addPage(Page* page) {
  if (QUndoStack* stack = page->undoStack()) undo_->addStack(stack);
  connect(page, &Page::titleChanged, this, &MainWindow::refreshTitles);
  connect(page, &Page::inspectorChanged, this, [this, page] {
    if (page == currentPage()) refreshInspector();
  });
  connect(page, &Page::alert, this, [this](int tone, const QString& where, const QString& text) {
    note(static_cast<Tone>(tone), where, text);
  });
  connect(page, &Page::alertRaised, this, &MainWindow::raiseAlert);
  connect(page, &Page::alertOver, alertModel_, &AlertModel::resolve);
  connect(page->message(), &MessagePanel::actionTriggered, this, [this, page] {
    if (closing_ == page) closeTab(tabs_->indexOf(page), true);
  });
  const int index = tabs_->addTab(page, Theme::instance().icon(page->iconName()), page->title());
  tabs_->setCurrentIndex(index);
  // The welcome page makes room for the first document.
  if (tabs_->count() == 2 && qobject_cast<WelcomePage*>(tabs_->widget(0))) closeTab(0, true);
  refreshTitles();
}

Page* MainWindow::openFile(const QString& path) {
  const QString absolute = QFileInfo(path).absoluteFilePath();
  for (Page* page : pages()) {
    if (page->filePath() == absolute || (!page->filePath().isEmpty() && QFileInfo(page->filePath()) == QFileInfo(absolute))) {
      tabs_->setCurrentWidget(page);
      return page;
    }
  }
  const app::SpecKind kind = kindOf(absolute);
  auto document = std::make_unique<SpecDocument>(kind, QString::fromStdString(workspace_->home().root) + "/recovery");
  const Status status = document->load(absolute);
  if (!status.ok()) {
    const ErrorText text = describeError(status.error());
    note(Tone::kBad, QFileInfo(path).fileName(), text.what + ". " + text.why);
    Page* shown = currentPage();
    if (!shown) shown = openWelcome();
    shown->message()->showError(status.error());
    workspace_->settings().removeRecent(absolute);
    return nullptr;
  }
  workspace_->settings().addRecent(absolute);
  const bool recovered = document->recovered();
  Page* page = nullptr;
  if (kind == app::SpecKind::kCluster) {
    auto* cluster = new ClusterPage(std::move(document), *workspace_);
    connect(cluster, &ClusterPage::launchWanted, this, [this, cluster] { openLaunch(nullptr, cluster); });
    connect(cluster, &ClusterPage::stateChanged, this, &MainWindow::refreshActions);
    addPage(page = cluster);
  } else {
    page = addModel(std::move(document));
  }
  if (recovered) {
    page->message()->showNote(Tone::kWarning, tr("Unsaved text was recovered."),
                              tr("Undo brings back the text as it was saved."));
  }
  refreshNavigator();
  return page;
}

ModelPage* MainWindow::addModel(std::unique_ptr<SpecDocument> document) {
  auto* page = new ModelPage(std::move(document));
  connect(page, &ModelPage::launchWanted, this, [this, page] { openLaunch(page, nullptr); });
  lastModel_ = page;
  addPage(page);
  return page;
}

RunPage* MainWindow::openRun(const QString& run) {
  for (Page* page : pages()) {
    if (page->key() == "run:" + run) {
      tabs_->setCurrentWidget(page);
      return qobject_cast<RunPage*>(page);
    }
  }
  auto* page = new RunPage(std::make_unique<RunDocument>(run, *workspace_));
  connect(page->document(), &RunDocument::rowChanged, this, &MainWindow::refreshActions);
  connect(page, &RunPage::relaunchWanted, this, [this, run](app::RelaunchKind kind) { relaunch(run, kind); });
  connect(page, &RunPage::cloneWanted, this, [this, run] { clone(run); });
  addPage(page);
  return page;
}

HistoryPage* MainWindow::openHistory() {
  for (Page* page : pages()) {
    if (auto* history = qobject_cast<HistoryPage*>(page)) {
      tabs_->setCurrentWidget(history);
      return history;
    }
  }
  auto* page = new HistoryPage(*workspace_);
  connect(page, &HistoryPage::openRun, this, &MainWindow::openRun);
  connect(page, &HistoryPage::relaunchWanted, this, &MainWindow::relaunch);
  connect(page, &HistoryPage::cloneWanted, this, &MainWindow::clone);
  connect(page, &Page::inspectorChanged, this, &MainWindow::refreshActions);
  addPage(page);
  return page;
}

WelcomePage* MainWindow::openWelcome() {
  for (Page* page : pages()) {
    if (auto* welcome = qobject_cast<WelcomePage*>(page)) {
      tabs_->setCurrentWidget(welcome);
      return welcome;
    }
  }
  auto* page = new WelcomePage;
  connect(page, &WelcomePage::openFile, this, [this](const QString& path) {
    const QString copy = workspace_->examples().contains(path) ? workspace_->copyOfExample(path) : path;
    openFile(copy.isEmpty() ? path : copy);
  });
  connect(page, &WelcomePage::openWanted, this, &MainWindow::askOpen);
  connect(page, &WelcomePage::newClusterWanted, this, &MainWindow::newCluster);
  connect(page, &WelcomePage::newModelWanted, this, &MainWindow::newModel);
  connect(page, &WelcomePage::runHereWanted, this, [this] { openReady("fashion-cnn", "local-3"); });
  page->setHome(QString::fromStdString(workspace_->home().root));
  page->setExamples(workspace_->examples());
  page->setRecent(workspace_->settings().recentFiles());
  addPage(page);
  return page;
}

ClusterPage* MainWindow::newCluster() {
  const QDir folder(QString::fromStdString(workspace_->home().root) + "/clusters");
  folder.mkpath(".");
  int number = 1;
  while (QFileInfo::exists(folder.filePath(QString("cluster-%1.yaml").arg(number)))) ++number;
  const QString path = folder.filePath(QString("cluster-%1.yaml").arg(number));
  QFile file(path);
  if (file.open(QIODevice::WriteOnly)) {
    file.write(QString("version: 1\nname: cluster-%1\nnodes: []\n").arg(number).toUtf8());
    file.close();
  }
  return qobject_cast<ClusterPage*>(openFile(path));
}

NewModelDialog* MainWindow::newModel() {
  auto* dialog = new NewModelDialog(QString::fromStdString(workspace_->home().modelsFolder()), this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &QDialog::accepted, this, [this, dialog] { openFile(dialog->path()); });
  dialog->open();
  return dialog;
}

namespace {

// A document that is open, as it stands.
template <typename Entry, typename PageType>
Entry openDocument(PageType* page) {
  Entry out;
  const QPointer<PageType> safe(page);
  out.title = page->document()->name();
  out.file = page->filePath();
  out.modified = [safe] { return safe && safe->isModified(); };
  out.save = [safe] { return safe ? safe->document()->save(safe->filePath()) : Status(); };
  return out;
}

template <typename Entry>
void sortByTitle(QVector<Entry>& entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.title < b.title; });
}

template <typename Entry>
bool has(const QVector<Entry>& entries, const QString& file) {
  return std::any_of(entries.begin(), entries.end(), [&](const Entry& one) { return one.file == file; });
}

std::string textOf(const QString& path) {
  QFile file(path);
  return file.open(QIODevice::ReadOnly) ? file.readAll().toStdString() : std::string();
}

}  // namespace

// Those that are open, those of the navigator, and the examples of which there is no copy.
QVector<LaunchModel> MainWindow::launchModels() const {
  QVector<LaunchModel> out;
  const auto add = [&](const QString& path) {
    if (has(out, path) || kindOf(path) != app::SpecKind::kRun) return;
    out << LaunchModel{QFileInfo(path).completeBaseName(), path, [path] { return textOf(path); }, {}, {}};
  };
  for (Page* page : pages()) {
    auto* open = qobject_cast<ModelPage*>(page);
    if (!open || open->document()->kind() != app::SpecKind::kRun) continue;
    out << openDocument<LaunchModel>(open);
    out.last().text = [safe = QPointer(open)] { return safe ? safe->document()->spec().text() : std::string(); };
  }
  for (const auto& entry : navigatorModel_->entries(NavigatorModel::kModels)) add(entry.key);
  for (const QString& path : workspace_->examples()) {
    const QString title = QFileInfo(path).completeBaseName();
    if (std::none_of(out.begin(), out.end(), [&](const LaunchModel& one) { return one.title == title; })) add(path);
  }
  sortByTitle(out);
  return out;
}

QVector<LaunchTarget> MainWindow::launchTargets() const {
  QVector<LaunchTarget> out;
  for (Page* page : pages()) {
    auto* open = qobject_cast<ClusterPage*>(page);
    if (!open) continue;
    const QPointer<ClusterPage> safe(open);
    out << openDocument<LaunchTarget>(open);
    out.last().yaml = [safe] { return safe ? safe->document()->spec().text() : std::string(); };
    out.last().connected = [safe] { return safe ? safe->liveIfAny() : nullptr; };
    out.last().live = [safe] { return safe ? safe->live() : nullptr; };
  }
  for (const auto& entry : navigatorModel_->entries(NavigatorModel::kClusters)) {
    if (has(out, entry.key)) continue;
    LaunchTarget target;
    target.title = entry.title;
    target.file = entry.key;
    target.yaml = [path = entry.key] { return textOf(path); };
    out << target;
  }
  sortByTitle(out);
  return out;
}

LaunchDialog* MainWindow::openLaunch(ModelPage* model, ClusterPage* cluster) {
  if (launch_) {
    launch_->raise();
    return launch_;
  }
  if (!model) model = lastModel_;
  if (!cluster) cluster = lastCluster_;
  const QVector<LaunchModel> models = launchModels();
  const QVector<LaunchTarget> targets = launchTargets();
  if (models.isEmpty()) {
    newModel();
    return nullptr;
  }
  const auto indexOf = [](const auto& entries, const Page* page, int otherwise) {
    for (int i = 0; page && i < entries.size(); ++i) {
      if (entries[i].file == page->filePath()) return i;
    }
    return otherwise;
  };
  auto* dialog = new LaunchDialog(models, targets, *workspace_, this);
  dialog->chooseModel(indexOf(models, model, 0));
  dialog->chooseTarget(indexOf(targets, cluster, static_cast<int>(targets.size())));
  return showLaunch(dialog);
}

LaunchDialog* MainWindow::showLaunch(LaunchDialog* dialog) {
  launch_ = dialog;
  launch_->setAttribute(Qt::WA_DeleteOnClose);
  connect(launch_, &LaunchDialog::launched, this, &MainWindow::openRun);
  launch_->open();
  return launch_;
}

void MainWindow::relaunch(const QString& run, app::RelaunchKind kind) {
  if (launch_) {
    launch_->raise();
    return;
  }
  runInBackground(
      this, [folder = workspace_->home().historyFolder(), run, kind] { return relaunchFrom(folder, run, kind); },
      [this, run](Result<app::Relaunch> found) {
        if (launch_) return;
        if (!found) {
          if (Page* page = currentPage()) page->message()->showError(found.error());
          return;
        }
        LaunchModel model;
        model.title = QString::fromStdString(found->name);
        model.file = tr("run %1").arg(run);
        model.text = [yaml = found->specYaml] { return yaml; };
        LaunchTarget target;
        target.title = QString::fromStdString(found->clusterName);
        target.file = tr("cluster of run %1").arg(run);
        target.yaml = [yaml = found->clusterYaml] { return yaml; };
        target.connected = target.live = [this, run] { return workspace_->clusterForRun(run); };
        showLaunch(new LaunchDialog({model}, {target}, *workspace_, this, std::move(*found)));
      });
}

void MainWindow::clone(const QString& run) {
  runInBackground(
      this,
      [folder = workspace_->home().historyFolder(), run] {
        return relaunchFrom(folder, run, app::RelaunchKind::kRerun);
      },
      [this](Result<app::Relaunch> found) {
        if (!found) {
          if (Page* page = currentPage()) page->message()->showError(found.error());
          return;
        }
        const QDir folder(QString::fromStdString(workspace_->home().root) + "/models");
        folder.mkpath(".");
        const QString base = asFileName(QString::fromStdString(found->name)) + "-copy";
        QString path = folder.filePath(base + ".yaml");
        const auto taken = [&] {
          const QList<Page*> open = pages();
          return QFileInfo::exists(path) ||
                 std::any_of(open.begin(), open.end(), [&](Page* page) { return page->filePath() == path; });
        };
        for (int number = 2; taken(); ++number) path = folder.filePath(QString("%1-%2.yaml").arg(base).arg(number));
        auto document = std::make_unique<SpecDocument>(
            app::SpecKind::kRun, QString::fromStdString(workspace_->home().root) + "/recovery");
        document->start(QString::fromStdString(found->specYaml), path);
        openLaunch(addModel(std::move(document)), nullptr);
      });
}

void MainWindow::openReady(const QString& model, const QString& cluster) {
  const auto open = [this](const QString& name) -> Page* {
    if (!name.isEmpty() && QFileInfo(name).isFile()) return openFile(name);
    // One that is open already is the one that is meant.
    for (Page* page : pages()) {
      auto* spec = qobject_cast<SpecPage*>(page);
      if (!spec || name.isEmpty() || spec->document()->name() != name) continue;
      tabs_->setCurrentWidget(page);
      return page;
    }
    for (const QString& path : workspace_->examples()) {
      if (QFileInfo(path).completeBaseName() != name) continue;
      for (Page* page : pages()) {   // the example itself, which is as good as a copy
        if (QFileInfo(page->filePath()) == QFileInfo(path)) return openFile(page->filePath());
      }
      const QString copy = workspace_->copyOfExample(path);
      return openFile(copy.isEmpty() ? path : copy);
    }
    if (!name.isEmpty()) {
      if (Page* page = currentPage()) {
        page->message()->showNote(Tone::kBad, tr("There is no example %1.").arg(name),
                                  tr("The folder of examples was not found beside the program."));
      }
    }
    return nullptr;
  };
  auto* clusterPage = qobject_cast<ClusterPage*>(open(cluster));
  auto* modelPage = qobject_cast<ModelPage*>(open(model));
  if (!modelPage) return;
  openLaunch(modelPage, clusterPage);
}

void MainWindow::closeTab(int index, bool force) {
  auto* page = qobject_cast<Page*>(tabs_->widget(index));
  if (!page) return;
  if (page->isModified() && !force) {
    tabs_->setCurrentIndex(index);
    page->message()->showNote(Tone::kWarning, tr("%1 has unsaved changes.").arg(QFileInfo(page->filePath()).fileName()),
                              tr("Save it first, or close it without saving."));
    page->message()->setAction(tr("Close without saving"));
    closing_ = page;
    return;
  }
  tabs_->removeTab(index);
  page->disconnect(this);
  page->deleteLater();
  if (tabs_->count() == 0) openWelcome();
  rememberSession();
}

void MainWindow::currentChanged() {
  Page* page = currentPage();
  undo_->setActiveStack(page ? page->undoStack() : nullptr);
  if (auto* model = qobject_cast<ModelPage*>(page)) lastModel_ = model;
  if (auto* cluster = qobject_cast<ClusterPage*>(page)) lastCluster_ = cluster;
  if (auto* welcome = qobject_cast<WelcomePage*>(page)) welcome->setRecent(workspace_->settings().recentFiles());
  if (page) {
    for (int group = 0; group < NavigatorModel::kGroups; ++group) {
      const QString key = page->filePath().isEmpty() ? page->key().section(':', 1) : page->filePath();
      const QModelIndex at = navigatorModel_->indexOf(static_cast<NavigatorModel::Group>(group), key);
      if (at.isValid()) navigator_->setCurrentIndex(at);
    }
  }
  refreshInspector();
  refreshActions();
  refreshTitles();
  rememberSession();
}

void MainWindow::refreshTitles() {
  const QList<Page*> all = pages();
  for (int i = 0; i < tabs_->count(); ++i) {
    auto* page = qobject_cast<Page*>(tabs_->widget(i));
    if (!page) continue;
    const auto same = std::count_if(all.begin(), all.end(), [&](Page* other) { return other->title() == page->title(); });
    const QString detail = page->titleDetail();
    tabs_->setTabText(i, same > 1 && !detail.isEmpty() ? QString::fromUtf8("%1 — %2").arg(page->title(), detail) : page->title());
    tabs_->setTabToolTip(i, page->filePath().isEmpty() ? detail : page->filePath());
  }
  Page* page = currentPage();
  setWindowTitle(page ? tr("%1 – Lockstep").arg(page->title()) : tr("Lockstep"));
  refreshActions();
}

void MainWindow::refreshNavigator() {
  QVector<NavigatorEntry> clusters, models;
  QStringList seen;
  const auto addFile = [&](const QString& path) {
    if (seen.contains(path) || !QFileInfo::exists(path)) return;
    seen << path;
    NavigatorEntry entry;
    entry.key = path;
    entry.title = QFileInfo(path).completeBaseName();
    (kindOf(path) == app::SpecKind::kCluster ? clusters : models) << entry;
  };
  const QDir mine(QString::fromStdString(workspace_->home().root) + "/clusters");
  for (const QString& name : mine.entryList({"*.yaml"}, QDir::Files, QDir::Name)) addFile(mine.filePath(name));
  for (Page* page : pages()) {
    if (!page->filePath().isEmpty()) addFile(page->filePath());
  }
  for (const QString& path : workspace_->settings().recentFiles()) addFile(path);
  const auto byTitle = [](const NavigatorEntry& a, const NavigatorEntry& b) { return a.title < b.title; };
  for (auto* files : {&clusters, &models}) {
    std::sort(files->begin(), files->end(), byTitle);
    // Of one name: where each lies tells them apart.
    for (NavigatorEntry& entry : *files) {
      const auto same = std::count_if(files->begin(), files->end(), [&](const auto& other) { return other.title == entry.title; });
      if (same > 1) entry.detail = formatPath(QFileInfo(entry.key).path());
    }
  }
  navigatorModel_->setEntries(NavigatorModel::kClusters, clusters);
  navigatorModel_->setEntries(NavigatorModel::kModels, models);
  refreshRuns();
}

void MainWindow::refreshRuns() {
  const int generation = ++navigatorGeneration_;
  runInBackground(
      this,
      [folder = workspace_->home().historyFolder()]() -> std::vector<app::RunRow> {
        auto history = app::History::open(folder);
        if (!history) return {};
        auto rows = (*history)->list({}, kRunsInNavigator);
        return rows ? std::move(*rows) : std::vector<app::RunRow>();
      },
      [this, generation](std::vector<app::RunRow> rows) {
        if (generation != navigatorGeneration_) return;
        QVector<NavigatorEntry> runs;
        for (const auto& row : rows) {
          NavigatorEntry entry;
          entry.key = QString::fromStdString(row.run);
          entry.title = QString::fromStdString(row.name);
          entry.detail = QDateTime::fromMSecsSinceEpoch(row.createdNs / 1'000'000).toString("MM-dd HH:mm");
          entry.stateText = runStateText(row);
          entry.tone = runPhaseTone(row.phase);
          entry.hasState = true;
          runs << entry;
        }
        runs_ = std::move(rows);
        navigatorModel_->setEntries(NavigatorModel::kRuns, runs);
      });
}

void MainWindow::refreshInspector() {
  Page* page = currentPage();
  inspectorModel_->setRows(page ? page->inspectorRows() : QVector<InspectorRow>());
}

void MainWindow::note(Tone tone, const QString& where, const QString& text) {
  raiseAlert({{}, tone, where, text, {}, false, {}});
}

void MainWindow::raiseAlert(const Alert& alert) {
  if (!alertModel_->add(alert)) return;
  status_ = alert;
  showStatus();
}

void MainWindow::showStatus() {
  const QString text = messageText(status_.text.toStdString());
  statusText_->setText(status_.where.isEmpty() ? text : QString("%1: %2").arg(status_.where, text));
}

QString MainWindow::alertFile() const {
  return QString::fromStdString(workspace_->home().root) + "/alerts.json";
}

// The names whole where there is room, and never more than their half.
void MainWindow::fitInspector() {
  int names = 60;
  for (int row = 0; row < inspectorModel_->rowCount(); ++row) {
    if (inspectorModel_->spans(row)) continue;
    names = std::max(names, inspector_->fontMetrics().horizontalAdvance(inspectorModel_->index(row, 0).data().toString()) + 26);
  }
  inspector_->setColumnWidth(0, std::min(names, std::max(60, inspector_->viewport()->width() / 2)));
  inspector_->resizeRowsToContents();
}

bool MainWindow::eventFilter(QObject* watched, QEvent* event) {
  if (watched == inspector_->viewport() && event->type() == QEvent::Resize) fitInspector();
  return QMainWindow::eventFilter(watched, event);
}

void MainWindow::restoreDefaultLayout() {
  if (!defaultState_.isEmpty()) restoreState(defaultState_, kStateVersion);
  for (QDockWidget* dock : {navigatorDock_, inspectorDock_, messageDock_}) {
    dock->setFloating(false);
    dock->show();
  }
  narrow_ = width() < kWide;
  arrangeDocks();
  resizeDocks({messageDock_}, {110}, Qt::Vertical);
}

// A small window keeps its width for the documents: the inspector stands under the navigator, and
// goes back to its side when there is room again. Docks put elsewhere by hand stay there.
void MainWindow::arrangeDocks() {
  if (navigatorDock_->isFloating() || inspectorDock_->isFloating() ||
      dockWidgetArea(navigatorDock_) != Qt::LeftDockWidgetArea) return;
  const Qt::DockWidgetArea at = dockWidgetArea(inspectorDock_);
  if (narrow_) {
    if (at == Qt::RightDockWidgetArea) splitDockWidget(navigatorDock_, inspectorDock_, Qt::Vertical);
    resizeDocks({navigatorDock_}, {kNavigatorWidth}, Qt::Horizontal);
    resizeDocks({navigatorDock_, inspectorDock_}, {1, 1}, Qt::Vertical);
  } else {
    if (at == Qt::LeftDockWidgetArea) addDockWidget(Qt::RightDockWidgetArea, inspectorDock_);
    resizeDocks({navigatorDock_, inspectorDock_}, {kNavigatorWidth, kInspectorWidth}, Qt::Horizontal);
  }
}

void MainWindow::resizeEvent(QResizeEvent* event) {
  QMainWindow::resizeEvent(event);
  const bool narrow = width() < kWide;
  if (narrow == narrow_) return;
  narrow_ = narrow;
  // After the layout has come to the new size.
  QTimer::singleShot(0, this, &MainWindow::arrangeDocks);
}

QRect MainWindow::withinScreen(const QRect& window, const QMargins& frame, const QRect& available) {
  const QRect room = available.marginsRemoved(frame);
  QRect out(window.topLeft(), window.size().boundedTo(room.size()));
  if (out.right() > room.right()) out.moveRight(room.right());
  if (out.bottom() > room.bottom()) out.moveBottom(room.bottom());
  if (out.left() < room.left()) out.moveLeft(room.left());
  if (out.top() < room.top()) out.moveTop(room.top());
  return out;
}

void MainWindow::fitToScreen() {
  if (isMaximized() || isFullScreen() || !screen()) return;
  const QRect inner = geometry(), outer = frameGeometry();
  const QMargins frame(inner.left() - outer.left(), inner.top() - outer.top(), outer.right() - inner.right(),
                       outer.bottom() - inner.bottom());
  const QRect fitting = withinScreen(inner, frame, screen()->availableGeometry());
  if (fitting != inner) setGeometry(fitting);
}

void MainWindow::restoreSession() {
  Settings& settings = workspace_->settings();
  const QString current = settings.store().value("window/current").toString();
  for (const QString& key : settings.store().value("window/open").toStringList()) {
    const QString rest = key.section(':', 1);
    if (key.startsWith("run:")) {
      openRun(rest);
    } else if (key == "history") {
      openHistory();
    } else if (!rest.isEmpty() && QFileInfo::exists(rest)) {
      openFile(rest);
    }
  }
  for (Page* page : pages()) {
    if (page->key() == current) tabs_->setCurrentWidget(page);
  }
  restoring_ = false;
  runInBackground(
      this,
      [folder = workspace_->home().historyFolder()]() -> QStringList {
        QStringList going;
        auto history = app::History::open(folder);
        if (!history) return going;
        if (auto rows = (*history)->list({}, kRunsInNavigator)) {
          for (const auto& row : *rows) {
            // One whose launch was cut off may have begun, once its nodes are known.
            const auto begun = [&] {
              const auto documents = (*history)->documents(row.run);
              return documents.ok() && !documents->nodes.empty();
            };
            if (row.phase == app::RunPhase::kRunning || row.phase == app::RunPhase::kStopping ||
                (row.phase == app::RunPhase::kLaunching && begun())) {
              going << QString::fromStdString(row.run);
            }
          }
        }
        return going;
      },
      [this](const QStringList& going) {
        for (const QString& run : going) openRun(run);
      });
}

void MainWindow::rememberSession() {
  if (restoring_) return;
  QSettings& store = workspace_->settings().store();
  QStringList open;
  for (Page* page : pages()) open << page->key();
  store.setValue("window/open", open);
  store.setValue("window/current", currentPage() ? currentPage()->key() : QString());
}

void MainWindow::closeEvent(QCloseEvent* event) {
  Settings& settings = workspace_->settings();
  restoring_ = false;
  rememberSession();
  for (Page* page : pages()) {
    if (auto* spec = qobject_cast<SpecPage*>(page); spec && spec->isModified()) spec->document()->keepRecovery();
  }
  if (alertModel_->rowCount() > 0) (void)alertModel_->save(alertFile());
  settings.store().setValue("window/geometry", saveGeometry());
  settings.store().setValue("window/state", saveState(kStateVersion));
  settings.store().sync();
  event->accept();
}

void MainWindow::changeEvent(QEvent* event) {
  if (event->type() == QEvent::LanguageChange) retranslate();
  QMainWindow::changeEvent(event);
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  for (const QUrl& url : event->mimeData()->urls()) {
    if (url.isLocalFile() && (url.path().endsWith(".yaml") || url.path().endsWith(".yml"))) {
      event->acceptProposedAction();
      return;
    }
  }
}

void MainWindow::dropEvent(QDropEvent* event) {
  for (const QUrl& url : event->mimeData()->urls()) {
    if (url.isLocalFile()) openFile(url.toLocalFile());
  }
  event->acceptProposedAction();
}

}  // namespace lockstep::ui
