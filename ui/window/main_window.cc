#include "ui/window/main_window.h"

#include <QCloseEvent>
#include <QDialog>
#include <QDir>
#include <QFileInfo>
#include <QLabel>
#include <QLayout>
#include <QMenu>
#include <QMimeData>
#include <QProgressBar>
#include <QStatusBar>
#include <QSystemTrayIcon>
#include <QTabBar>
#include <QTabWidget>
#include <QToolButton>
#include <QTreeView>
#include <QUndoGroup>
#include <algorithm>
#include <vector>

#include "ui/dialogs/launch_dialog.h"
#include "ui/dialogs/ssh_questions.h"
#include "ui/models/alert_model.h"
#include "ui/models/inspector_model.h"
#include "ui/models/navigator_model.h"
#include "ui/pages/cluster_page.h"
#include "ui/pages/model_page.h"
#include "ui/pages/welcome_page.h"
#include "ui/studio/background.h"
#include "ui/studio/run_document.h"
#include "ui/studio/spec_document.h"
#include "ui/theme/format.h"
#include "ui/theme/language.h"
#include "ui/theme/message_text.h"
#include "ui/theme/tool_tip.h"
#include "ui/widgets/widgets.h"
#include "ui/window/command_palette.h"

namespace lockstep::ui {
namespace {

constexpr int kRunsInNavigator = 60;
constexpr int kDocumentsLeast = 340;
constexpr int kWidestTab = 280;     // pixels, of its text
constexpr int kJobTextWidth = 320;  // pixels, at least: what is longer gives way

// The specs among the files that are dragged.
QStringList specsOf(const QMimeData& dragged) {
  QStringList out;
  for (const QUrl& url : dragged.urls())
    if (url.isLocalFile() && (url.path().endsWith(".yaml") || url.path().endsWith(".yml")))
      out << url.toLocalFile();
  return out;
}

}  // namespace

MainWindow::MainWindow(StudioOptions options)
    : workspace_(std::make_unique<Workspace>(std::move(options))) {
  setObjectName("studioWindow");
  setWindowIcon(QIcon(":/icons/lockstep.svg"));
  setAcceptDrops(true);
  setDockOptions(QMainWindow::AnimatedDocks | QMainWindow::AllowNestedDocks |
                 QMainWindow::AllowTabbedDocks);
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
  tabs_->setElideMode(Qt::ElideNone);  // more than fit are scrolled
  tabs_->setUsesScrollButtons(true);
  // A page with a message on it may ask for more than a low window has: its tables give way, not
  // the status bar.
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
  connect(workspace_.get(), &Workspace::historySetAside, this, [this](const QString& file) {
    raiseAlert({"history:" + file, Tone::kWarning, tr("History"),
                lockstep::message("a damaged file was renamed to {}", file.toStdString())});
  });
  workspace_->watchHistory();
  connect(workspace_.get(), &Workspace::question, questions_, &QuestionQueue::ask);
  connect(&Theme::instance(), &Theme::changed, this, &MainWindow::restyle);
  layout()->setSizeConstraint(QLayout::SetNoConstraint);  // see fitDocks()
  resize(1400, 900);
  restoreDefaultLayout();
  defaultState_ = dockState();
  restoreGeometry(settings.store().value("window/geometry").toByteArray());
  if (!restoreDocks(settings.store().value("window/state").toByteArray())) restoreDefaultLayout();
  // As wide as when the docks were put so; on a smaller screen they go to one side.
  narrow_ = settings.store().value("window/narrow", narrow_).toBool();
  fitDocks();
  alertModel_->load(alertFile());
  alertSave_.setSingleShot(true);
  alertSave_.setInterval(1000);
  connect(alertModel_, &AlertModel::changed, &alertSave_, QOverload<>::of(&QTimer::start));
  connect(&alertSave_, &QTimer::timeout, this, [this] { (void)alertModel_->save(alertFile()); });
  connect(workspace_.get(), &Workspace::alertProblem, this, [this](const Error& error) {
    raiseAlert({{}, Tone::kWarning, tr("Alert rules"), error.message()});
  });
  connect(workspace_.get(), &Workspace::notification, this, &MainWindow::showNotification);
  workspace_->readAlertSettings();
  retranslate();
  openWelcome();
  refreshNavigator();
}

// Dialogs and pages look at the workspace to their end, those closed already too.
MainWindow::~MainWindow() {
  disconnect(tabs_, nullptr, this, nullptr);
  disconnect(undo_, nullptr, this, nullptr);
  qDeleteAll(findChildren<QDialog*>(QString(), Qt::FindDirectChildrenOnly));
  while (tabs_->count() > 0) delete tabs_->widget(0);
  qDeleteAll(findChildren<Page*>());
}

void MainWindow::makeStatusBar() {
  statusText_ = new ElidedLabel("statusText", this, "muted");
  statusText_->setIndent(kSpaceS);
  auto* jobText = new ElidedLabel("jobText", this, "muted");
  jobText->setLeast(kJobTextWidth);
  jobText_ = jobText;
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
  connect(jobCancel_, &QToolButton::clicked, this, &MainWindow::cancelJob);
  refreshJobs();
}

void MainWindow::refreshJobs() {
  const JobTracker& jobs = workspace_->jobs();
  const int count = jobs.rowCount();
  for (QWidget* widget : {static_cast<QWidget*>(jobText_), static_cast<QWidget*>(jobBar_)})
    widget->setVisible(count > 0);
  bool cancellable = false;
  for (int row = 0; row < count; ++row) cancellable = cancellable || jobs.cancellable(row);
  jobCancel_->setVisible(cancellable);
  if (count == 0) return;
  const QString text = jobs.data(jobs.index(0), Qt::DisplayRole).toString();
  jobText_->setText(count > 1 ? tr("%1 (and %2 more)").arg(text, QString::number(count - 1))
                              : text);
  const double fraction = jobs.data(jobs.index(0), JobTracker::kProgressRole).toDouble();
  jobBar_->setRange(0, fraction < 0 ? 0 : 1000);
  if (fraction >= 0) jobBar_->setValue(static_cast<int>(fraction * 1000));
}

// Cancels the job that the bar shows, if no other can be meant; else asks which.
void MainWindow::cancelJob() {
  JobTracker& jobs = workspace_->jobs();
  std::vector<int> rows;
  for (int row = 0; row < jobs.rowCount(); ++row)
    if (jobs.cancellable(row)) rows.push_back(row);
  if (rows == std::vector{0}) return jobs.cancel(jobs.jobAt(0));
  auto* menu = new QMenu(this);
  menu->setObjectName("jobMenu");
  menu->setAttribute(Qt::WA_DeleteOnClose);
  for (const int row : rows) {
    QString text = jobs.data(jobs.index(row), Qt::DisplayRole).toString();
    menu->addAction(tr("Cancel: %1").arg(text.replace('&', "&&")), this,
                    [this, job = jobs.jobAt(row)] { workspace_->jobs().cancel(job); });
  }
  menu->popup(jobCancel_->mapToGlobal(QPoint(0, -menu->sizeHint().height())));
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
  connect(page, &Page::titleChanged, this, &MainWindow::refreshTitles);
  connect(page, &Page::inspectorChanged, this, [this, page] {
    if (page == currentPage()) refreshInspector();
  });
  connect(page, &Page::placeChanged, this, [this, page] {
    if (page != currentPage()) return;
    activateUndo();
    notePlace();
  });
  connect(page, &Page::alertRaised, this, &MainWindow::raiseAlert);
  connect(page, &Page::alertOver, this, &MainWindow::resolveAlert);
  connect(page->message(), &MessagePanel::actionTriggered, this, [this, page] {
    if (closing_.contains(page)) closeTab(tabs_->indexOf(page), true);
  });
  const int index = tabs_->addTab(page, Theme::instance().icon(page->iconName()), page->title());
  tabs_->setCurrentIndex(index);
  // The welcome page makes room for the first document.
  if (tabs_->count() == 2 && qobject_cast<WelcomePage*>(tabs_->widget(0))) closeTab(0, true);
  refreshTitles();
}

void MainWindow::closeTab(int index, bool force) {
  auto* page = qobject_cast<Page*>(tabs_->widget(index));
  if (!page) return;
  if (page->isModified() && !force) {
    tabs_->setCurrentIndex(index);
    page->message()->showNote(Tone::kWarning, [file = QFileInfo(page->filePath()).fileName()] {
      return MessagePanel::Note{tr("%1 has unsaved changes.").arg(file),
                                tr("Save it first, or close it without saving."),
                                {},
                                tr("Close without saving")};
    });
    closing_ << page;
    return;
  }
  closing_.remove(page);
  tabs_->removeTab(index);
  page->disconnect(this);
  alertModel_->resolveOf(page->key());  // nobody looks at it any more
  if (status_.lasts && status_.key.startsWith(page->key() + ':')) {
    status_ = {};
    showStatus();
  }
  page->deleteLater();
  if (tabs_->count() == 0) openWelcome();
  rememberSession();
}

// Of what is shown alone: nothing is undone unseen.
void MainWindow::activateUndo() {
  Page* page = currentPage();
  QUndoStack* const stack = page ? page->undoStack() : nullptr;
  if (stack) undo_->addStack(stack);
  undo_->setActiveStack(stack);
}

void MainWindow::currentChanged() {
  Page* page = currentPage();
  activateUndo();
  if (auto* model = qobject_cast<ModelPage*>(page)) lastModel_ = model;
  if (auto* cluster = qobject_cast<ClusterPage*>(page)) lastCluster_ = cluster;
  if (auto* welcome = qobject_cast<WelcomePage*>(page))
    welcome->setRecent(workspace_->settings().recentFiles());
  navigator_->setCurrentIndex(page ? navigatorModel_->indexOf(page->key()) : QModelIndex());
  refreshInspector();
  refreshActions();
  refreshTitles();
  rememberSession();
  notePlace();
  makeRoom();
}

void MainWindow::refreshTitles() {
  const QList<Page*> all = pages();
  for (Page* page : all)  // saved meanwhile, there is nothing to ask
    if (!page->isModified() && closing_.remove(page)) page->message()->dropAction();
  for (int i = 0; i < tabs_->count(); ++i) {
    auto* page = qobject_cast<Page*>(tabs_->widget(i));
    if (!page) continue;
    const auto same = std::count_if(all.begin(), all.end(),
                                    [&](Page* other) { return other->title() == page->title(); });
    const QString detail = page->titleDetail();
    const QString text = same > 1 && !detail.isEmpty()
                             ? QString::fromUtf8("%1 — %2").arg(page->title(), detail)
                             : page->title();
    const QString shown = tabs_->fontMetrics().elidedText(text, Qt::ElideMiddle, kWidestTab);
    const QString label = QString(shown).replace('&', "&&");  // no shortcut
    if (tabs_->tabText(i) != label) tabs_->setTabText(i, label);
    const QString place = page->filePath().isEmpty() ? detail : page->filePath();
    QStringList tip;
    if (shown != text) tip << text;
    if (!place.isEmpty()) tip << place;
    tabs_->setTabToolTip(i, toolTipText(tip.join('\n')));
    tabs_->tabBar()->setAccessibleTabName(i, text);
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
    (specKindOf(path) == app::SpecKind::kCluster ? clusters : models) << entry;
  };
  const QDir mine(QString::fromStdString(workspace_->home().root) + "/clusters");
  for (const QString& name : mine.entryList({"*.yaml"}, QDir::Files, QDir::Name))
    addFile(mine.filePath(name));
  for (Page* page : pages()) {
    if (!page->filePath().isEmpty()) addFile(page->filePath());
  }
  for (const QString& path : workspace_->settings().recentFiles()) addFile(path);
  const auto byTitle = [](const NavigatorEntry& a, const NavigatorEntry& b) {
    return a.title < b.title;
  };
  for (auto* files : {&clusters, &models}) {
    std::sort(files->begin(), files->end(), byTitle);
    // Files of one name are told apart by their folders.
    for (NavigatorEntry& entry : *files) {
      const auto same = std::count_if(files->begin(), files->end(), [&](const auto& other) {
        return other.title == entry.title;
      });
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
          entry.detail =
              QDateTime::fromMSecsSinceEpoch(row.createdNs / 1'000'000).toString("MM-dd HH:mm");
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

void MainWindow::raiseAlert(const Alert& alert) {
  // One that the status bar tells may have another text now.
  const bool isTold = !alert.key.isEmpty() && status_.key == alert.key;
  if (!alertModel_->add(alert) && !isTold) return;
  status_ = alert;
  showStatus();
}

void MainWindow::resolveAlert(const QString& key, const QDateTime& when) {
  alertModel_->resolve(key, when);
  if (status_.key != key) return;
  status_ = {};
  showStatus();
}

// Shows nothing where the desktop has no notification area.
void MainWindow::showNotification(const app::AlertEvent& event) {
  if (!QSystemTrayIcon::isSystemTrayAvailable()) return;
  if (!tray_) {
    tray_ = new QSystemTrayIcon(windowIcon(), this);
    connect(tray_, &QSystemTrayIcon::messageClicked, this, [this] {
      openRun(notifiedRun_);
      showNormal();
      activateWindow();
    });
  }
  tray_->show();
  notifiedRun_ = QString::fromStdString(event.run);
  tray_->showMessage(QString::fromStdString(event.name), messageText(event.text),
                     event.severe ? QSystemTrayIcon::Critical : QSystemTrayIcon::Warning);
}

void MainWindow::showStatus() {
  const QString text = messageText(status_.text);
  statusText_->setText(status_.where.isEmpty() ? text : QString("%1: %2").arg(status_.where, text));
  statusText_->setToolTip(statusText_->text());
}

QString MainWindow::recoveryFolder() const {
  return QString::fromStdString(workspace_->home().root) + "/recovery";
}

QString MainWindow::alertFile() const {
  return QString::fromStdString(workspace_->home().root) + "/alerts.json";
}

void MainWindow::restoreSession(bool showRuns) {
  Settings& settings = workspace_->settings();
  const QString current = settings.store().value("window/current").toString();
  const QVariantMap views = settings.store().value("window/views").toMap();
  for (const QString& key : settings.store().value("window/open").toStringList()) {
    if (isGone(key)) continue;
    if (Page* page = openPage(key)) page->restoreView(views.value(key).toMap());
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
            if (app::isUnderWay(row.phase) || (row.phase == app::RunState::LAUNCHING && begun())) {
              going << QString::fromStdString(row.run);
            }
          }
        }
        return going;
      },
      [this, showRuns](const QStringList& going) { openRuns(going, showRuns); });
}

void MainWindow::rememberSession() {
  if (restoring_) return;
  QSettings& store = workspace_->settings().store();
  QStringList open;
  QVariantMap views;
  for (Page* page : pages()) {
    open << page->key();
    if (const QVariantMap view = page->view(); !view.isEmpty()) views[page->key()] = view;
  }
  store.setValue("window/open", open);
  store.setValue("window/views", views);
  store.setValue("window/current", currentPage() ? currentPage()->key() : QString());
}

void MainWindow::closeEvent(QCloseEvent* event) {
  Settings& settings = workspace_->settings();
  restoring_ = false;
  rememberSession();
  QList<SpecDocument*> unsaved;
  for (Page* page : pages()) {
    auto* spec = qobject_cast<SpecPage*>(page);
    if (!spec || !spec->isModified()) continue;
    unsaved << spec->document();
    const Status stored = unsaved.back()->autosave();
    if (stored.ok()) continue;
    tabs_->setCurrentWidget(page);  // what is written there would be lost
    page->message()->showError(stored.error());
    return event->ignore();
  }
  for (SpecDocument* document : unsaved) document->keepRecovery();
  (void)alertModel_->save(alertFile());
  settings.store().setValue("window/geometry", saveGeometry());
  showHiddenDocks();
  settings.store().setValue("window/state", dockState());
  settings.store().setValue("window/narrow", narrow_);
  settings.store().sync();
  event->accept();
}

void MainWindow::changeEvent(QEvent* event) {
  if (event->type() == QEvent::LanguageChange) retranslate();
  QMainWindow::changeEvent(event);
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  if (!specsOf(*event->mimeData()).isEmpty()) event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
  for (const QString& path : specsOf(*event->mimeData())) openFile(path);
  event->acceptProposedAction();
}

}  // namespace lockstep::ui
