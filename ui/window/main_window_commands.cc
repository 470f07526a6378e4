// The commands of the main window: its actions, menus and tool bar, what they ask, and their texts.
#include <QAction>
#include <QActionGroup>
#include <QDockWidget>
#include <QFile>
#include <QFileDialog>
#include <QFileInfo>
#include <QMenu>
#include <QMenuBar>
#include <QProgressBar>
#include <QStatusBar>
#include <QTabWidget>
#include <QTableView>
#include <QToolBar>
#include <QToolButton>
#include <QTreeView>
#include <QUndoGroup>

#include "ui/dialogs/about_dialog.h"
#include "ui/dialogs/preferences_dialog.h"
#include "ui/models/alert_model.h"
#include "ui/models/navigator_model.h"
#include "ui/pages/cluster_page.h"
#include "ui/pages/history_page.h"
#include "ui/pages/model_page.h"
#include "ui/pages/run_page.h"
#include "ui/studio/run_document.h"
#include "ui/studio/spec_document.h"
#include "ui/theme/error_text.h"
#include "ui/theme/language.h"
#include "ui/widgets/widgets.h"
#include "ui/window/command_palette.h"
#include "ui/window/main_window.h"
#include "ui/window/shortcuts_dialog.h"

namespace lockstep::ui {

QAction* MainWindow::command(const char* name, const char* icon, const QKeySequence& keys,
                             std::function<void()> call) {
  auto* action = new QAction(this);
  action->setObjectName(name);
  action->setShortcut(keys);
  if (icon) actionIcons_[name] = icon;
  connect(action, &QAction::triggered, this, std::move(call));
  addAction(action);
  actions_[name] = action;
  return action;
}

void MainWindow::makeActions() {
  makeFileActions();
  makeEditActions();
  makeRunActions();
  makeWindowActions();
  connect(undo_, &QUndoGroup::canUndoChanged, this, &MainWindow::refreshActions);
  connect(undo_, &QUndoGroup::canRedoChanged, this, &MainWindow::refreshActions);
  connect(undo_, &QUndoGroup::undoTextChanged, this, &MainWindow::refreshActions);
}

void MainWindow::makeFileActions() {
  command("actionNewCluster", "cluster", QKeySequence(Qt::CTRL | Qt::Key_N),
          [this] { newCluster(); });
  command("actionNewModel", "model", QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_N),
          [this] { newModel(); });
  command("actionNewRun", "play", {}, [this] { openLaunch(nullptr, nullptr); });
  command("actionOpen", "open", QKeySequence::Open, [this] { askOpen(); });
  command("actionImport", "cluster", {}, [this] { askImport(); });
  command("actionSave", "save", QKeySequence::Save, [this] {
    if (Page* current = currentPage()) {
      if (current->save()) workspace_->settings().addRecent(current->filePath());
      refreshNavigator();
    }
  });
  command("actionSaveAs", nullptr, QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_S),
          [this] { askSaveAs(); });
  command("actionCloseTab", "close", QKeySequence(Qt::CTRL | Qt::Key_W),
          [this] { closeTab(tabs_->currentIndex()); });
  command("actionQuit", nullptr, QKeySequence(Qt::CTRL | Qt::Key_Q), [this] { close(); });
}

void MainWindow::makeEditActions() {
  command("actionUndo", "undo", QKeySequence::Undo, [this] { undo_->undo(); });
  command("actionRedo", "redo", {}, [this] { undo_->redo(); })
      ->setShortcuts(
          {QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_Z), QKeySequence(Qt::CTRL | Qt::Key_Y)});
  command("actionFind", "search", QKeySequence::Find, [this] {
    if (Page* current = currentPage()) current->find();
  });
  command("actionPreferences", nullptr, QKeySequence(Qt::CTRL | Qt::Key_Comma), [this] {
    auto* dialog =
        new PreferencesDialog(Theme::instance().isDark(), Language::instance().code(), this);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    connect(dialog, &PreferencesDialog::darkChosen, this, &MainWindow::setDark);
    connect(dialog, &PreferencesDialog::languageChosen, this, &MainWindow::setLanguage);
    dialog->open();
  });
  command("actionDefaultLayout", "layout", {}, [this] { restoreDefaultLayout(); });
  QAction* dark = command("actionDark", "theme", QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_D),
                          [this] { setDark(!Theme::instance().isDark()); });
  dark->setCheckable(true);
  auto* languages = new QActionGroup(this);
  for (auto [name, code] : {std::pair{"actionEnglish", "en"}, {"actionChinese", "zh_CN"}}) {
    QAction* action = command(name, "language", {}, [this, code = code] { setLanguage(code); });
    action->setCheckable(true);
    languages->addAction(action);
  }
}

void MainWindow::makeRunActions() {
  const auto page = [this] { return currentPage(); };
  command("actionConnect", "connect", QKeySequence(Qt::CTRL | Qt::Key_K), [this, page] {
    if (auto* cluster = qobject_cast<ClusterPage*>(page())) cluster->connectAll();
  });
  command("actionDisconnect", "disconnect", {}, [this, page] {
    if (auto* cluster = qobject_cast<ClusterPage*>(page())) cluster->disconnectAll();
  });
  command("actionAddHost", "add", QKeySequence(Qt::CTRL | Qt::Key_H), [this, page] {
    if (auto* cluster = qobject_cast<ClusterPage*>(page())) cluster->addHost();
  });
  command("actionLaunch", "play", QKeySequence(Qt::CTRL | Qt::Key_R), [this, page] {
    openLaunch(qobject_cast<ModelPage*>(page()), qobject_cast<ClusterPage*>(page()));
  });
  command("actionStop", "stop", {}, [this, page] {
    if (auto* run = qobject_cast<RunPage*>(page())) run->document()->stop();
  });
  command("actionKill", "kill", {}, [this, page] {
    if (auto* run = qobject_cast<RunPage*>(page())) run->document()->kill();
  });
  command("actionResume", "play", {}, [this] { relaunch(shownRun(), app::RelaunchKind::kResume); });
  command("actionRerun", "refresh", {},
          [this] { relaunch(shownRun(), app::RelaunchKind::kRerun); });
  command("actionClone", "copy", {}, [this] { clone(shownRun()); });
}

void MainWindow::makeWindowActions() {
  command("actionHistory", "history", QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_H),
          [this] { openHistory(); });
  command("actionWelcome", "home", {}, [this] { openWelcome(); });
  command("actionRunHere", "play", {}, [this] { openReady("fashion-cnn", "local-3"); });
  command("actionPalette", "command", QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_P),
          [this] { palette_->popUp(allActions()); });
  command("actionNextTab", nullptr, QKeySequence(Qt::CTRL | Qt::Key_PageDown), [this] {
    if (tabs_->count() > 0) tabs_->setCurrentIndex((tabs_->currentIndex() + 1) % tabs_->count());
  });
  command("actionPreviousTab", nullptr, QKeySequence(Qt::CTRL | Qt::Key_PageUp), [this] {
    const int count = tabs_->count();
    if (count > 0) tabs_->setCurrentIndex((tabs_->currentIndex() + count - 1) % count);
  });
  command("actionShortcuts", "key", QKeySequence(Qt::Key_F1), [this] {
    auto* dialog = new ShortcutsDialog(allActions(), this);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->open();
  });
  command("actionAbout", "info", {}, [this] {
    auto* about = new AboutDialog(this);
    about->setAttribute(Qt::WA_DeleteOnClose);
    about->open();
  });
}

void MainWindow::makeMenus() {
  const auto menu = [this](const char* name, const QStringList& entries) {
    auto* out = menuBar()->addMenu(QString());
    out->setObjectName(name);
    for (const QString& entry : entries) {
      if (entry == "-") {
        out->addSeparator();
      } else {
        out->addAction(actions_[entry]);
      }
    }
    menus_ << out;
    return out;
  };
  QMenu* file =
      menu("menuFile", {"actionNewModel", "actionNewCluster", "actionNewRun", "actionOpen"});
  recentMenu_ = file->addMenu(QString());
  recentMenu_->setObjectName("menuRecent");
  connect(recentMenu_, &QMenu::aboutToShow, this, &MainWindow::fillRecent);
  for (const char* entry :
       {"actionImport", "-", "actionSave", "actionSaveAs", "actionCloseTab", "-", "actionQuit"}) {
    if (*entry == '-') {
      file->addSeparator();
    } else {
      file->addAction(actions_[entry]);
    }
  }
  menu("menuEdit", {"actionUndo", "actionRedo", "-", "actionFind", "-", "actionPreferences"});
  QMenu* view = menu("menuView", {"actionPalette", "actionNextTab", "actionPreviousTab", "-"});
  for (QDockWidget* dock : {navigatorDock_, inspectorDock_, messageDock_}) {
    QAction* toggle = dock->toggleViewAction();
    toggle->setObjectName("toggle_" + dock->objectName());
    view->addAction(toggle);
  }
  view->addAction(actions_["actionDefaultLayout"]);
  view->addSeparator();
  view->addAction(actions_["actionDark"]);
  QMenu* language = view->addMenu(QString());
  language->setObjectName("menuLanguage");
  language->addAction(actions_["actionEnglish"]);
  language->addAction(actions_["actionChinese"]);
  menu("menuCluster", {"actionAddHost", "actionConnect", "actionDisconnect"});
  menu("menuRun", {"actionLaunch", "actionRunHere", "-", "actionStop", "actionKill", "-",
                   "actionResume", "actionRerun", "actionClone", "-", "actionHistory"});
  menu("menuHelp", {"actionWelcome", "actionShortcuts", "actionAbout"});
  menus_ << recentMenu_ << language;

  toolBar_ = addToolBar(QString());
  toolBar_->setObjectName("toolBar");
  toolBar_->setMovable(false);
  for (const char* entry : {"actionOpen", "actionSave", "-", "actionUndo", "actionRedo", "-",
                            "actionLaunch", "actionHistory"}) {
    if (*entry == '-') {
      toolBar_->addSeparator();
    } else {
      toolBar_->addAction(actions_[entry]);
    }
  }
  auto* gap = new QWidget(this);
  gap->setObjectName("toolBarGap");
  gap->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Preferred);
  toolBar_->addWidget(gap);
  toolBar_->addAction(actions_["actionPalette"]);
  toolBar_->addAction(actions_["actionDark"]);
}

void MainWindow::refreshActions() {
  Page* page = currentPage();
  auto* cluster = qobject_cast<ClusterPage*>(page);
  auto* run = qobject_cast<RunPage*>(page);
  actions_["actionSave"]->setEnabled(page && page->isModified());
  actions_["actionSaveAs"]->setEnabled(page && !page->filePath().isEmpty());
  actions_["actionFind"]->setEnabled(page && page->canFind());
  actions_["actionUndo"]->setEnabled(undo_->canUndo());
  actions_["actionRedo"]->setEnabled(undo_->canRedo());
  actions_["actionConnect"]->setEnabled(cluster);
  actions_["actionDisconnect"]->setEnabled(cluster && cluster->liveIfAny());
  actions_["actionAddHost"]->setEnabled(cluster);
  actions_["actionStop"]->setEnabled(run && run->document()->canStop());
  actions_["actionKill"]->setEnabled(run && run->document()->canKill());
  auto* history = qobject_cast<HistoryPage*>(page);
  const bool again = run ? run->document()->canRelaunch() : history && history->canRelaunch();
  const bool resume = run ? run->document()->canResume() : again;
  actions_["actionResume"]->setEnabled(resume);
  actions_["actionRerun"]->setEnabled(again);
  actions_["actionClone"]->setEnabled(again);
  actions_["actionDark"]->setChecked(Theme::instance().isDark());
  actions_["actionEnglish"]->setChecked(Language::instance().code() == "en");
  actions_["actionChinese"]->setChecked(Language::instance().code() == "zh_CN");
}

QString MainWindow::shownRun() const {
  if (auto* run = qobject_cast<RunPage*>(currentPage())) return run->document()->run();
  auto* history = qobject_cast<HistoryPage*>(currentPage());
  return history ? history->selectedRun() : QString();
}

void MainWindow::fillRecent() {
  recentMenu_->clear();
  for (const QString& path : workspace_->settings().recentFiles()) {
    QAction* action = recentMenu_->addAction(QFileInfo(path).fileName());
    action->setToolTip(path);
    connect(action, &QAction::triggered, this, [this, path] { openFile(path); });
  }
  if (recentMenu_->isEmpty()) recentMenu_->addAction(tr("Nothing yet"))->setEnabled(false);
}

void MainWindow::askOpen() {
  auto* dialog =
      new QFileDialog(this, tr("Open"), QString(), tr("Specs (*.yaml *.yml);;All files (*)"));
  dialog->setObjectName("openFileDialog");
  dialog->setFileMode(QFileDialog::ExistingFiles);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &QFileDialog::filesSelected, this, [this](const QStringList& paths) {
    for (const QString& path : paths) openFile(path);
  });
  dialog->open();
}

void MainWindow::askImport() {
  auto* dialog =
      new QFileDialog(this, tr("Import a hostfile or TF_CONFIG"), QString(), tr("All files (*)"));
  dialog->setObjectName("importDialog");
  dialog->setFileMode(QFileDialog::ExistingFile);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &QFileDialog::fileSelected, this, [this](const QString& path) {
    QFile file(path);
    if (!file.open(QIODevice::ReadOnly)) return;
    const std::string text = file.readAll().toStdString();
    const std::string name = QFileInfo(path).completeBaseName().toStdString();
    const bool json = QByteArray::fromStdString(text).trimmed().startsWith('{');
    const auto yaml = json ? app::importTfConfig(text, name) : app::importHostfile(text, name);
    Page* page = currentPage();
    if (!yaml) {
      if (page) page->message()->showError(yaml.error());
      return;
    }
    ClusterPage* cluster = newCluster();
    if (cluster) cluster->document()->type(QString::fromStdString(*yaml));
  });
  dialog->open();
}

void MainWindow::askSaveAs() {
  auto* page = qobject_cast<SpecPage*>(currentPage());
  if (!page) return;
  auto* dialog = new QFileDialog(this, tr("Save as"), page->filePath(), tr("Specs (*.yaml)"));
  dialog->setObjectName("saveAsDialog");
  dialog->setAcceptMode(QFileDialog::AcceptSave);
  dialog->setDefaultSuffix("yaml");
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &QFileDialog::fileSelected, page, [this, page](const QString& path) {
    if (page->saveAs(path)) workspace_->settings().addRecent(path);
    refreshNavigator();
  });
  dialog->open();
}

QList<QAction*> MainWindow::allActions() const {
  QList<QAction*> out;
  for (QMenu* menu : menus_) {
    for (QAction* action : menu->actions()) {
      if (!action->isSeparator() && !action->menu() && action->objectName() != "actionPalette" &&
          !out.contains(action))
        out << action;
    }
  }
  return out;
}

void MainWindow::setDark(bool dark) {
  workspace_->settings().setDark(dark);
  Theme::instance().apply(dark ? Theme::Mode::kDark : Theme::Mode::kLight);
}

void MainWindow::setLanguage(const QString& code) {
  workspace_->settings().setLanguage(code);
  Language::instance().set(code);
}

void MainWindow::restyle() {
  for (auto it = actionIcons_.begin(); it != actionIcons_.end(); ++it) {
    actions_[it.key()]->setIcon(Theme::instance().icon(it.value()));
  }
  refreshActions();
}

void MainWindow::retranslate() {
  const auto text = [this](const char* name, const QString& value) {
    actions_[name]->setText(value);
  };
  text("actionNewModel", tr("New &model…"));
  text("actionNewCluster", tr("&New cluster"));
  text("actionNewRun", tr("New &run…"));
  text("actionOpen", tr("&Open…"));
  text("actionImport", tr("&Import hostfile or TF_CONFIG…"));
  text("actionSave", tr("&Save"));
  text("actionSaveAs", tr("Save &as…"));
  text("actionCloseTab", tr("&Close tab"));
  text("actionQuit", tr("&Quit"));
  text("actionUndo", tr("&Undo"));
  text("actionRedo", tr("&Redo"));
  text("actionDefaultLayout", tr("Restore &default layout"));
  text("actionDark", tr("Dar&k theme"));
  text("actionEnglish", "English");
  text("actionChinese", QString::fromUtf8("中文 (Chinese)"));
  text("actionFind", tr("&Find"));
  text("actionPreferences", tr("&Preferences…"));
  text("actionPreviousTab", tr("Pre&vious tab"));
  text("actionShortcuts", tr("&Keyboard shortcuts…"));
  text("actionConnect", tr("&Connect nodes"));
  text("actionDisconnect", tr("&Disconnect nodes"));
  text("actionAddHost", tr("&Add host…"));
  text("actionLaunch", tr("&Launch…"));
  text("actionStop", tr("&Stop run"));
  text("actionKill", tr("&Kill run"));
  text("actionResume", tr("&Resume run…"));
  text("actionRerun", tr("R&erun…"));
  text("actionClone", tr("&Clone as new model…"));
  text("actionHistory", tr("&History"));
  text("actionWelcome", tr("&Welcome"));
  text("actionRunHere", tr("Run the &example on this machine"));
  text("actionPalette", tr("Command &palette…"));
  text("actionNextTab", tr("Next &tab"));
  text("actionAbout", tr("&About Lockstep"));
  const QStringList titles{tr("&File"), tr("&Edit"), tr("&View"),        tr("&Cluster"),
                           tr("&Run"),  tr("&Help"), tr("Open &recent"), tr("&Language")};
  for (int i = 0; i < menus_.size(); ++i) menus_[i]->setTitle(titles[i]);
  navigatorDock_->setWindowTitle(tr("Navigator"));
  inspectorDock_->setWindowTitle(tr("Inspector"));
  messageDock_->setWindowTitle(tr("Messages"));
  toolBar_->setWindowTitle(tr("Tools"));
  navigator_->setAccessibleName(tr("Navigator"));
  inspector_->setAccessibleName(tr("Inspector"));
  alerts_->setAccessibleName(tr("Messages"));
  tabs_->setAccessibleName(tr("Documents"));
  jobBar_->setAccessibleName(tr("Progress"));
  setTexts(jobCancel_, tr("Cancel"));
  statusBar()->setAccessibleName(tr("Status"));
  navigatorModel_->retranslate();
  alertModel_->retranslate();
  restyle();
  refreshNavigator();
  refreshTitles();
  refreshJobs();
  showStatus();
}

}  // namespace lockstep::ui
